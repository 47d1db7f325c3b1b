"""Matrix completion: time to a certified gap against accelerated soft-impute, memory at 20,000 x 5,000, error on Jester.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/completion.py [--data DIR] [--quick]

The rival is soft-impute (Mazumder, Hastie & Tibshirani 2010) with acceleration: W <- S_lambda(Y + P_Omega(M - Y)) with momentum and
restarts, where the singular values above lambda come from a partial SVD of "sparse plus low rank", started from the last vectors.
It is given what it usually does not have: the lambda that belongs to the radius, and a path of falling lambdas toward it (without
the path the first steps have hundreds of singular values, and it takes 10 times longer). Two forms of it are timed: with ARPACK,
as is usual, and with the block Krylov space and the compiled products of this library. All methods are judged by the same
certificate of the constrained problem, and pay for it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds
from threadpoolctl import threadpool_limits

import saddlery as sd
from saddlery.penalties.spectral import Sparse, leading_pairs

TOL = 1e-4
RESULTS = Path(__file__).parent / "results" / "completion.md"
BAR = 5.0


# --------------------------------------------------------------------------- data


class Data(NamedTuple):
    """Observed entries of a noisy low-rank matrix, and its nuclear norm."""

    rows: np.ndarray
    cols: np.ndarray
    y: np.ndarray
    shape: tuple[int, int]
    nuclear: float


def make(n: int, d: int, rank: int, entries: int, noise: float = 0.3, seed: int = 0) -> Data:
    """Gaussian factors, entries of variance 1, observed at random places."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((n, rank)) / rank**0.25, rng.standard_normal((d, rank)) / rank**0.25
    flat = np.unique(rng.integers(0, n * d, int(entries * 1.2)))
    flat = np.sort(rng.permutation(flat)[:entries])
    rows, cols = np.divmod(flat, d)
    y = np.einsum("ij,ij->i", A[rows], B[cols]) + noise * rng.standard_normal(len(rows))
    core = np.linalg.qr(A)[1] @ np.linalg.qr(B)[1].T
    return Data(rows.astype(np.int32), cols.astype(np.int32), y, (n, d), float(np.linalg.svd(core, compute_uv=False).sum()))


# --------------------------------------------------------------------------- rivals


class Plus:
    """A sparse matrix of fixed pattern plus A B', by its products; both orders of the sparse part are kept."""

    def __init__(self, problem: Any):
        self.problem, self.shape, self.products = problem, problem.shape, 0
        where = sp.csr_array((np.arange(1.0, problem.size + 1.0), problem.cols, problem.pattern.starts), shape=problem.shape)
        turned = where.T.tocsr()
        self.order = turned.data.astype(np.int64) - 1
        self.by_row, self.by_column = where, turned

    def set(self, values: np.ndarray, A: np.ndarray, B: np.ndarray) -> None:
        """New values on the pattern, new factors."""
        self.by_row.data[:], self.by_column.data[:] = values, values[self.order]
        self.sparse = Sparse(self.problem.pattern, values, self.shape)
        self.A, self.B = A, B

    def times(self, X: np.ndarray) -> np.ndarray:
        self.products += X.shape[1]
        return self.sparse.times(X) + self.A @ (self.B.T @ X)

    def back(self, X: np.ndarray) -> np.ndarray:
        self.products += X.shape[1]
        return self.sparse.back(X) + self.B @ (self.A.T @ X)

    def operator(self) -> LinearOperator:
        """For ARPACK: single vectors, by SciPy."""

        def times(x: np.ndarray) -> np.ndarray:
            self.products += 1
            return self.by_row @ x + self.A @ (self.B.T @ x)

        def back(x: np.ndarray) -> np.ndarray:
            self.products += 1
            return self.by_column @ x + self.B @ (self.A.T @ x)

        return LinearOperator(self.shape, matvec=times, rmatvec=back, dtype=np.float64)


