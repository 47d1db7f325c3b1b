"""Every form of data gives the same numbers as NumPy, whether read by rows or by columns, and is never changed."""

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.matrix import Matrix, as_matrix
from saddlery.matrix.vectors import combine, dots, square_norms

RNG = np.random.default_rng(0)
X = np.round(RNG.standard_normal((9, 5)) * (RNG.random((9, 5)) < 0.6), 3)
X[4], X[:, 2] = 0.0, 0.0
W, A = RNG.standard_normal(5), RNG.standard_normal(9)


def unsorted(x):
    out = sp.csr_array(x)
    for i in range(out.shape[0]):
        part = slice(out.indptr[i], out.indptr[i + 1])
        out.indices[part], out.data[part] = out.indices[part][::-1].copy(), out.data[part][::-1].copy()
    out.has_sorted_indices = False
    return out


def duplicated(x):
    """Every entry stored as two halves."""
    rows, cols = np.nonzero(x)
    half = x[rows, cols] / 2
    order = np.argsort(np.tile(rows, 2), kind="stable")
    starts = np.concatenate([[0], np.cumsum(2 * np.bincount(rows, minlength=x.shape[0]))])
    return sp.csr_array((np.tile(half, 2)[order], np.tile(cols, 2)[order], starts), shape=x.shape)


def long_indices(x):
    out = sp.csr_array(x)
    out.indices, out.indptr = out.indices.astype(np.int64), out.indptr.astype(np.int64)
    return out


def explicit_zeros(x):
    out = sp.csr_array(x + 1e9)
    out.data = x.ravel().copy()
    return out


def read_only(x):
    out = x.copy()
    out.flags.writeable = False
    return out


FORMS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "big-endian": lambda x: x.astype(">f8"),
    "list": lambda x: x.tolist(),
    "object": lambda x: x.astype(object),
    "float32": lambda x: x.astype(np.float32),
    "F float32": lambda x: np.asfortranarray(x, dtype=np.float32),
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "coo": sp.coo_array,
    "lil": sp.lil_array,
    "csr float32": lambda x: sp.csr_array(x.astype(np.float32)),
    "csc float32": lambda x: sp.csc_array(x.astype(np.float32)),
    "csr int64": long_indices,
    "unsorted": unsorted,
    "unsorted csc": lambda x: unsorted(x.T).T,
    "duplicates": duplicated,
    "explicit zeros": explicit_zeros,
}


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param](X), (1e-7 if "float32" in request.param else 1e-14)


def dense(stack, count):
    """A stack of vectors as an array, read through the verbs that kernels use."""
    out = np.zeros((count, stack.length))
    for i in range(count):
        for p in range(stack.first(i), stack.last(i)):
            out[i, stack.position(i, p)] += stack.entry(p)
    return out


def test_rows_and_columns(form):
    data, eps = form
    matrix = as_matrix(data)
    assert matrix.shape == X.shape
    np.testing.assert_allclose(dense(matrix.rows, 9), X, atol=eps)
    np.testing.assert_allclose(dense(matrix.cols, 5).T, X, atol=eps)
    for i in range(9):
        assert matrix.rows.dot(i, W) == pytest.approx(X[i] @ W, abs=10 * eps)
        np.testing.assert_array_equal(np.flatnonzero(dense(matrix.rows, 9)[i]), np.flatnonzero(X[i]))
    out = np.ones(9)
    matrix.cols.axpy(1, 2.0, out)
    np.testing.assert_allclose(out, 1 + 2 * X[:, 1], atol=10 * eps)


def test_products(form):
    """In float64 whatever the data are, by either stack, for vectors that are mostly zero too."""
    data, eps = form
    matrix = as_matrix(data)
    for w in (W, np.where(np.arange(5) == 1, W, 0.0), np.zeros(5)):
        result = matrix.matvec(w)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, X @ w, atol=20 * eps)
        np.testing.assert_allclose(matrix.rmatvec(A), X.T @ A, atol=20 * eps)  # once before and once after the columns exist
        assert matrix.cols.length == 9
        np.testing.assert_allclose(matrix.matvec(w), X @ w, atol=20 * eps)
        np.testing.assert_allclose(matrix.rmatvec(A), X.T @ A, atol=20 * eps)


def test_weights_are_few_among_columns_with_entries():
    """Where most columns are empty, weights on all the others are not few: rows are read."""
    data = sp.csr_array((np.ones(6), ([0, 0, 1, 1, 2, 2], [3, 50, 3, 70, 50, 70])), shape=(3, 100))
    matrix, w = as_matrix(data), np.zeros(100)
    w[[3, 50, 70]] = 1.0, 2.0, 3.0
    assert matrix.cols.length == 3
    assert matrix.used_columns == 3
    assert not matrix._are_few(3)
    assert not matrix._are_few(1)
    assert matrix._are_few(0)
    np.testing.assert_array_equal(matrix.matvec(w), [3.0, 4.0, 5.0])
    assert as_matrix(np.ones((2, 100)))._are_few(24)


