"""Claims of docs/errata.md, checked: Algorithm 1 of the doubly-greedy paper in plain NumPy, as printed and as corrected.

Run: python examples/doubly_greedy_errata.py
"""

import functools

import numpy as np

import saddlery as sd

# 1. The smooth hinge as printed is not even continuous.


def printed_hinge(m):
    return 0.0 if m >= 1 else (0.5 - m if m <= 0 else (0.5 - m) ** 2)


eps, ours = 1e-9, sd.losses.SmoothHinge(1.0)
jumps = [abs(printed_hinge(m - eps) - printed_hinge(m + eps)) for m in (0.0, 1.0)]
smooth = [abs(ours.value(1.0, m - eps) - ours.value(1.0, m + eps)) for m in (0.0, 1.0)]
print(f"1. jumps of the smooth hinge at margins 0 and 1: printed {jumps[0]:.2f} and {jumps[1]:.2f}, here {max(smooth):.0e}")
assert min(jumps) > 0.2
assert max(smooth) < 1e-8


# 2. to 4. Algorithm 1, as printed in places, or corrected.


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)


def dual_error(problem, y, best):
    """1 - D(y) / D*: 1 at y = 0, 0 at the optimum."""
    return 1.0 - problem.dual(y) / best


def never(step, y):
    return False


def near_enough(problem, best, step, y):
    return step % 10 == 0 and dual_error(problem, y, best) <= 1e-3


def algorithm_1(A, b, lam, mu, *, step_as_printed=False, choice="move", stop=never, max_steps=3000):
    """The last y, the steps, and how many of them left y as it was; letters of the paper, smooth hinge with gamma = 1."""
    n, d = A.shape
    x, y, w, z = np.zeros(d), np.zeros(n), np.zeros(n), np.zeros(d)
    eta = n * n * mu / np.max(np.sum(A * A, axis=1))
    idle = 0
    for step in range(max_steps):
        if stop(step, y):
            return y, step, idle
        xbar = soft(-z / n, lam) / mu
        g_bar, g = lam * np.abs(xbar) + mu / 2 * xbar**2, lam * np.abs(x) + mu / 2 * x**2
        j = np.argmin(z / n * (xbar - x) + g_bar - g)
        w_before = w.copy()
        w += (xbar[j] - x[j]) * A[:, j]
        x[j] = xbar[j]
        if step_as_printed:  # (8): argmax of w beta / n - phi*(beta) - (beta - y)^2 / (2 eta)
            trial = (y / eta + w / n - b) / (1 + 1 / eta)
        else:  # phi* has the factor 1 / n, too
            trial = (y + eta / n * (w - b)) / (1 + eta / n)
        trial = b * np.clip(b * trial, -1.0, 0.0)
        scores = {
            "printed": np.abs(w_before - (b + y) / n),  # (7); the derivative of phi* is b + y
            "plain": np.abs(w - (b + y)),  # current w, and 1 / n in common
            "move": np.abs(trial - y),  # what the row would really do, as in this library
        }[choice]
        i = np.argmax(scores)
        idle += trial[i] == y[i]
        z += (trial[i] - y[i]) * A[i]
        y[i] = trial[i]
    return y, max_steps, idle


def data(n, d=40, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, d))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    return A, np.sign(A[:, :3].sum(axis=1) + 0.1 * rng.standard_normal(n))


def exact(A, b, lam, mu):
    """The problem and its solution, certified to 1e-12."""
    penalty = sd.penalties.ElasticNet(lam + mu, lam / (lam + mu))
    problem = sd.LinearProblem(A, b, loss=ours, penalty=penalty)
    return problem, sd.solve(problem, tol=1e-12)


A, b = data(60)
problem, solution = exact(A, b, lam=0.01, mu=0.01)
best = solution.certificate.dual


def after_3000_steps(**options):
    y, _, idle = algorithm_1(A, b, 0.01, 0.01, **options)
    return dual_error(problem, y, best), idle


printed, _ = after_3000_steps(step_as_printed=True)
corrected, _ = after_3000_steps()
print(f"2. relative dual error after 3000 steps: (8) as printed {printed:.1e}, corrected {max(corrected, 0.0):.1e}")
assert printed > 1e-3
assert corrected < 1e-8

print("3. choice of the row, relative dual error after 3000 steps, and how many of them changed nothing")
for choice in ("printed", "plain", "move"):
    error, idle = after_3000_steps(choice=choice)
    print(f"   {choice:8s} {max(error, 0.0):.1e}  {idle}")

print("4. corrected steps to a relative dual error of 1e-3, next to the order that Theorem 4.2 claims")
for n in (100, 400, 1600):
    A, b = data(n)
    mu = 1.2 * 100 / n  # so kappa / n is the same for every n, and small
    problem, solution = exact(A, b, lam=0.05, mu=mu)
    near = functools.partial(near_enough, problem, solution.certificate.dual)
    _, steps, _ = algorithm_1(A, b, 0.05, mu, stop=near, max_steps=100_000)
    s, kappa = np.count_nonzero(solution.w), 1.0 / mu
    claim = s * (1 + kappa / n) * np.log(1e3)
    rows = np.count_nonzero(solution.dual)
    print(f"   n={n:<5} non-zeros of x* {s}, of y* {rows}, kappa/n {kappa / n:.4f}: {steps} steps, claim {claim:.0f}")
    assert steps > 0.9 * rows > claim