def arpack(matrix: Plus, count: int, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leading `count` singular triples by SciPy's ARPACK, from a mix of the last vectors."""
    u, sigma, vt = svds(matrix.operator(), k=count, v0=start.sum(axis=1), tol=1e-3)
    falling = np.argsort(-sigma)
    return u[:, falling], sigma[falling], vt[falling].T


def krylov(matrix: Plus, count: int, start: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The leading `count` singular triples from a block Krylov space of this library, started from the last vectors."""
    fresh = np.random.default_rng(count).standard_normal((matrix.shape[1], max(count + 3 - start.shape[1], 1)))
    u, sigma, v = leading_pairs(matrix, np.hstack([start, fresh]), 2)
    return u[:, :count], sigma[:count], v[:, :count]


def soft_impute(
    problem: Any, lam: float, decompose: Any, tol: float = TOL, path: int = 6, most: int = 2000
) -> tuple[float, int, float]:
    """Accelerated soft-impute with restarts: CPU seconds, steps and the certified relative gap reached."""
    began = time.process_time()
    radius, size = problem.radius, problem.size
    matrix = Plus(problem)
    rng = np.random.default_rng(0)
    matrix.set(problem.y, np.zeros((problem.shape[0], 0)), np.zeros((problem.shape[1], 0)))
    top = float(decompose(matrix, 1, rng.standard_normal((problem.shape[1], 1)))[1][0])
    W = before = sd.LowRank.zero(problem.shape)
    z = before_z = np.zeros(size)
    start, momentum, steps = rng.standard_normal((problem.shape[1], 1)), 1.0, 0
    levels = np.geomspace(0.7 * top, lam * size, path) if 0.7 * top > lam * size else [lam * size]
    for at, level in enumerate(levels):
        while steps < most:
            grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = (momentum - 1.0) / grown
            z_here = z + ahead * (z - before_z)
            factors = np.hstack([(1.0 + ahead) * W.U * W.sigma, -ahead * before.U * before.sigma]), np.hstack([W.V, before.V])
            matrix.set(problem.y - z_here, *factors)
            count = W.rank + 2
            while True:
                u, sigma, v = decompose(matrix, count, start)
                if sigma[-1] <= level or count >= min(problem.shape) - 1:
                    break
                count, start = min(count + max(5, count // 2), min(problem.shape) - 1), v
            rank = int(np.count_nonzero(sigma > level))
            start = v[:, : rank + 2]
            before, before_z = W, z
            W = sd.LowRank(u[:, :rank], sigma[:rank] - level, v[:, :rank])
            z = problem.margins(W)
            momentum = 1.0 if (z_here - z) @ (z - before_z) > 0.0 else grown
            steps += 1
            moved = float(np.linalg.norm(z - before_z) / max(np.linalg.norm(z), 1e-300))
            if at < len(levels) - 1:
                if moved < 0.05:
                    break
            elif steps % 3 == 0 and moved < 0.02:
                inside = W._replace(sigma=W.sigma * min(1.0, radius / max(float(W.sigma.sum()), 1e-300)))
                a = problem.slopes(problem.margins(inside))
                G = problem.gradient(a)
                guess = leading_pairs(G, np.hstack([W.V, rng.standard_normal((problem.shape[1], 2))]), 1)[1][0]
                primal, dual = problem.evaluate(sd.solvers.Point(inside, 0.0, a, Xta=float(guess)))
                if primal - dual.value <= 0.98 * tol * problem.scale:
                    certificate = problem.certify(inside, a)
                    if certificate.relative_gap <= tol:
                        return time.process_time() - began, steps, certificate.relative_gap
    return time.process_time() - began, steps, math.inf


def frank_wolfe(problem: Any, seconds: float) -> tuple[float, int, float]:
    """Classical Frank-Wolfe with line search (squared loss), for so many seconds: what the corrections are worth."""
    began = time.process_time()
    z, U, V, weights = np.zeros(problem.size), [], [], []
    v, best, steps = np.random.default_rng(0).standard_normal((problem.shape[1], 3)), math.inf, 0
    while time.process_time() - began < seconds:
        a = problem.slopes(z)
        G = problem.gradient(a)
        u, sigma, v = leading_pairs(G, v[:, :3], 3)
        gap = float(G.values @ z) + problem.radius * float(sigma[0])
        best = min(best, gap / problem.scale)
        atom = problem.entries(-problem.radius * u[:, :1], v[:, :1])
        move = atom - z
        t = min(1.0, gap / float(problem.s @ (move * move)))
        z = z + t * move
        weights = [(1.0 - t) * weight for weight in weights] + [t]
        U.append(u[:, 0])
        V.append(v[:, 0])
        steps += 1
    return time.process_time() - began, steps, best


# --------------------------------------------------------------------------- the three parts


def against_soft_impute(quick: bool) -> list[str]:
    """Part (a): CPU seconds to a certified gap of 1e-4."""
    warm = make(300, 250, 3, 9_000)
    sd.solve(sd.CompletionProblem(warm.rows, warm.cols, warm.y, warm.shape, 0.8 * warm.nuclear), tol=TOL)
    lines = [
        "| radius / true norm | seed | rank | low_rank: s (rounds) | soft-impute, ARPACK: s (steps) | ratio "
        "| soft-impute, our kernels: s (steps) | ratio | Frank-Wolfe, 5 x our time: gap |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for share in (0.8,) if quick else (0.8, 0.9, 1.0):
        for seed in range(1 if quick else 3):
            data = make(1000, 800, 5, 80_000, seed=seed)
            times = []
            for _ in range(3):
                began = time.process_time()
                problem = sd.CompletionProblem(data.rows, data.cols, data.y, data.shape, share * data.nuclear)
                solution = sd.solve(problem, tol=TOL)
                times.append(time.process_time() - began)
            assert solution.status is sd.Status.CONVERGED
            assert solution.certificate.basis == "exact"
            ours = float(np.median(times))
            z = problem.margins(solution.w)
            lam = -float(problem.gradient(solution.dual).values @ z) / problem.radius
            cells = [f"{share}", f"{seed}", f"{solution.w.rank}", f"{ours:.3f} ({solution.epochs})"]
            for decompose in (arpack, krylov):
                seconds, steps, gap = soft_impute(problem, lam, decompose)
                reached = "" if gap <= TOL else " not reached"
                cells += [f"{seconds:.2f} ({steps}){reached}", f"{seconds / ours:.1f}"]
            cells.append(f"{frank_wolfe(problem, 5.0 * ours)[2]:.1e}")
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def status(field: str) -> float:
    """A field of the status of this process, in bytes (Linux)."""
    found = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return 1024.0 * int(next(found))


def large_child(limit: int, quick: bool) -> None:
    """One large fit in a process of its own; prints what it took."""
    scale = 10 if quick else 1
    warm = make(300, 250, 3, 9_000)
    sd.solve(sd.CompletionProblem(warm.rows, warm.cols, warm.y, warm.shape, 0.8 * warm.nuclear, exact_limit=limit), tol=TOL)
    data = make(20_000 // scale, 5_000 // scale, 8, 2_000_000 // scale // (1 if scale == 1 else 4))
    Path("/proc/self/clear_refs").write_text("5")
    before, began = status("VmRSS"), time.process_time()
    problem = sd.CompletionProblem(data.rows, data.cols, data.y, data.shape, 0.8 * data.nuclear, exact_limit=limit)
    solution = sd.solve(problem, tol=TOL)
    seconds, above = time.process_time() - began, status("VmHWM") - before
    solving = solution.trace[-2].seconds if len(solution.trace) > 1 else 0.0
    print(
        json.dumps(
            {
                "shape": data.shape,
                "entries": problem.size,
                "seconds": seconds,
                "solving": solving,
                "above": above,
                "given": data.rows.nbytes + data.cols.nbytes + data.y.nbytes,
                "rank": solution.w.rank,
                "rounds": solution.epochs,
                "gap": solution.certificate.relative_gap,
                "basis": solution.certificate.basis,
                "status": solution.status.name,
            }
        )
    )


def large(quick: bool) -> list[str]:
    """Part (b): 20,000 x 5,000 with 2 million entries."""
    lines = [
        "| matrix | entries | certificate by | CPU s | rounds | rank | relative gap | given | peak above it | bytes per entry |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for limit, words in ((5_000, "factorisation (proof)"), (0, "randomised test")):
        command = [sys.executable, __file__, "--child", str(limit), *(["--quick"] if quick else [])]
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        assert out["status"] == "CONVERGED"
        n, d = out["shape"]
        cells = [f"{n:,} x {d:,}", f"{out['entries']:,}", words, f"{out['seconds']:.1f}", f"{out['rounds']}", f"{out['rank']}"]
        cells += [f"{out['gap']:.1e}", f"{out['given'] / 1e6:.0f} MB", f"{out['above'] / 1e6:.0f} MB"]
        cells.append(f"{out['above'] / out['entries']:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def means(train: Any, center: str, shape: tuple[int, int]) -> tuple[float, np.ndarray, np.ndarray]:
    """The means that `center` takes off."""
    rows, cols, y = train
    offset, by_row, by_column = float(y.mean()), np.zeros(shape[0]), np.zeros(shape[1])
    if center in ("rows", "both"):
        by_row = np.bincount(rows, y - offset, shape[0]) / np.maximum(np.bincount(rows, minlength=shape[0]), 1)
    if center == "both":
        by_column = np.bincount(cols, y - offset - by_row[rows], shape[1]) / np.maximum(np.bincount(cols, minlength=shape[1]), 1)
    return offset, by_row, by_column


def jester(folder: Path, quick: bool) -> list[str]:
    """Part (c): RMSE on held-out ratings; both methods are chosen on one validation split and fitted again on all but the test."""
    with lzma.open(folder / "jester5k" / "jester5k.tsv.xz", "rt") as file:
        table = np.loadtxt(file)
    rows, cols, y = table[:, 0].astype(np.int32) - 1, table[:, 1].astype(np.int32) - 1, table[:, 2]
    shape = (int(rows.max()) + 1, int(cols.max()) + 1)
    draw = np.random.default_rng(0).random(len(y))
    parts = {"test": draw < 0.2, "validation": (draw >= 0.2) & (draw < 0.3), "train": draw >= 0.3, "all": draw >= 0.2}
    split = {name: (rows[part], cols[part], y[part]) for name, part in parts.items()}

    def rmse(predicted: np.ndarray, part: str) -> float:
        return float(np.sqrt(np.mean((predicted - split[part][2]) ** 2)))

    def truncated(part: str, center: str) -> Any:
        offset, by_row, by_column = means(split[part], center, shape)
        filled = np.zeros(shape)
        r, c, values = split[part]
        filled[r, c] = values - offset - by_row[r] - by_column[c]
        u, sigma, vt = np.linalg.svd(filled, full_matrices=False)

        def predict(k: int, where: str) -> np.ndarray:
            r, c, _ = split[where]
            return offset + by_row[r] + by_column[c] + np.einsum("ij,ij->i", (u[:, :k] * sigma[:k])[r], vt[:k].T[c])

        return predict

    lines = [
        "| means taken off | means only | truncated SVD: rank, RMSE | MatrixCompletion: radius, rank, RMSE | relative gap "
        "| CPU s, all radii |",
        "|---|---|---|---|---|---|",
    ]
    for center in ("both",) if quick else ("global", "rows", "both"):
        predict = truncated("train", center)
        rank = min(range(0, 41), key=lambda k: rmse(predict(k, "validation"), "validation"))
        predict = truncated("all", center)
        svd, plain = rmse(predict(rank, "test"), "test"), rmse(predict(0, "test"), "test")
        began, tried = time.process_time(), {}
        model = sd.MatrixCompletion(1.0, center=center, tol=TOL, warm_start=True, random_state=0)
        for radius in 1000.0 * 2.0 ** np.arange(0.0, 4.5, 1.0 if quick else 0.25):
            model.set_params(radius=radius).fit(split["train"], shape=shape)
            tried[radius] = rmse(model.predict(*split["validation"][:2]), "validation")
        radius = min(tried, key=tried.__getitem__)
        seconds = time.process_time() - began
        model = sd.MatrixCompletion(radius, center=center, tol=TOL, random_state=0).fit(split["all"], shape=shape)
        ours = rmse(model.predict(*split["test"][:2]), "test")
        cells = [center, f"{plain:.4f}", f"{rank}, {svd:.4f}", f"{radius:.0f}, {model.rank_}, **{ours:.4f}**"]
        cells += [f"{model.certificate_.relative_gap:.1e}", f"{seconds:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Run the parts and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with jester5k/jester5k.tsv.xz; without it that part is left out")
    parser.add_argument("--quick", action="store_true", help="smaller problems, one seed; nothing is written")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.child is not None:
            large_child(options.child, options.quick)
            return
        page = [
            "# Matrix completion",
            "",
            "Written by `benchmarks/completion.py`; CPU seconds of one thread, all methods in the same run.",
            "",
            f"## Certified relative gap {TOL:g}: 1000 x 800, rank 5, 10 % observed, noise 0.3",
            "",
            f"Bar: {BAR:g} times faster than accelerated soft-impute at 0.8 of the true nuclear norm. All certificates are proved.",
            "Soft-impute is told the multiplier of the solution and follows a path to it; see the head of the script.",
            "",
            *against_soft_impute(options.quick),
            "",
            "## Size",
            "",
            "Rank 8, noise 0.3, 0.8 of the true nuclear norm. The proof needs half a square of the smaller side, 100 MB here; the",
            "randomised test does not.",
            "",
            *large(options.quick),
        ]
        if options.data is not None:
            page += [
                "",
                "## Jester: 5,000 users, 100 jokes, 363,209 ratings from -9.95 to 9.9",
                "",
                "RMSE on a fifth of the ratings; radius and rank chosen on a tenth, then fitted to all but the test ratings.",
                "",
                *jester(options.data, options.quick),
            ]
    if not options.quick:
        RESULTS.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
