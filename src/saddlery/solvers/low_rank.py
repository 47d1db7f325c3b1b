"""Matrix completion over the nuclear-norm ball: span-corrective steps and Newton refinement of the factors.

One round (a step) does this, with G the gradient at the current matrix W = U diag(sigma) V':

1. *Correct.* The span of (U, V) is enlarged by those singular pairs of G outside of it whose singular value exceeds the
   multiplier lam: the atoms of Frank-Wolfe steps, several at once. Inside the new span the core C of W = Q1 C Q2' is moved by a few
   accelerated projected gradient steps; the projection sets singular values to zero, so the rank falls as well as it grows.
2. *Refine.* With A = U sqrt(sigma), B = V sqrt(sigma) and x = (A, B) the problem is min f(A B') over ||x||^2 / 2 <= radius, because
   the least of (||A||^2 + ||B||^2) / 2 over all factorisations is the nuclear norm (Srebro et al. 2004). On the border of that
   ball truncated Newton steps with the Lagrangian f + lam ||x||^2 / 2 turn the subspaces, which the core cannot. Every point is
   feasible, so it certifies.
3. *Look.* The leading pairs of G outside of the span are computed for the next round, in a short block Krylov space started from
   the last ones; with the span itself they also give the Ritz value that stands for sigma_1(G) until the certificate is confirmed.

At the optimum the leading singular values of G coincide (all equal lam on the span), so no method should wait for single vectors:
the span is left out of the Krylov space, and outside of it any vector with a value above lam serves.

=========  =====================================================  ==============================================================
here       meaning                                                letters elsewhere
=========  =====================================================  ==============================================================
W          LowRank(U, sigma, V)                                   Z of soft-impute, X of Frank-Wolfe papers
z          observed entries of W                                  P_Omega(Z)
G          sparse gradient, s_i l'(y_i, z_i)                      minus P_Omega(residual) / abs(Omega)
lam        multiplier, -<G, W> / radius; sigma_1(G) at the end    lambda of the penalised form lambda ||W||_*
x          the factors (A, B), one above the other                (U, V) of Burer and Monteiro
=========  =====================================================  ==============================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl

from saddlery.parts import kernel
from saddlery.penalties.nuclear_ball import LowRank, project_singular_values
from saddlery.penalties.spectral import leading_pairs, orthonormal
from saddlery.point import Point
from saddlery.solvers.base import Needs, Solver, State

__all__ = ["LowRankCorrective"]

ROUND = 4e-16  # relative to the loss: what a sum may be off by
INSIDE = 1e-9  # a norm this much below the radius, relatively, is in the inner of the ball
ENOUGH = 0.01  # of the squared gradient that a round of Newton steps began with
TRIM = 1e-9  # singular values below this share of the largest are dropped
SLOW = 0.5  # of it: then steps of conjugate gradients are doubled, up to
MOST_CG = 100
DAMPING = 0.03  # of the Newton steps in the inner of the ball
STALL = 3  # rounds without any progress


# --------------------------------------------------------------------------- kernels


@kernel
def expand_entries(loss, y, s, z, slope, curvature):
    """slope_i = s_i l'(y_i, z_i) and curvature_i = s_i l''(y_i, z_i)."""
    for i in range(y.shape[0]):
        _, first, second = loss.expand(y[i], z[i])
        slope[i] = s[i] * first
        curvature[i] = s[i] * second


@kernel(fast_sums=True)
def factor_gradient(pattern, g, A, B, outA, outB):
    """outA = G B, outB = G'A."""
    outB[:] = 0.0
    for r in range(A.shape[0]):
        for j in range(A.shape[1]):
            outA[r, j] = 0.0
        for q in range(pattern.starts[r], pattern.starts[r + 1]):
            c, value = np.uint64(pattern.indices[q]), g[q]
            for j in range(A.shape[1]):
                outA[r, j] += value * B[c, j]
                outB[c, j] += value * A[r, j]


@kernel(fast_sums=True)
def factor_hessian(pattern, g, curvature, A, B, dA, dB, outA, outB, dz):
    """dz = entries of dA B' + A dB', and the second derivative of f(A B') along (dA, dB): with H = curvature dz as a sparse matrix,

    outA = H B + G dB, outB = H'A + G'dA.
    """
    outB[:] = 0.0
    for r in range(A.shape[0]):
        for j in range(A.shape[1]):
            outA[r, j] = 0.0
        for q in range(pattern.starts[r], pattern.starts[r + 1]):
            c = np.uint64(pattern.indices[q])
            total = 0.0
            for j in range(A.shape[1]):
                total += dA[r, j] * B[c, j] + A[r, j] * dB[c, j]
            dz[q] = total
            value, h = g[q], curvature[q] * total
            for j in range(A.shape[1]):
                outA[r, j] += h * B[c, j] + value * dB[c, j]
                outB[c, j] += h * A[r, j] + value * dA[r, j]