def test_kernels(form):
    data, eps = form
    matrix = as_matrix(data)
    for stack, y, x in ((matrix.rows, W, X), (matrix.cols, A, X.T)):
        out = np.zeros(len(x))
        dots(stack, y, out)
        np.testing.assert_allclose(out, x @ y, atol=20 * eps)
        total = np.zeros(x.shape[1])
        combine(stack, out, total)
        np.testing.assert_allclose(total, x.T @ (x @ y), atol=100 * eps)
        square_norms(stack, out)
        np.testing.assert_allclose(out, (x**2).sum(1), atol=20 * eps)


def test_norms_counts_and_taken_rows(form):
    data, eps = form
    matrix = as_matrix(data)
    np.testing.assert_allclose(matrix.row_square_norms, (X**2).sum(1), atol=20 * eps)
    np.testing.assert_allclose(matrix.col_square_norms, (X**2).sum(0), atol=20 * eps)
    np.testing.assert_array_equal(matrix.col_counts, [matrix.cols.last(j) - matrix.cols.first(j) for j in range(5)])
    assert matrix.nnz == matrix.col_counts.sum()
    index = np.array([7, 0, 3])
    np.testing.assert_allclose(dense(matrix.take_rows(index).rows, 3), X[index], atol=eps)


def test_data_are_not_changed(form):
    data, _ = form
    before = data.copy() if hasattr(data, "copy") else None
    matrix = as_matrix(data)
    assert matrix.rows.length, matrix.cols.length
    if sp.issparse(data) and data.format in ("csr", "csc"):
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(data, name), getattr(before, name))
    elif isinstance(data, np.ndarray):
        np.testing.assert_array_equal(data, before)


@pytest.mark.parametrize("name", ["C", "F", "csr", "csc", "float32", "read-only"])
def test_data_in_shape_are_not_copied(name):
    data = FORMS[name](X)
    assert as_matrix(data).values is data
    stack = as_matrix(data).cols if name in ("F", "csc") else as_matrix(data).rows
    assert np.shares_memory(stack.values, data.data if sp.issparse(data) else data)


def test_matrix_passes_through():
    matrix = as_matrix(X)
    assert as_matrix(matrix) is matrix
    assert isinstance(matrix, Matrix)


def test_memory_map(tmp_path):
    """A file mapped read-only is used in place, by the kernels of ordinary arrays."""
    X.tofile(tmp_path / "x.bin")
    data = np.memmap(tmp_path / "x.bin", dtype=np.float64, mode="r", shape=X.shape)
    matrix = as_matrix(data)
    out = np.zeros(9)
    dots(as_matrix(X).rows, W, out)
    signatures = len(getattr(dots, "signatures", ()))
    dots(matrix.rows, W, out)
    assert len(getattr(dots, "signatures", ())) == signatures
    np.testing.assert_allclose(out, X @ W)
    assert np.shares_memory(matrix.rows.values, data)


def test_one_kernel_for_all_index_types():
    """int32 and int64 indices, of SciPy's two kinds, share one compiled variant."""
    out = np.zeros(9)
    dots(as_matrix(sp.csr_array(X)).rows, W, out)
    signatures = len(getattr(dots, "signatures", ()))
    for name in ("csr int64", "csr_matrix", "csc", "unsorted", "duplicates"):
        dots(as_matrix(FORMS[name](X)).rows, W, out)
    assert len(getattr(dots, "signatures", ())) == signatures


def test_products_with_tables_that_are_mostly_zero():
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 600), density=0.1, format="csr", rng=rng)
    W = rng.standard_normal((600, 10)) * (rng.random((600, 10)) < 0.07)  # too many, unless the columns are there
    plain, held = as_matrix(X), as_matrix(X)
    held.cols  # noqa: B018
    np.testing.assert_allclose(plain.matvec(W), X @ W, atol=1e-12)
    np.testing.assert_allclose(held.matvec(W), X @ W, atol=1e-12)
    assert not plain.has("cols")


def test_rows_taken_keep_columns_that_are_at_hand():
    X = sp.random_array((30, 12), density=0.3, format="csr", rng=np.random.default_rng(0))
    matrix = as_matrix(X)
    _ = matrix.cols
    most, few, mixed = np.arange(2, 28), np.arange(5), np.arange(28)[::-1]
    for index, kept in ((most, True), (few, False), (mixed, False)):
        part = matrix.take_rows(index)
        assert ("cols" in vars(part)) is kept
        a = np.linspace(-1.0, 1.0, len(index))
        np.testing.assert_allclose(part.products_of(np.arange(12), a), X.toarray()[index].T @ a, atol=1e-14)
        np.testing.assert_array_equal(part.col_counts, np.count_nonzero(X.toarray()[index], axis=0))


