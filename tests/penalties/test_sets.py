"""Every constraint: its oracle, conjugate and projection against a conic solver, brute force, and each other."""

import inspect
import itertools
import json
import math
import pickle

import numpy as np
import pytest

import saddlery as sd
from saddlery.errors import InputError
from saddlery.penalties import (
    Box,
    CappedSimplex,
    ElasticNetInBall,
    GroupBall,
    KSupport,
    L1Ball,
    L1InBall,
    L2Ball,
    L2InBall,
    Simplex,
)
from saddlery.penalties.base import EXCESS, atom_buffers
from saddlery.penalties.k_support import k_support_norm
from saddlery.penalties.selection import keep_largest
from saddlery.registry import PENALTIES

D = 12
RNG = np.random.default_rng(0)
GAUSSIAN = [RNG.standard_normal(D) * size for size in (0.05, 1.0, 20.0)]
TIES = [np.round(2 * RNG.standard_normal(D)) / 2, np.full(D, 0.5), np.full(D, -2.0)]
VECTORS = [*GAUSSIAN, *TIES, np.zeros(D), np.arange(D) == 3, -1e-200 * (np.arange(D) > 4), 1e200 * GAUSSIAN[1]]
VECTORS = [np.asarray(v, dtype=float) for v in VECTORS]
MODERATE = [v for v in VECTORS if np.max(np.abs(v)) < 1e100]
MORE = [
    CappedSimplex(1.2, cap=0.1),
    CappedSimplex(0.6, cap=0.2),
    CappedSimplex(1.0, cap=5.0),
    Box(np.linspace(-2.0, -1.0, D), -0.5),
    GroupBall(1.0, groups=np.arange(D)),
    GroupBall(1.0, groups=np.zeros(D, dtype=int), weights=[3.0]),
    KSupport(1.3, k=1),
    KSupport(1.3, k=D - 1),
    KSupport(1.3, k=50),
    L1InBall(0.8, 2.0),
    L2InBall(3.0, 0.4),
    ElasticNetInBall(0.5, 0.0, 0.4),
    ElasticNetInBall(0.5, 1.0, 0.4),
]


@pytest.fixture(params=MORE, ids=str)
def variant(request):
    """Border cases: no room, no bound, equal to another set."""
    return request.param