@kernel
def entry_sums(pattern, values, by_row, by_column):
    """Sums of the entries of each row and of each column."""
    by_column[:] = 0.0
    for r in range(by_row.shape[0]):
        total = 0.0
        for q in range(pattern.starts[r], pattern.starts[r + 1]):
            total += values[q]
            by_column[np.uint64(pattern.indices[q])] += values[q]
        by_row[r] = total


# --------------------------------------------------------------------------- state


class _State(State):
    """The matrix, what is known of its gradient, and what adapts."""

    def __init__(self, W: LowRank, z: np.ndarray, rng: np.random.Generator, block: int, cg_steps: int):
        self.W, self.z, self.rng, self.block, self.cg_steps = W, z, rng, block, cg_steps
        self.value = math.inf
        self.a = np.empty(0)
        self.top = 0.0  # Ritz value of sigma_1(G)
        self.lam = 0.0
        self.pairs: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self.step = 0.0  # of the core; 0 before the first
        self.idle = 0
        self.oracle_calls = self.products = self.newton_steps = 0

    @property
    def counts(self) -> dict[str, float]:
        """Searches for new pairs; products of G or of a second derivative with a matrix as wide as the span; Newton steps."""
        return {"oracle_calls": self.oracle_calls, "products": self.products, "newton_steps": self.newton_steps}


# --------------------------------------------------------------------------- the solver


