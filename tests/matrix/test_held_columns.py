"""Columns that are copied from rows when they are asked for, and stacks that are turned: they equal what SciPy and NumPy make."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import as_matrix, sparse_stack
from saddlery.matrix.held_columns import CHUNK, HeldColumns, gather_columns
from saddlery.matrix.vectors import disorder
from saddlery.solvers import sparse_rounds


def random_csr(rng, n, d, density, dtype=np.float64, index=np.int32):
    """Rows of uneven length, with empty rows and columns."""
    X = sp.random_array((n, d), density=density, rng=rng, dtype=dtype, format="lil")
    X[n // 2, :] = 0.0
    X[:, d // 3] = 0.0
    X = X.tocsr()
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


def as_array(stack, at, n):
    """Columns of a stack as an array, one in each row."""
    out = np.zeros((len(at), n))
    for k, j in enumerate(at):
        for p in range(stack.first(j), stack.last(j)):
            out[k, int(stack.position(j, p))] = stack.entry(p)
    return out


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (40, 9), (9, 40), (300, 30)])
def test_turned_stacks_are_scipys(shape, dtype, index):
    X = random_csr(np.random.default_rng(0), *shape, 0.4, dtype, index)
    for data, stack, other in ((X, "cols", X.tocsc()), (X.tocsc(), "rows", X)):
        turned = getattr(as_matrix(data), stack)
        assert turned.values.dtype == dtype
        np.testing.assert_array_equal(turned.values, other.data)
        np.testing.assert_array_equal(turned.indices, other.indices)
        np.testing.assert_array_equal(turned.starts, other.indptr)


def test_duplicates_are_summed_before_anything_is_turned_and_the_input_stays():
    data, indices, indptr = np.arange(1.0, 6.0), np.array([2, 0, 2, 1, 1]), np.array([0, 3, 5, 5])
    X = sp.csr_array((data.copy(), indices.copy(), indptr.copy()), shape=(3, 4))
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    matrix = as_matrix(X)
    np.testing.assert_array_equal(as_array(matrix.cols, range(4), 3), [[2, 0, 0], [0, 9, 0], [4, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(as_array(*as_matrix(X).lend(np.array([1])), 3), [[0, 9, 0]])
    np.testing.assert_array_equal(X.data, data)
    np.testing.assert_array_equal(X.indices, indices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_columns_are_lent_as_they_are(kind, dtype):
    """Whatever is asked for in whatever order, and however long the rows are; what was lent before stays."""
    rng = np.random.default_rng(1)
    X = random_csr(rng, 37, 3 * CHUNK // 4, 0.9, dtype)
    rows = as_matrix(X if kind == "sparse" else X.toarray()).rows
    held, counts = HeldColumns(rows, X.shape[1]), np.diff(X.tocsc().indptr)
    dense, lent = X.toarray().T, []
    for _ in range(8):
        columns = rng.permutation(X.shape[1])[: rng.integers(1, 90)]
        new = held.missing(columns)
        if len(new):
            held.hold(new, counts)
        lent.append((columns, *held.lend(columns)))
    for columns, stack, at in lent:
        assert stack.values.dtype == dtype
        np.testing.assert_array_equal(as_array(stack, at, 37), dense[columns])


@pytest.mark.parametrize("n", [1, 7, 8, 9, 33])
def test_dense_columns_are_gathered(n):
    X = np.random.default_rng(0).standard_normal((n, 12))
    W, out = np.array([11, 0, 5]), np.empty((3, n))
    gather_columns(as_matrix(X).rows, W, out)
    np.testing.assert_array_equal(out, X[:, W].T)


def test_likely_columns_are_copied_together_unless_they_are_many():
    X = random_csr(np.random.default_rng(0), 200, 100, 0.2)
    matrix = as_matrix(X)
    matrix.foresee(np.array([3]), np.array([3, 5]))
    assert len(matrix.held.missing(np.array([3, 5]))) == 0
    matrix.foresee(np.array([3]), np.array([7]))  # nothing is missing that must be there
    matrix.foresee(np.array([8]), np.arange(100))
    assert len(matrix.held.missing(np.array([7, 8]))) == 2


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_products_with_columns_that_are_held(kind):
    rng = np.random.default_rng(0)
    X = random_csr(rng, 60, 50, 0.3)
    matrix, a, w = as_matrix(X if kind == "csr" else X.toarray()), rng.standard_normal(60), np.zeros(50)
    assert not matrix.is_near(np.array([4]))  # nothing is held yet
    np.testing.assert_allclose(matrix.products_of(np.array([4, 9]), a), X.toarray()[:, [4, 9]].T @ a, atol=1e-12)
    assert matrix.is_near(np.array([4]))
    assert not matrix.is_near(np.arange(50))
    assert matrix.is_near(np.array([4, 5])) is (kind == "dense")  # one more
    w[[4, 9]] = 1.0, -2.0
    np.testing.assert_allclose(matrix.matvec(w), X @ w, atol=1e-12)
    w[11] = 3.0  # which is not held
    np.testing.assert_allclose(matrix.matvec(w), X @ w, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["csr", "csc", "C", "F"])
def test_two_sums_in_one_pass(kind, dtype):
    rng = np.random.default_rng(2)
    X = random_csr(rng, 90, 130, 0.3, dtype)
    data = X.asformat(kind) if kind in ("csr", "csc") else np.asarray(X.toarray(), order=kind)
    dense, a, b = X.toarray().astype(float), rng.standard_normal(90), rng.standard_normal(90)
    matrix = as_matrix(data)
    np.testing.assert_allclose(matrix.rmatvec_with_norms(a), dense.T @ a, atol=1e-12)
    np.testing.assert_allclose(matrix.col_square_norms, np.square(dense).sum(axis=0), rtol=1e-12)
    for got, expected in zip(as_matrix(data).rmatvec_of_two(a, b), (dense.T @ a, dense.T @ b), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-12)
    np.testing.assert_allclose(as_matrix(data).weighted_col_square_norms(a * a), (a * a) @ np.square(dense), rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_columns_that_are_copied_give_the_same_solution_and_certificate(loss, intercept, sparse, monkeypatch):
    monkeypatch.setattr(sparse_rounds, "LEAST", 10**9)  # small sparse data have rounds of their own, which take all columns
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 900)) * (rng.random((400, 900)) < (0.05 if sparse else 1.0))
    y = X[:, :20].sum(axis=1) + rng.standard_normal(400)
    y = y if loss == "squared" else np.sign(y)
    layouts = [sp.csr_array(X), sp.csc_array(X)] if sparse else [X, np.asfortranarray(X)]
    found = []
    for data in layouts:
        problem = sd.LinearProblem(data, y, loss, sd.penalties.L1(1.0), fit_intercept=intercept)
        problem = problem.with_penalty(sd.penalties.L1(0.3 * problem.alpha_max()))
        solution = sd.solve(problem, "prox_newton", tol=1e-9)
        again = sd.certify(problem, solution.w, solution.dual, solution.b)
        assert again.relative_gap <= 2e-9
        found.append((solution, "cols" in vars(problem.matrix)))
    (by_rows, turned), (by_columns, _) = found
    assert not turned  # few columns were asked for
    np.testing.assert_allclose(by_rows.w, by_columns.w, atol=1e-5)
    assert by_rows.certificate.primal == pytest.approx(by_columns.certificate.primal, rel=1e-8)


def test_threads_share_what_is_held():
    X = random_csr(np.random.default_rng(4), 300, 400, 0.1)
    matrix, dense, wrong = as_matrix(X), X.toarray(), []

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(20):
            columns = np.sort(rng.permutation(400)[:3])
            stack, at = matrix.lend(columns)
            if not np.array_equal(as_array(stack, at, 300), dense[:, columns].T):
                wrong.append(columns)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, None])
@pytest.mark.parametrize("size", [1.0, 1e200])
def test_large_arrays_are_checked_while_they_are_measured(order, dtype, bad, size, monkeypatch):
    """As small ones are: the place is named, and numbers whose squares overflow are fine."""
    monkeypatch.setattr("saddlery.matrix.TILED", 0)
    monkeypatch.setattr("saddlery.matrix.WIDE", 0)
    X = np.full((11, 5), size if dtype == np.float64 else min(size, 1e38), dtype=dtype, order=order)
    if bad is None:
        squares = as_matrix(X).col_square_norms
        np.testing.assert_allclose(squares, [11.0 * float(X[0, 0]) ** 2] * 5 if size < 1e150 or dtype == np.float32 else np.inf)
        return
    X[7, 3] = bad
    with pytest.raises(sd.InputError, match=f"{'NaN' if np.isnan(bad) else 'infinity'} at row 7, column 3"):
        as_matrix(X)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_order_is_judged_as_scipy_does(kind, index):
    """Whatever the indices are: sorted, unsorted, repeated, with empty vectors at the ends; the input is not changed."""
    rng = np.random.default_rng(5)
    judged = set()
    for _ in range(200):
        count, length = rng.integers(1, 6), rng.integers(1, 7)
        sizes = rng.integers(0, 4, count) * rng.integers(0, 2, count)
        parts = [rng.integers(0, length, size) for size in sizes]
        if rng.random() < 0.5:
            parts = [np.unique(part) for part in parts]
        indices = np.concatenate([*parts, []]).astype(index)
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(index)
        shape = (count, length) if kind == "csr" else (length, count)
        make = sp.csr_array if kind == "csr" else sp.csc_array
        X = make((rng.standard_normal(len(indices)), indices, indptr), shape=shape)
        before = X.data.copy(), X.indices.copy(), X.indptr.copy()
        stack = sparse_stack(X)
        assert (disorder(stack) == 0) == X.has_canonical_format
        judged.add(bool(X.has_canonical_format))
        fresh = make((X.data, X.indices, X.indptr), shape=shape)
        matrix = as_matrix(fresh)
        np.testing.assert_allclose(matrix.values.toarray(), X.toarray(), atol=1e-14)
        assert matrix.values.has_canonical_format
        for array, old in zip((fresh.data, fresh.indices, fresh.indptr), before, strict=True):
            np.testing.assert_array_equal(array, old)
    assert judged == {True, False}


@pytest.mark.parametrize("indices", [[0, 5], [-1, 1], [5, 0], [4, 4]])
def test_indices_outside_are_refused(indices):
    X = sp.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 2, 2])), shape=(2, 4))
    X.indices = np.array(indices, dtype=np.int32)
    with pytest.raises(sd.InputError, match="outside of its shape"):
        as_matrix(X)


def test_room_behind_the_last_entry_is_not_read():
    X = sp.csr_array((np.ones(3), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 3))
    X.data, X.indices = np.append(X.data, 7.0), np.append(X.indices, np.int32(2))
    matrix = as_matrix(X)
    np.testing.assert_array_equal(matrix.col_counts, [1, 2, 0])
    np.testing.assert_array_equal(as_array(matrix.cols, range(3), 2), [[1, 0], [1, 1], [0, 0]])