@pytest.mark.parametrize("dense", [True, False])
def test_products_with_weights_of_a_few_columns(dense):
    X = sp.random_array((30, 12), density=0.3, format="csr", rng=np.random.default_rng(0))
    columns, W = np.array([1, 4, 5]), np.arange(6.0).reshape(3, 2)
    got = as_matrix(X.toarray() if dense else X).product_on(columns, W)
    np.testing.assert_allclose(got, X.toarray()[:, columns] @ W, atol=1e-14)


@pytest.mark.parametrize("shape", [(8, 16), (9, 5), (1, 30), (30, 1), (17, 23)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_arrays_are_transposed_in_tiles(shape, dtype, monkeypatch):
    monkeypatch.setattr("saddlery.matrix.TILED", 0)
    X = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    cols = as_matrix(X).cols
    assert cols.values.dtype == dtype
    np.testing.assert_array_equal(cols.values.reshape(shape[::-1]), X.T)


@pytest.mark.parametrize("dense", [True, False])
def test_columns_are_copied_until_the_stack_would_have_cost_less(dense, monkeypatch):
    X = sp.random_array((40, 20), density=0.5, format="csr", rng=np.random.default_rng(0))
    fresh = lambda: as_matrix(X.toarray() if dense else X)  # noqa: E731
    matrix, made = fresh(), []
    for j in range(20):
        matrix.lend(np.array([j]))
        made.append("cols" in vars(matrix))
    assert made == sorted(made)
    assert not made[0]
    assert made[-1]
    assert "held" not in vars(matrix)  # one copy is enough
    matrix = fresh()
    matrix.lend(np.arange(15))  # most of it at once
    assert "cols" in vars(matrix)
    by_columns = as_matrix(np.asfortranarray(X.toarray()) if dense else X.tocsc())
    assert by_columns.lend(np.array([3]))[0] is by_columns.cols  # nothing to be made
    monkeypatch.setattr("saddlery.matrix.ROOM", 10)
    matrix = fresh()
    for j in range(20):
        matrix.lend(np.array([j]))
    assert "cols" not in vars(matrix)  # no second copy of large data,
    assert matrix.held.count == 1  # nor one that grows


@pytest.mark.parametrize("kind", ["csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_taken(kind, dtype):
    """Some rows, in any order and more than once, are what SciPy makes of them, by rows and by columns."""
    rng = np.random.default_rng(0)
    X = sp.random_array((40, 9), density=0.3, rng=rng, dtype=dtype).asformat(kind)
    for index in (np.array([3, 7, 39]), np.array([5, 5, 0]), np.arange(1, 40), np.array([], dtype=np.int64)):
        taken, expected = as_matrix(X).take_rows(index), X.toarray()[index]
        np.testing.assert_array_equal(taken.values.toarray(), expected)
        assert taken.values.dtype == dtype
        assert taken.values.has_canonical_format
        for stack, array in ((taken.rows, expected), (taken.cols, expected.T)):
            spread = sp.csr_array((stack.values, stack.indices, stack.starts), shape=array.shape)
            np.testing.assert_array_equal(spread.toarray(), array)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_data_that_are_mostly_zeros_as_sparse_ones(order, dtype):
    rng = np.random.default_rng(0)
    X = np.asarray(rng.standard_normal((1000, 250)) * (rng.random((1000, 250)) < 0.1), dtype=dtype, order=order)
    matrix = as_matrix(X)
    lean = matrix.lean()
    assert lean.is_sparse
    assert lean is matrix.lean()  # made once
    assert lean.values.dtype == dtype
    assert np.array_equal(lean.csr.toarray(), X)
    assert lean.nnz == np.count_nonzero(X)
    full = as_matrix(X + 1.0)
    assert full.lean() is full
    assert as_matrix(X[:10]).lean().is_sparse is False  # not worth a copy


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_zeros_are_left_out_where_no_column_can_be(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 150)) * (rng.random((1500, 150)) < 0.1)
    y = np.sign(X @ rng.standard_normal(150) + 0.5 * rng.standard_normal(1500))
    ridge, lasso = (sd.LinearProblem(X, y, loss, penalty) for penalty in (sd.penalties.L2(0.01), sd.penalties.L1(0.01)))
    assert ridge.matrix.is_sparse
    assert not lasso.matrix.is_sparse
    solution = sd.solve(ridge, tol=1e-6)
    a = solution.dual
    primal = ridge.loss.value(y, X @ solution.w).mean() + 0.005 * solution.w @ solution.w
    dual = -ridge.loss.conjugate(y, a).mean() - np.sum((X.T @ a / len(y)) ** 2) / 0.02
    assert primal - dual <= 1e-6 * ridge.scale * (1 + 1e-6)
    assert solution.certificate.primal == pytest.approx(primal)