@dataclass(frozen=True)
class LowRankCorrective(Solver):
    """Span-corrective Frank-Wolfe steps with Newton refinement of the factors, for matrix completion.

    Parameters
    ----------
    block : int
        Pairs looked for at once, at least; half the rank if that is more.
    krylov_steps : int
        Length of the block Krylov space in which they are looked for.
    core_steps : int
        Accelerated projected gradient steps on the core in a round.
    newton_steps, cg_steps : int
        Newton steps in a round at most, and steps of conjugate gradients in each; these are doubled where they are too few.
    """

    block: int = 8
    krylov_steps: int = 3
    core_steps: int = 5
    newton_steps: int = 3
    cg_steps: int = 10

    name = "low_rank"
    paper = "atoms of Frank-Wolfe (Jaggi & Sulovsky 2010), corrective rounds, Newton steps on factors (Burer & Monteiro 2003)"
    needs = Needs(
        kind="completion", loss=("slope", "curvature", "expand", "conjugate"), penalty=("value", "conjugate"), smooth=True
    )

    def init(self, problem: Any, start: Point | None, rng: np.random.Generator) -> _State:
        W = problem.first_point().w if start is None else start.w
        state = _State(W, problem.margins(W), rng, self.block, self.cg_steps)
        self._look(problem, state)
        return state

    def step(self, problem: Any, state: _State) -> None:
        before, rank = state.value, state.W.rank
        A, B, z = self._correct(problem, state)
        if A.shape[1]:
            A, B, z = self._refine(problem, state, A, B, z)
        W = LowRank(A, np.ones(A.shape[1]), B).compress()
        kept = int(np.count_nonzero(W.sigma > TRIM * W.sigma.max(initial=0.0)))
        state.W = LowRank(W.U[:, :kept], _within(W.sigma[:kept], problem.radius), W.V[:, :kept])
        state.z = problem.margins(state.W)
        state.accesses += problem.size
        idle = problem.loss_value(state.z) >= before * (1.0 - ROUND) and state.W.rank <= rank
        state.idle = state.idle + 1 if idle else 0
        state.stalled = state.idle >= STALL
        self._look(problem, state)

    def point(self, problem: Any, state: _State) -> Point:
        return Point(state.W, 0.0, state.a, Xw=state.z, Xta=state.top, loss=state.value)

    # -- 3. look

    def _look(self, problem: Any, state: _State) -> None:
        """Gradient, multiplier and leading pairs of G outside of the span, and the Ritz value of sigma_1 on both together."""
        W = state.W
        state.value, state.a = problem.loss_value(state.z), problem.slopes(state.z)
        G = problem.gradient(state.a)
        state.lam = max(0.0, -float(G.values @ state.z) / problem.radius)
        state.block = max(state.block, W.rank // 2)
        # The last pairs are a good start also where they went into the span: what is left of them shows where the span should turn.
        known = np.zeros((problem.shape[1], 0)) if state.pairs is None else state.pairs[2][:, : state.block - 1]
        fresh = state.rng.standard_normal((problem.shape[1], state.block - known.shape[1]))  # one at least: all may be elsewhere
        start = np.hstack([known, fresh])
        steps = self.krylov_steps + (state.pairs is None)
        # Without progress the span is no longer left out: what G does between it and the rest is else left to the Newton steps.
        state.pairs = leading_pairs(G, start, steps, *((W.U, W.V) if state.idle == 0 else (None, None)))
        span = np.hstack([W.V, orthonormal(state.pairs[2][:, : state.block], W.V)])
        state.top = float(sl.svdvals(G.times(span), check_finite=False)[0]) if span.shape[1] else 0.0
        state.oracle_calls += 1
        state.products += 2 * steps + 2
        state.accesses += problem.size * (2 * steps + 4)

    # -- 1. correct

    def _correct(self, problem: Any, state: _State) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Factors (A, B) and entries of the best matrix found in the span of W and of the new pairs (FISTA with restarts)."""
        W = state.W
        u, sigma, v = state.pairs  # type: ignore[misc]
        count = min(int(np.count_nonzero(sigma > state.lam * (1.0 + 1e-7))), max(self.block, W.rank))
        count = max(count, min(self.block, len(sigma))) if state.idle else count
        Q1 = np.hstack([W.U, orthonormal(u[:, :count], W.U)])
        Q2 = np.hstack([W.V, orthonormal(v[:, :count], W.V)])
        core = np.zeros((Q1.shape[1], Q2.shape[1]))
        core[: W.rank, : W.rank] = np.diag(W.sigma)
        best = (state.value, W.U * np.sqrt(W.sigma), W.V * np.sqrt(W.sigma), state.z)
        if not core.size:
            return best[1:]
        # Were all entries observed, f would have the curvature 1 / cells: where the sample is fair, it nearly has. Where the loss
        # is linear there is less, so the step may grow.
        step = state.step if state.step > 0.0 else problem.shape[0] * problem.shape[1] / problem.loss.smoothness
        shrunk = False
        last_core, z, last_z, momentum = core, state.z, state.z, 1.0
        for _ in range(self.core_steps):
            grown = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
            ahead = (momentum - 1.0) / grown
            here, z_here = core + ahead * (core - last_core), z + ahead * (z - last_z)
            value = problem.loss_value(z_here)
            slope = Q1.T @ problem.gradient(problem.slopes(z_here)).times(Q2)
            while True:
                p, found, qt = sl.svd(here - step * slope, full_matrices=False, check_finite=False)
                found = project_singular_values(found, problem.radius)
                kept = found > 0.0
                root = np.sqrt(found[kept])
                A, B = Q1 @ (p[:, kept] * root), Q2 @ (qt[kept].T * root)
                new_core, new_z = (p[:, kept] * found[kept]) @ qt[kept], problem.entries(A, B)
                move, new_value = new_core - here, problem.loss_value(new_z)
                state.accesses += problem.size
                model = value + float(np.vdot(slope, move)) + 0.5 / step * float(np.vdot(move, move))
                if new_value <= model + ROUND * abs(value) or not move.any():
                    break
                step, shrunk = 0.5 * step, True
            momentum = 1.0 if np.vdot(here - new_core, new_core - core) > 0.0 else grown
            last_core, core, last_z, z = core, new_core, z, new_z
            state.products += 1
            state.accesses += problem.size
            if new_value < best[0]:
                best = (new_value, A, B, new_z)
        state.step = step if shrunk else 2.0 * step
        return best[1:]

    # -- 2. refine

    def _refine(
        self, problem: Any, state: _State, A: np.ndarray, B: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Newton steps on the factors until the gradient is small, or the budget of the round is used up."""
        n = A.shape[0]
        x, first = np.vstack([A, B]), 0.0
        for count in range(self.newton_steps):
            x, z, decrement = _newton_step(problem, state, x, z, state.cg_steps)
            first = decrement if count == 0 else first
            if decrement <= ENOUGH * first or decrement <= 1e-14 * problem.scale:
                break
        else:
            if self.newton_steps > 1 and decrement > SLOW * first:  # badly conditioned
                state.cg_steps = min(2 * state.cg_steps, MOST_CG)
        return x[:n], x[n:], z


def _within(sigma: np.ndarray, radius: float) -> np.ndarray:
    """Singular values that rounding may have brought out of the ball, back inside."""
    total = float(sigma.sum())
    return sigma * (radius / total) if total > radius else sigma


def _newton_step(problem: Any, state: _State, x: np.ndarray, z: np.ndarray, cg_steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """A truncated Newton step on F(x) = f(A B') over ||x||^2 / 2 <= radius: new x, its entries, the squared length of the gradient.

    On the border the step is one along the sphere: (F'' + lam I) d = -(F' + lam x) over d orthogonal to x, then x + t d is scaled
    back. The entries of A B' along the step are a parabola in t, so that trying t costs no product.
    """
    n, radius = problem.shape[0], problem.radius
    g, curvature = np.empty(problem.size), np.empty(problem.size)
    expand_entries(problem.loss, problem.y, problem.s, z, g, curvature)
    gradient = np.empty_like(x)
    factor_gradient(problem.pattern, g, x[:n], x[n:], gradient[:n], gradient[n:])
    half = 0.5 * float(np.vdot(x, x))
    lam = max(0.0, -float(g @ z) / half) if half >= radius * (1.0 - INSIDE) else 0.0
    gradient += lam * x
    # In the inner of the ball there may be no curvature at all; damping that vanishes with the gradient keeps steps in bounds.
    shift = lam if lam > 0.0 else DAMPING * math.sqrt(float(np.vdot(gradient, gradient)) / (2.0 * half))
    solve = _preconditioner(problem, x, curvature, lam, shift)
    direction, dz, decrement = _conjugate_gradients(problem, state, x, g, curvature, shift, gradient, solve, cg_steps)
    z2 = problem.entries(direction[:n], direction[n:])
    value, slope = problem.loss_value(z), float(np.vdot(gradient, direction))
    t, scale, new_z = 1.0, 1.0, z
    while t >= 1e-10:
        moved = x + t * direction
        size = 0.5 * float(np.vdot(moved, moved))
        scale = radius / size if lam > 0.0 or size > radius else 1.0
        new_z = scale * (z + t * dz + t * t * z2)
        if problem.loss_value(new_z) <= value + 1e-4 * t * slope + ROUND * value:
            break
        t *= 0.5
    else:
        return x, z, 0.0
    state.newton_steps += 1
    state.accesses += 3 * problem.size
    return math.sqrt(scale) * moved, new_z, decrement


def _preconditioner(problem: Any, x: np.ndarray, curvature: np.ndarray, lam: float, shift: float) -> Any:
    """v -> M^-1 v, where M has a block for each row of A and of B.

    The block of row r of A is sum_c h_rc B_c B_c' + shift I over its entries; it is replaced by (sum_c h_rc) E + shift I, with E
    the mean of B_c B_c' over all columns c, weighted by their curvature. One eigenbasis then serves all rows.
    """
    n = problem.shape[0]
    by_row, by_column = np.empty(n), np.empty(problem.shape[1])
    entry_sums(problem.pattern, curvature, by_row, by_column)
    total = max(float(by_row.sum()), 1e-300)
    sides = []
    for own, weights, other in ((by_row, by_column, x[n:]), (by_column, by_row, x[:n])):
        eigen, basis = sl.eigh((other * weights[:, None]).T @ other / total, check_finite=False)
        scales = np.outer(own, np.maximum(eigen, 0.0))
        ridge = max(shift, 1e-9 * float(scales.max(initial=0.0)), 1e-300)
        sides.append((basis, 1.0 / (scales + ridge)))
    (left, by_left), (right, by_right) = sides

    def solve(v: np.ndarray) -> np.ndarray:
        out = np.empty_like(v)
        np.matmul((v[:n] @ left) * by_left, left.T, out=out[:n])
        np.matmul((v[n:] @ right) * by_right, right.T, out=out[n:])
        return out

    if lam == 0.0:
        return solve
    solved = solve(x)
    solved /= math.sqrt(float(np.vdot(x, solved)))
    return lambda v: solve(v) - float(np.vdot(solved, v)) * solved  # its range is orthogonal to x


def _conjugate_gradients(
    problem: Any,
    state: _State,
    x: np.ndarray,
    g: np.ndarray,
    curvature: np.ndarray,
    shift: float,
    gradient: np.ndarray,
    solve: Any,
    cg_steps: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """A direction d with (F'' + shift I) d near -gradient, the entries of dA B' + A dB', and gradient' M^-1 gradient."""
    n = problem.shape[0]
    rest = -gradient
    p = solve(rest)
    size = first = float(np.vdot(rest, p))
    direction, dz = np.zeros_like(x), np.zeros(problem.size)
    image, along = np.empty_like(x), np.empty(problem.size)
    for count in range(cg_steps):
        factor_hessian(problem.pattern, g, curvature, x[:n], x[n:], p[:n], p[n:], image[:n], image[n:], along)
        image += shift * p
        state.products += 1
        state.accesses += problem.size
        bend = float(np.vdot(p, image))
        if bend <= 0.0 or size <= 0.0:  # no minimum along p: far from the optimum, or at it
            if count == 0:
                direction, dz = p, along
            break
        step = size / bend
        direction += step * p
        dz += step * along
        rest -= step * image
        solved = solve(rest)
        new_size = float(np.vdot(rest, solved))
        if new_size <= 0.04 * first:
            break
        p = solved + (new_size / size) * p
        size = new_size
    return direction, dz, first
