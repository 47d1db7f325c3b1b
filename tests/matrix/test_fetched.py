"""Features on demand: the same numbers as in memory, every call counted, faults of the source named and not hidden."""

import numpy as np
import pytest

from saddlery.errors import InputError, UnsupportedError
from saddlery.experiments.topics import Topics, rare_shares, zipf_shares
from saddlery.matrix import as_matrix
from saddlery.matrix.fetched import FeaturesOnDemand, FetchedMatrix, gives_features

RNG = np.random.default_rng(0)
VALUES = RNG.standard_normal((30, 20))


class Source:
    """Gives one row or one column, and notes which."""

    def __init__(self, values=VALUES):
        self.values, self.shape = values, values.shape
        self.calls = []

    def row(self, i):
        assert isinstance(i, int)
        self.calls.append(("row", i))
        return self.values[i]

    def column(self, j):
        self.calls.append(("column", j))
        return self.values[:, j]


class Batches(Source):
    """Gives several at once, too."""

    def rows(self, index):
        self.calls += [("row", int(i)) for i in index]
        return self.values[index]

    def columns(self, index):
        self.calls += [("column", int(j)) for j in index]
        return self.values[:, index]


@pytest.mark.parametrize("kind", [Source, Batches])
@pytest.mark.parametrize("cache_bytes", [0, 10_000, 10_000_000])
def test_same_numbers_as_in_memory(kind, cache_bytes):
    X = FetchedMatrix(kind(), cache_bytes, block_bytes=1000)
    index = np.array([3, 7, 3, 29])
    for _ in range(2):
        np.testing.assert_array_equal(X.take_rows(index).values, VALUES[index])
        columns = X.take_cols(index[:3]).values
        np.testing.assert_array_equal(columns, VALUES[:, index[:3]])
        assert columns.flags.f_contiguous
    w, a = RNG.standard_normal(20), RNG.standard_normal(30)
    np.testing.assert_allclose(X.matvec(w), VALUES @ w)
    np.testing.assert_allclose(X.matvec(np.eye(20)[:, 1:3]), VALUES[:, 1:3])
    np.testing.assert_allclose(X.rmatvec(a), VALUES.T @ a)
    np.testing.assert_allclose(X.row_square_norms, (VALUES**2).sum(1))
    np.testing.assert_allclose(X.col_square_norms, (VALUES**2).sum(0))


@pytest.mark.parametrize("kind", [Source, Batches])
def test_without_a_cache_every_draw_is_a_call(kind):
    source = kind()
    X = FetchedMatrix(source, cache_bytes=0)
    X.take_rows(np.array([1, 1, 2]))
    X.take_cols(np.array([4]))
    X.take_cols(np.array([4, 0]))
    assert source.calls == [("row", 1), ("row", 1), ("row", 2), ("column", 4), ("column", 4), ("column", 0)]
    assert X.counts == {
        "rows": 3, "columns": 3, "entries": 3 * 20 + 3 * 30,
        "rows_fetched": 3, "columns_fetched": 3, "entries_fetched": 3 * 20 + 3 * 30,
    }  # fmt: skip


@pytest.mark.parametrize("kind", [Source, Batches])
def test_the_cache_keeps_what_was_asked_for_last(kind):
    source = kind()
    X = FetchedMatrix(source, cache_bytes=2 * 8 * 20 * 8)  # eight rows, and five columns
    X.take_rows(np.array([1, 2]))
    X.take_rows(np.array([2, 1]))
    assert source.calls == [("row", 1), ("row", 2)]
    for i in range(3, 10):
        X.take_rows(np.array([i]))
        X.take_rows(np.array([1]))  # stays because it is used
    source.calls.clear()
    X.take_rows(np.array([1]))
    assert source.calls == []
    X.take_rows(np.array([2]))
    assert source.calls == [("row", 2)]
    assert X.counts["rows"] == 2 + 2 + 14 + 2
    assert X.counts["rows_fetched"] == 2 + 7 + 1


def test_a_pass_leaves_the_cache_alone():
    source = Source()
    X = FetchedMatrix(source, cache_bytes=2 * 8 * 20 * 8)
    X.take_rows(np.array([1]))
    X.rmatvec(np.ones(30))
    source.calls.clear()
    X.take_rows(np.array([1]))
    assert source.calls == []


def test_what_is_taken_can_be_changed_without_harm():
    X = FetchedMatrix(Source())
    X.take_rows(np.array([0])).values[:] = 7.0
    np.testing.assert_array_equal(X.take_rows(np.array([0])).values[0], VALUES[0])
    np.testing.assert_array_equal(X.source.values, VALUES)


def test_objects_are_wrapped_where_data_enter():
    X = as_matrix(Source())
    assert isinstance(X, FetchedMatrix)
    assert as_matrix(X) is X
    assert not X.compiled
    assert (X.shape, X.nnz, X.dtype) == ((30, 20), 600, np.float64)
    assert isinstance(Source(), FeaturesOnDemand)
    assert gives_features(Source())
    assert not gives_features(VALUES)
    with pytest.raises(UnsupportedError, match="read in parts"):
        X.rows  # noqa: B018