def points_of(penalty, count=20, seed=1):
    """Points of the set, by convex combinations of atoms."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        atoms = [penalty.linear_oracle(rng.standard_normal(D)) for _ in range(5)]
        yield rng.dirichlet(np.ones(5)) @ np.array(atoms)


def test_the_table_covers_the_registry(all_sets):
    names = [name for name in PENALTIES.names() if hasattr(PENALTIES.get(name), "atom")]
    assert list(all_sets) == names
    for name, penalty in all_sets.items():
        assert PENALTIES.name_of(penalty) == name
        penalty.check()
        if hasattr(penalty, "check_columns"):
            penalty.check_columns(D)


# --------------------------------------------------------------------------- the oracle


def assert_oracle(penalty, c, best):
    """The argument is feasible and attains the value, which is minus the conjugate at -c."""
    w = penalty.linear_oracle(c)
    tol = 1e-8 * max(1.0, np.max(np.abs(c)))
    assert math.isfinite(penalty.value(w))
    assert c @ w + penalty.value(w) == pytest.approx(best, abs=tol)
    assert -penalty.conjugate(-c) == pytest.approx(best, abs=tol)
    assert penalty.conjugate(c, -1.0) == pytest.approx(-best, abs=tol)


def test_oracle_against_a_conic_solver(any_set, conic):
    for c in MODERATE:
        assert_oracle(any_set, c, conic(any_set, D, lambda cp, w, c=c: c @ w)[1])


def test_oracle_of_border_cases(variant, conic):
    variant.check()
    for c in [GAUSSIAN[1], TIES[0], np.zeros(D)]:
        assert_oracle(variant, c, conic(variant, D, lambda cp, w, c=c: c @ w)[1])


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_k_support_by_enumeration(k):
    """The set is the convex hull of all k-sparse vectors of length radius: a minimum over supports, and no formula."""
    penalty = KSupport(1.7, k)
    for c in [v[:6] for v in MODERATE]:
        best = min(-1.7 * np.linalg.norm(c[list(support)]) for support in itertools.combinations(range(6), k))
        assert_oracle(penalty, c, best)
        # the norm is the largest w.u over u whose k largest entries have length 1 at most: never above the formula, and met by it
        w = GAUSSIAN[1][:6]
        assert w @ c <= k_support_norm(w, k) * -best / 1.7 + 1e-12


def test_capped_simplex_by_enumeration():
    """The corners have cap, cap, and what is left."""
    penalty = CappedSimplex(1.0, 0.4)
    for c in [v[:5] for v in MODERATE]:
        best = min(0.4 * c[i] + 0.4 * c[j] + 0.2 * c[l] for i, j, l in itertools.permutations(range(5), 3))
        assert_oracle(penalty, c, best)


def test_oracle_beats_every_point(any_set):
    for c in MODERATE:
        w = any_set.linear_oracle(c)
        best = c @ w + any_set.value(w)
        for point in points_of(any_set):
            assert best <= c @ point + any_set.value(point) + 1e-12 * (1 + np.abs(c).sum())


def test_oracle_of_extreme_sizes(any_set):
    """Gradients whose squares overflow or vanish have the atoms of their direction."""
    c = GAUSSIAN[1]
    for size in (1e-200, 1e200):
        w = any_set.linear_oracle(size * c)
        assert math.isfinite(any_set.value(w))
        if not any_set.threshold and not any_set.strong_convexity:
            np.testing.assert_allclose(w, any_set.linear_oracle(c), rtol=1e-12)


def test_a_zero_gradient_gives_a_point(any_set):
    w = any_set.linear_oracle(np.zeros(D))
    assert any_set.value(w) == min(any_set.value(point) for point in [w, *points_of(any_set)])
    assert any_set.conjugate(np.zeros(D)) == pytest.approx(-any_set.value(w))


def test_atoms_are_well_formed(any_set):
    """Indices rise, no entry is 0, and as many fit as the set says."""
    for c in VECTORS:
        index, value = atom_buffers(any_set, D)
        count = any_set.atom(c, index, value)
        assert 0 <= count <= any_set.atom_size(D) <= D
        assert np.all(np.diff(index[:count]) > 0)
        assert np.all(value[:count] != 0.0)
        w = np.zeros(D)
        w[index[:count]] = value[:count]
        assert any_set.atom_value(value, count) == pytest.approx(any_set.value(w), rel=1e-12)


TIED = np.array([0.0, 1.0, -2.0, 2.0, -2.0, 2.0, 1.0])


@pytest.mark.parametrize(
    ("penalty", "entries"),
    [
        (L1Ball(1.0), {2: 1.0}),
        (L1InBall(0.5, 1.0), {2: 1.0}),
        (Simplex(1.0), {2: 1.0}),
        (CappedSimplex(1.0, 0.8), {2: 0.8, 4: 0.2}),
        (CappedSimplex(1.0, 0.3), {0: 0.3, 1: 0.1, 2: 0.3, 4: 0.3}),
        (KSupport(1.0, 1), {2: 1.0}),
        (KSupport(math.sqrt(3.0), 3), {2: 1.0, 3: -1.0, 4: 1.0}),
        (GroupBall(1.0, [0, 0, 1, 2, 2, 1, 0]), {2: math.sqrt(0.5), 5: -math.sqrt(0.5)}),
        (GroupBall(1.0, [0, 0, 2, 1, 1, 2, 0]), {3: -math.sqrt(0.5), 4: math.sqrt(0.5)}),
    ],
    ids=str,
)
def test_of_equals_the_lowest_index(penalty, entries):
    w = penalty.linear_oracle(TIED)
    expected = np.zeros(7)
    expected[list(entries)] = list(entries.values())
    np.testing.assert_allclose(w, expected, atol=1e-15)


def test_a_weak_gradient_gives_the_zero_atom():
    for c in (np.zeros(4), np.full(4, 0.5), np.array([0.1, -0.5, 0.0, 0.5])):
        index, value = atom_buffers(L1InBall(0.5, 2.0), 4)
        assert L1InBall(0.5, 2.0).atom(c, index, value) == 0
        assert not ElasticNetInBall(1.0, 0.5, 2.0).linear_oracle(c).any()


def test_the_heap_keeps_the_largest():
    rng = np.random.default_rng(3)
    for most in (1, 2, 5, 30, 64):
        keys, heap, count = np.round(rng.standard_normal(64), 1), np.empty(most), 0
        for key in keys:
            count = keep_largest(L1Ball(1.0), heap, count, most, key)
        assert count == most
        assert heap[0] == np.sort(keys)[-most]
        np.testing.assert_array_equal(np.sort(heap), np.sort(keys)[-most:])


# --------------------------------------------------------------------------- conjugate, projection, value


def test_fenchel_young(any_set):
    """g(w) + g*(u) >= u.w, with equality at the atom of -u; the conjugate is convex along segments."""
    for u, other in itertools.product(MODERATE, MODERATE[:3]):
        conjugate = any_set.conjugate(u)
        slack = 1e-12 * (1.0 + np.abs(u).sum() + np.abs(other).sum())
        for w in points_of(any_set, 3):
            assert any_set.value(w) + conjugate >= u @ w - slack
        w = any_set.linear_oracle(-u)
        assert any_set.value(w) + conjugate == pytest.approx(u @ w, abs=slack)
        assert any_set.conjugate(0.3 * u + 0.7 * other) <= 0.3 * conjugate + 0.7 * any_set.conjugate(other) + slack
        assert any_set.dual_scale(u) == 1.0


def assert_prox(penalty, v, step):
    """Feasible, and (v - w) / step is a subgradient: nowhere in the set is there a better point."""
    w = penalty.prox(v, step)
    u = (v - w) / step
    assert math.isfinite(penalty.value(w))
    assert penalty.value(w) + penalty.conjugate(u) == pytest.approx(u @ w, abs=1e-10 * (1.0 + np.abs(u) @ np.abs(w)))
    for point in points_of(penalty, 5):
        assert u @ (point - w) <= penalty.value(point) - penalty.value(w) + 1e-10 * (1.0 + np.abs(u).sum())
    return w


@pytest.mark.parametrize("step", [1e-3, 0.7, 20.0])
def test_prox(any_set, step):
    for v in [*MODERATE, 1e6 * GAUSSIAN[1], 1e6 + GAUSSIAN[1]]:
        before = v.copy()
        w = assert_prox(any_set, v, step)
        np.testing.assert_array_equal(v, before)
        assert w is not v


@pytest.mark.parametrize("step", [1e-3, 0.7, 20.0])
def test_prox_of_border_cases(variant, step):
    for v in [*GAUSSIAN, *TIES, np.zeros(D)]:
        assert_prox(variant, v, step)


def test_prox_against_a_conic_solver(any_set, conic):
    for v in [*GAUSSIAN, TIES[0]]:
        w, best = conic(any_set, D, lambda cp, w, v=v: cp.sum_squares(w - v) / (2 * 0.7))
        mine = any_set.prox(v, 0.7)
        assert np.sum((mine - v) ** 2) / (2 * 0.7) + any_set.value(mine) == pytest.approx(best, rel=1e-8)
        np.testing.assert_allclose(mine, w, atol=1e-5 * (1 + np.max(np.abs(v))))  # the square root of an error in the value


def test_prox_leaves_points_of_a_set_alone(any_set):
    for point in points_of(any_set, 5):
        if not hasattr(any_set, "alpha"):
            np.testing.assert_allclose(any_set.prox(point, 1.0), point, atol=1e-14)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 11, 12, 50])
def test_projection_on_k_support_is_exact(k):
    """To rounding, by the conditions of optimality: v - w is in the normal cone of the ball at w."""
    penalty, rng = KSupport(0.9, k), np.random.default_rng(7)
    for trial in range(60):
        v = rng.standard_normal(D) * rng.choice([0.3, 1.0, 100.0])
        v = np.round(v, 1) if trial % 3 == 0 else v
        w = penalty.prox(v, 1.0)
        assert k_support_norm(w, k) <= 0.9 * (1 + 1e-13)
        assert penalty.conjugate(v - w) == pytest.approx((v - w) @ w, rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_k_support_norm_against_its_dual(k, conic):
    """||w|| is the smallest radius of a ball that holds w: by the conic form, and by the largest u.w over the dual ball."""
    import cvxpy as cp

    for w in [*GAUSSIAN, TIES[0]]:
        theta = cp.Variable(D)
        total = cp.sum([cp.quad_over_lin(float(w[i]), theta[i]) for i in range(D)])
        model = cp.Problem(cp.Minimize(total), [theta <= 1, cp.sum(theta) <= k])
        model.solve(solver=cp.CLARABEL)
        assert k_support_norm(w, k) == pytest.approx(math.sqrt(model.value), rel=1e-6)
    assert k_support_norm(GAUSSIAN[1], 1) == pytest.approx(np.abs(GAUSSIAN[1]).sum())
    assert k_support_norm(GAUSSIAN[1], D) == pytest.approx(np.linalg.norm(GAUSSIAN[1]))
    assert k_support_norm(np.zeros(D), k) == 0.0


def test_value_inside_and_outside(any_set):
    """Finite on the set and by a hair beyond, infinite elsewhere."""
    for point in points_of(any_set):
        assert math.isfinite(any_set.value(point))
    for seed in range(5):
        c = np.random.default_rng(seed).standard_normal(D)
        border = any_set.linear_oracle(1e3 * c)  # steep, because weak gradients have atoms inside if there is a penalty too
        assert math.isfinite(any_set.value(border * (1 + 0.5 * EXCESS)))
        assert math.isinf(any_set.value(border * (1 + 1e-9)))
    assert math.isinf(any_set.value(np.full(D, 100.0)))
    assert math.isinf(any_set.value(np.full(D, -100.0)))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (KSupport(1.3, 1), L1Ball(1.3)),
        (KSupport(1.3, D), L2Ball(1.3)),
        (GroupBall(1.3, np.arange(D)), L1Ball(1.3)),
        (GroupBall(1.3, np.zeros(D, dtype=int)), L2Ball(1.3)),
        (CappedSimplex(1.3, 1.3), Simplex(1.3)),
        (ElasticNetInBall(0.3, 0.0, 0.8), L2InBall(0.3, 0.8)),
        (Box(np.full(D, -0.3), 0.2), Box(-0.3, np.full(D, 0.2))),
        (L1InBall(1e-300, 1.3), L1Ball(1.3)),
        (L2InBall(1e-300, 1.3), L2Ball(1.3)),
    ],
    ids=str,
)
def test_equal_sets(one, two):
    for v in MODERATE[:-1]:
        if v.any():
            np.testing.assert_allclose(one.linear_oracle(v), two.linear_oracle(v), atol=1e-14)
        np.testing.assert_allclose(one.prox(v, 0.7), two.prox(v, 0.7), atol=1e-12)
        assert one.conjugate(v) == pytest.approx(two.conjugate(v), rel=1e-13, abs=1e-13)


# --------------------------------------------------------------------------- facts, and what a part must do


def test_facts(any_set):
    assert any_set.bounded
    assert any_set.strong_convexity >= 0.0
    assert any_set.threshold >= 0.0
    assert not hasattr(any_set, "coordinate_prox")  # solvers that move single weights must refuse
    twice = any_set.scaled(2.0)
    assert type(twice) is type(any_set)
    assert twice.strong_convexity == 2 * any_set.strong_convexity
    assert twice.threshold == 2 * any_set.threshold
    for point in points_of(any_set, 3):
        assert twice.value(point) == pytest.approx(2 * any_set.value(point))


@pytest.mark.parametrize("penalty", [L1InBall(0.3, 2.0), ElasticNetInBall(0.3, 0.4, 2.0), ElasticNetInBall(0.3, 1.0, 2.0)], ids=str)
def test_threshold_is_where_zero_stops_being_optimal(penalty):
    e = np.eye(D)[4]
    assert not penalty.linear_oracle(penalty.threshold * e).any()
    assert penalty.linear_oracle(penalty.threshold * (1 + 1e-9) * e).any()
    problem = sd.LinearProblem(np.eye(D), np.resize([1.0, -1.0], D), "logistic", penalty)
    at, below = (problem.with_penalty(penalty.scaled(t * problem.alpha_max() / penalty.alpha)) for t in (1.0, 0.99))
    assert sd.certify(at, np.zeros(D)).relative_gap <= 1e-15
    assert sd.certify(below, np.zeros(D)).gap > 0.0


def test_dual_map(any_set):
    """For strongly convex ones the gradient of the conjugate."""
    assert hasattr(any_set, "dual_map") == (any_set.strong_convexity > 0.0)
    if any_set.strong_convexity:
        u, h = GAUSSIAN[0], 1e-6
        slopes = [(any_set.conjugate(u + h * e) - any_set.conjugate(u - h * e)) / (2 * h) for e in np.eye(D)]
        np.testing.assert_allclose(any_set.dual_map(u), slopes, atol=1e-6)


def test_pickle_copy_and_print(any_set):
    again = pickle.loads(pickle.dumps(any_set))
    assert again == any_set
    assert hash(again) == hash(any_set)
    assert type(again) is type(any_set)
    assert repr(again) == repr(any_set)
    assert len(repr(any_set)) < 120
    np.testing.assert_array_equal(again.linear_oracle(GAUSSIAN[1]), any_set.linear_oracle(GAUSSIAN[1]))


def test_arrays_are_compared_by_value():
    assert Box(0, [1, 2]) == Box(0.0, np.array([1.0, 2.0]))
    assert Box(0, [1, 2]) != Box(0, [1, 3])
    assert GroupBall(1.0, [0, 1]) == GroupBall(1.0, [0, 1], [1, 1])
    assert GroupBall(1.0, [0, 1]) != GroupBall(2.0, [0, 1])
    assert Box(0, 1) != "box"
    assert eval(repr(Box(-1, [1, 2]))) == Box(-1, [1, 2])
    bounds = np.array([1.0, 2.0])
    box = Box(0.0, bounds)
    bounds[0] = 7.0
    assert box.high[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        box.high[0] = 7.0


ATOMS = """
import json, sys, pickle, base64
import numpy as np
from saddlery.penalties.base import atom_buffers, best_atom
def atoms(sets, vectors):
    out = []
    for penalty in sets:
        for c in vectors:
            index, value = atom_buffers(penalty, len(c))
            count, total = best_atom(penalty, c, index, value)
            out.append([int(count), float(total), index[:count].tolist(), value[:count].tolist()])
    return out
