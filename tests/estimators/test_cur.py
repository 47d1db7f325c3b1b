"""CURDecomposition: what it selects, what it reproduces, and what scikit-learn expects of it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import saddlery as sd
from saddlery.errors import InputError

RNG = np.random.default_rng(0)


def planted():
    """20 x 15, of rank 3 up to noise, spanned by the large rows 2, 7, 11 and the large columns 1, 4, 9."""
    L, R = 0.2 * RNG.standard_normal((20, 3)), 0.2 * RNG.standard_normal((3, 15))
    L[[2, 7, 11]], R[:, [1, 4, 9]] = 2.0 * np.eye(3), 2.0 * np.eye(3)
    return L @ R + 1e-3 * RNG.standard_normal((20, 15))


X = planted()


@parametrize_with_checks([sd.CURDecomposition(), sd.CURDecomposition(solver="cur_corrective", refit=False)])
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", ["auto", "cur_corrective"])
def test_planted_rows_and_columns_are_found(solver):
    model = sd.CURDecomposition(radius=0.6, solver=solver).fit(X)
    assert model.columns_.tolist() == [1, 4, 9]
    assert model.rows_.tolist() == [2, 7, 11]
    assert model.status_ is sd.Status.CONVERGED
    assert model.certificate_.relative_gap <= 1e-4
    assert model.reconstruction_error_ < 0.01 < model.weights_error_
    assert model.radius_ == 0.6
    assert model.solver_ == ("cur_hybrid" if solver == "auto" else solver)


def test_orientation():
    """Rows of W select columns of X, columns of W select rows; the parts fit together."""
    model = sd.CURDecomposition(radius=0.5).fit(X)
    assert model.weights_.shape == (15, 20)
    assert model.dual_.shape == X.shape
    np.testing.assert_array_equal(model.C_, X[:, model.columns_])
    np.testing.assert_array_equal(model.R_, X[model.rows_])
    assert model.U_.shape == (model.columns_.size, model.rows_.size)
    np.testing.assert_allclose(model.column_importances_, np.abs(model.weights_).max(axis=1) / 0.5)
    assert model.column_importances_.sum() <= 1.0 + 1e-9
    assert model.row_importances_.sum() <= 1.0 + 1e-9
    assert model.row_importances_.shape == (20,)
    np.testing.assert_allclose(model.reconstruct(), model.C_ @ model.U_ @ model.R_)


def test_errors_are_relative_frobenius_norms():
    model = sd.CURDecomposition(radius=0.5).fit(X)
    size = np.linalg.norm(X)
    assert model.reconstruction_error_ == pytest.approx(np.linalg.norm(X - model.reconstruct()) / size)
    assert model.weights_error_ == pytest.approx(np.linalg.norm(X - X @ model.weights_ @ X) / size)
    assert model.weights_error_**2 == pytest.approx(model.certificate_.primal / model.certificate_.scale)


def test_refit_is_the_best_matrix_between():
    fitted = sd.CURDecomposition(radius=0.5).fit(X)
    kept = sd.CURDecomposition(radius=0.5, refit=False).fit(X)
    np.testing.assert_array_equal(kept.U_, kept.weights_[np.ix_(kept.columns_, kept.rows_)])
    assert fitted.reconstruction_error_ < kept.reconstruction_error_
    residual = X - fitted.reconstruct()
    assert np.abs(fitted.C_.T @ residual @ fitted.R_.T).max() < 1e-9, "normal equations"


def test_certificate_is_that_of_the_problem():
    model = sd.CURDecomposition(radius=0.5).fit(X)
    again = sd.certify(sd.CURProblem(X, 0.5), model.weights_, model.dual_)
    assert again.relative_gap <= 1e-4
    assert again.primal == pytest.approx(model.certificate_.primal)
    assert model.n_iter_ == model.trace_[-1].epoch


def test_larger_radius_smaller_error():
    errors = [sd.CURDecomposition(radius=radius).fit(X).weights_error_ for radius in (0.1, 0.3, 0.6, 1.2, 2.0)]
    assert np.diff(errors).max() <= 1e-15  # the last ones are equal but for rounding


def test_the_default_radius_follows_the_units():
    small, large = (sd.CURDecomposition().fit(factor * X) for factor in (1.0, 1000.0))
    assert small.radius_ == pytest.approx(1000.0 * large.radius_)
    assert small.columns_.tolist() == large.columns_.tolist()
    assert small.weights_error_ == pytest.approx(large.weights_error_, rel=1e-6)


def test_limits():
    model = sd.CURDecomposition(radius=5.0, n_columns=2, n_rows=3).fit(X)
    assert model.columns_.size == 2
    assert model.rows_.size == 3
    assert set(model.columns_) == set(np.argsort(-model.column_importances_)[:2])
    uneven = np.random.default_rng(1).standard_normal((20, 15)) * np.geomspace(0.1, 3.0, 15)
    loose, strict = (sd.CURDecomposition(threshold=threshold).fit(uneven) for threshold in (0.0, 0.9))
    assert loose.columns_.size == np.count_nonzero(loose.column_importances_)
    assert strict.columns_.size < loose.columns_.size


def test_transform_selects_and_inverse_transform_fills():
    model = sd.CURDecomposition(radius=0.6).fit(X)
    part = model.transform(X)
    np.testing.assert_array_equal(part, X[:, model.columns_])
    np.testing.assert_allclose(model.inverse_transform(part), model.reconstruct())
    assert model.get_support().sum() == model.columns_.size
    new = X[3:5] * 1.5
    assert np.linalg.norm(model.inverse_transform(model.transform(new)) - new) < 0.02 * np.linalg.norm(new)
    assert sp.issparse(model.transform(sp.csr_array(X)))
    with pytest.raises(InputError, match="3 were selected"):
        model.inverse_transform(X)


def test_names_and_frames():
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(15)])
    model = sd.CURDecomposition(radius=0.6).fit(frame)
    assert model.get_feature_names_out().tolist() == ["c1", "c4", "c9"]
    assert model.set_output(transform="pandas").transform(frame).columns.tolist() == ["c1", "c4", "c9"]


def test_in_a_pipeline():
    y = X[:, 1] - X[:, 4]
    model = make_pipeline(sd.CURDecomposition(radius=0.6), sd.LinearRegressor(penalty="l2", alpha=1e-6)).fit(X, y)
    assert model.score(X, y) > 0.999


def test_clone_pickle_and_sparse():
    model = sd.CURDecomposition(radius=0.6, n_rows=2)
    assert clone(model).get_params() == model.get_params()
    model.fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.certificate_ == model.certificate_
    np.testing.assert_array_equal(clone(model).fit(sp.csc_array(X)).weights_, model.weights_)


def test_nothing_to_select():
    model = sd.CURDecomposition().fit(np.zeros((4, 3)))
    assert model.columns_.size == model.rows_.size == 0
    assert model.reconstruction_error_ == 0.0
    assert model.reconstruct().shape == (4, 3)


def test_budgets_warn():
    with pytest.warns(ConvergenceWarning, match="not certified to tol=1e-12.*raise max_epochs"):
        model = sd.CURDecomposition(radius=0.6, tol=1e-12, max_epochs=2).fit(X)
    assert model.status_ is sd.Status.MAX_EPOCHS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sd.CURDecomposition(radius=0.6, tol=0.5, max_epochs=2).fit(X)


def test_verbose_shows_the_certificates(capsys):
    sd.CURDecomposition(radius=0.6, verbose=1).fit(X)
    assert "relative gap" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"radius": 0.0}, "radius must be a positive number"),
        ({"radius": -1.0}, "radius must be a positive number"),
        ({"radius": np.inf}, "radius must be a positive number"),
        ({"radius": "large"}, "radius must be a number"),
        ({"threshold": 1.0}, "threshold must be at least 0 and less than 1"),
        ({"threshold": -0.1}, "threshold must be at least 0 and less than 1"),
        ({"n_columns": 0}, "n_columns must be 1 or more"),
        ({"n_rows": 1.5}, "n_rows must be a whole number"),
        ({"tol": -1.0}, "tol must be 0 or more"),
        ({"solver": "prox_newton"}, "cannot solve a cur problem"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(InputError, match=message):
        sd.CURDecomposition(**options).fit(X)


def test_bad_data():
    with pytest.raises(InputError, match="NaN at row 1, column 0"):
        sd.CURDecomposition().fit([[1.0, 2.0], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="Found array with 0"):
        sd.CURDecomposition().fit(np.zeros((0, 3)))