def test_float32_stays_float32():
    source = Source(VALUES.astype(np.float32))
    source.dtype = np.float32
    assert FetchedMatrix(source).take_rows(np.array([0])).values.dtype == np.float32
    whole = Source(np.arange(6).reshape(2, 3))
    whole.dtype = np.int64
    assert FetchedMatrix(whole).take_cols(np.array([2])).values.tolist() == [[2.0], [5.0]]


class Wrong(Source):
    def __init__(self, row=None, column=None):
        super().__init__()
        self.answers = {"row": row, "column": column}

    def row(self, i):
        return self.answers["row"]

    def column(self, j):
        return self.answers["column"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros(3), r"X.row\(5\) gave an array of shape \(3,\).*shape \(20,\)"),
        (np.zeros((1, 20)), r"X.row\(5\) gave an array of shape \(1, 20\)"),
        ("words", r"X.row\(5\) gave str"),
        (np.zeros(20, complex), r"X.row\(5\) gave an array .* type complex"),
        ([[1.0], [1.0, 2.0]], r"X.row\(5\) is no array of numbers"),
        (None, r"X.row\(5\) gave NoneType"),
        (np.where(np.arange(20) == 4, np.nan, 0.0), r"X.row\(5\) contains NaN at row 5, column 4"),
    ],
)
def test_bad_rows_are_named(answer, message):
    with pytest.raises(InputError, match=message):
        FetchedMatrix(Wrong(row=answer)).take_rows(np.array([5]))


def test_bad_columns_are_named():
    with pytest.raises(InputError, match=r"X.column\(2\) gave an array of shape \(20,\).*shape \(30,\)"):
        FetchedMatrix(Wrong(column=np.zeros(20))).take_cols(np.array([2]))
    with pytest.raises(InputError, match=r"infinity at row 7, column 2"):
        FetchedMatrix(Wrong(column=np.where(np.arange(30) == 7, -np.inf, 0.0))).take_cols(np.array([2]))
    batches = Batches()
    batches.columns = lambda index: VALUES[:5, index]
    with pytest.raises(InputError, match=r"X.columns\(index\) gave an array of shape \(5, 2\).*shape \(30, 2\)"):
        FetchedMatrix(batches).take_cols(np.array([2, 3]))


def test_exceptions_of_the_source_pass():
    class Remote(Source):
        def row(self, i):
            raise ConnectionError("the line is down")

    with pytest.raises(ConnectionError, match="the line is down"):
        FetchedMatrix(Remote()).take_rows(np.array([0]))


def test_bad_shapes_and_settings():
    for shape in [(0, 3), (3,), None, "ab"]:
        source = Source()
        source.shape = shape
        with pytest.raises(InputError, match="shape"):
            FetchedMatrix(source)
    with pytest.raises(InputError, match="needs shape, row"):
        FetchedMatrix(VALUES)
    with pytest.raises(InputError, match="cache_bytes"):
        FetchedMatrix(Source(), cache_bytes=-1)


def test_rows_and_columns_must_agree():
    FetchedMatrix(Source()).check_agreement(20)
    source = Source()
    source.column = lambda j: VALUES[:, j] + 1.0
    with pytest.raises(InputError, match="rows and columns must agree"):
        FetchedMatrix(source).check_agreement()


# --------------------------------------------------------------------------- the generated data of the experiments


def test_topics_by_rows_and_by_columns():
    X = Topics(60, 50, zipf_shares(8, 1.0), seed=3)
    FetchedMatrix(X).check_agreement(50)
    values = X.array()
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, X.columns(np.arange(50)))
    np.testing.assert_array_equal(values[17], X.row(17))
    np.testing.assert_array_equal(X.test(10).array(), Topics(70, 50, X.shares, seed=3).array()[60:])
    assert not np.array_equal(values, Topics(60, 50, X.shares, seed=4).array())


def test_topics_are_what_they_say():
    X = Topics(4000, 100, rare_shares(2, 3, 0.1), seed=0)
    noise = X.array() * np.sqrt(200.0) - X.directions[X.topics]
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 1.0) < 0.01
    assert abs(np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.01
    np.testing.assert_allclose(np.bincount(X.topics) / 4000, X.shares, atol=0.02)
    np.testing.assert_array_equal(X.y, X.signs[X.topics])
    assert np.linalg.norm(X.array(), axis=1).mean() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("b", [0.0, 0.2])
def test_expected_error_is_that_of_a_large_sample(b):
    X = Topics(10, 60, zipf_shares(4, 1.0), seed=1)
    w = X.directions[0] - 0.5 * X.directions[1] + np.random.default_rng(0).standard_normal(60)
    fresh = X.test(40_000)
    assert X.error(w, b) == pytest.approx(np.mean(np.where(fresh.array() @ w + b > 0.0, 1.0, -1.0) != fresh.y), abs=0.008)
    assert X.error(np.zeros(60), 0.1) == pytest.approx(X.shares[1::2].sum())