"""


def test_without_the_compiler(all_sets, run_script):
    """NUMBA_DISABLE_JIT=1 in another process: the same atoms."""
    scope, sets = {}, [*all_sets.values(), *MORE]
    exec(ATOMS, scope)
    data = pickle.dumps((sets, MODERATE)).hex()
    script = f"{ATOMS}\nprint(json.dumps(atoms(*pickle.loads(bytes.fromhex({data!r})))))"
    for on, off in zip(scope["atoms"](sets, MODERATE), run_script(script, NUMBA_DISABLE_JIT="1"), strict=True):
        assert (on[0], on[2]) == (off[0], off[2])
        assert on[1] == pytest.approx(off[1], rel=1e-13, abs=1e-300)
        np.testing.assert_allclose(on[3], off[3], rtol=1e-13)
    assert json.dumps(on)


# --------------------------------------------------------------------------- bad parameters


@pytest.mark.parametrize("name", [name for name in PENALTIES.names() if hasattr(PENALTIES.get(name), "atom") and name != "box"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_radii_are_refused(name, bad):
    cls = PENALTIES.get(name)
    fitting = {"alpha": 1.0, "l1_ratio": 0.5, "cap": 1.0, "groups": [0, 1], "k": 2}
    options = {field: fitting[field] for field in inspect.signature(cls).parameters if field in fitting}
    with pytest.raises(InputError, match="radius must be a positive number"):
        cls(radius=bad, **options).check()
    if "alpha" in options:
        with pytest.raises(InputError, match="alpha must be a positive number"):
            cls(**{**options, "alpha": bad, "radius": 1.0}).check()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: CappedSimplex(1.0, 0.0), "cap must be a positive number"),
        (lambda: CappedSimplex(1.0, math.nan), "cap must be a positive number"),
        (lambda: Box(1.0, 1.0), "low must be less than high in a box, which does not hold for column 0"),
        (lambda: Box(0.0, [1.0, 2.0, -1.0]), "column 2"),
        (lambda: Box(-math.inf, 1.0), "must be finite"),
        (lambda: Box(0.0, math.nan), "must be finite"),
        (lambda: Box([0.0, 0.0], [1.0, 1.0, 1.0]), "as many lower as upper bounds, not 2 and 3"),
        (lambda: Box("a", 1.0), "must be numbers"),
        (lambda: Box(np.zeros((2, 2)), 1.0), "arrays of shape"),
        (lambda: Box([], 1.0), "arrays of shape"),
        (lambda: GroupBall(1.0, [0, 2]), "all numbers from 0"),
        (lambda: GroupBall(1.0, [-1, 0]), "all numbers from 0"),
        (lambda: GroupBall(1.0, []), "list of whole numbers"),
        (lambda: GroupBall(1.0, [0.0, 1.0]), "list of whole numbers"),
        (lambda: GroupBall(1.0, 3), "list of whole numbers"),
        (lambda: GroupBall(1.0, [0, 1], [1.0]), "one number for each of the 2 groups"),
        (lambda: GroupBall(1.0, [0, 1], [1.0, 0.0]), "positive numbers"),
        (lambda: GroupBall(1.0, [0, 1], [1.0, math.inf]), "positive numbers"),
        (lambda: GroupBall(1.0, [0, 1], ["a", "b"]), "must be numbers"),
        (lambda: KSupport(1.0, 0), "k must be a whole number"),
        (lambda: KSupport(1.0, 2.0), "k must be a whole number"),
        (lambda: KSupport(1.0, True), "k must be a whole number"),
        (lambda: ElasticNetInBall(1.0, 1.5, 1.0), "l1_ratio must lie between 0 and 1"),
    ],
)
def test_bad_parameters_are_refused(make, reason):
    with pytest.raises(InputError, match=reason):
        make().check()


@pytest.mark.parametrize(
    ("penalty", "reason"),
    [
        (CappedSimplex(1.0, 0.3), "3 weights of at most 0.3 cannot sum to 1.0: raise cap to 0.333333 or more"),
        (Box([0.0, 0.0], 1.0), "the box has 2 numbers in low, but the data have 3 columns"),
        (GroupBall(1.0, [0, 1]), "groups names 2 columns, but the data have 3"),
    ],
    ids=str,
)
def test_sets_for_other_columns_are_refused(penalty, reason):
    with pytest.raises(InputError, match=reason):
        sd.LinearProblem(np.eye(3), [1, -1, 1], "logistic", penalty)
    fitting = sd.LinearProblem(np.eye(3), [1, -1, 1], "logistic", L1Ball(1.0))
    with pytest.raises(InputError, match=reason):
        fitting.with_penalty(penalty)
