"""Estimators on distributed data: the models of one machine, lazy answers, and no Dask where none is asked for."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import saddlery as sd

TOL = {"tol": 1e-8, "random_state": 0}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("weights", [None, "balanced"])
def test_classifier_is_that_of_one_machine(tall, split, count, weights):
    X, signs, numbers, sample = tall
    names = np.array(["no", "maybe", "yes"])
    y = names[np.digitize(numbers, [-0.5, 0.9])] if count == 3 else np.where(signs > 0, "yes", "no")
    data = split(X, 5)
    model = sd.LinearClassifier(alpha=0.01, class_weight=weights, **TOL)
    there = model.fit(data, da.from_array(y, chunks=400), sample_weight=sample)
    here = sd.LinearClassifier(alpha=0.01, class_weight=weights, **TOL).fit(X, y, sample_weight=sample)
    assert there.classes_.tolist() == here.classes_.tolist()
    np.testing.assert_allclose(there.coef_, here.coef_, atol=2e-4)
    np.testing.assert_allclose(there.intercept_, here.intercept_, atol=2e-4)
    assert there.certificate_.relative_gap <= 1e-8
    assert isinstance(there.dual_coef_, da.Array)
    assert there.dual_coef_.shape == here.dual_coef_.shape
    np.testing.assert_allclose(there.dual_coef_.compute(), here.dual_coef_, atol=2e-4)
    for one, other in zip(there.certificates_, here.certificates_, strict=True):
        assert abs(one.primal - other.primal) <= 2e-8 * one.scale
    for method in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
        lazy, direct = getattr(there, method)(data), getattr(there, method)(X)
        assert isinstance(lazy, da.Array)
        assert (lazy.shape, lazy.dtype) == (direct.shape, direct.dtype)
        assert (lazy.compute() == direct).all() if method == "predict" else np.allclose(lazy.compute(), direct, atol=1e-14)
    assert there.solver == "auto"
    assert there.solver_ == "dask_prox_newton"


def test_regressor_on_arrays_frames_and_files(tall, tmp_path):
    X, _, numbers, sample = tall
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(y=numbers, s=sample)
    ddf = dd.from_pandas(frame, npartitions=3)
    for k in range(3):
        frame[300 * k : 300 * (k + 1)].to_parquet(tmp_path / f"{k}.parquet")
    here = sd.LinearRegressor(alpha=0.05, **TOL).fit(X, numbers, sample_weight=sample)
    for data in (ddf, str(tmp_path), tmp_path):
        there = sd.LinearRegressor(alpha=0.05, solver="prox_newton", **TOL).fit(data, "y", sample_weight="s")
        np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-8)
        assert there.intercept_ == pytest.approx(here.intercept_, abs=1e-8)
        assert there.feature_names_in_.tolist() == list(frame.columns[:12])
        np.testing.assert_allclose(there.predict(data).compute(), here.predict(X), atol=1e-7)
        np.testing.assert_allclose(there.dual_coef_.compute(), here.dual_coef_, atol=1e-7)
    array = sd.LinearRegressor(alpha=0.05, **TOL).fit(da.from_array(X, chunks=(200, 12)), numbers, sample_weight=sample)
    np.testing.assert_allclose(array.coef_, here.coef_, atol=1e-8)
    assert not hasattr(array, "feature_names_in_")


def test_other_solvers_by_their_names(tall, split):
    X, signs, _, _ = tall
    data = split(X, 3)
    svm = sd.LinearClassifier("hinge", "l2", alpha=0.3, fit_intercept=False, tol=1e-4).fit(data, signs)
    assert svm.solver_ == "dask_sdca"
    named = sd.LinearClassifier("logistic", "elasticnet", alpha=0.3, fit_intercept=False, solver="sdca", tol=1e-4).fit(data, signs)
    assert (named.solver, named.solver_) == ("sdca", "dask_sdca")
    ball = sd.LinearClassifier("logistic", "l1_ball", radius=1.0, fit_intercept=False, tol=0.05).fit(data, signs)
    assert ball.solver_ == "dask_gsfw"
    with pytest.raises(sd.InputError, match="joint"):
        sd.LinearClassifier(multiclass="joint").fit(data, signs)
    with pytest.raises(sd.UnsupportedError, match="spdc"):
        sd.LinearClassifier(solver="spdc").fit(data, signs)
    with pytest.raises(sd.InputError, match="one class only"):
        sd.LinearClassifier().fit(data, np.ones(900))
    with pytest.raises(sd.InputError, match="requires y"):
        sd.LinearClassifier().fit(data, None)
    with pytest.raises(NotFittedError):
        sd.LinearClassifier().predict(data)


def test_warm_start_warning_and_sparse_blocks(tall, split):
    X, signs, _, _ = tall
    data = split(sp.csr_array(X), 4)
    model = sd.LinearClassifier(alpha=1e-3, max_epochs=1, warm_start=True, **TOL)
    with pytest.warns(ConvergenceWarning, match="raise max_epochs"):
        model.fit(data, signs)
    model.set_params(max_epochs=100).fit(data, signs)
    again = model.fit(data, signs)
    assert again.n_iter_ <= 1
    assert again.score(X, signs) > 0.7
    assert again.predict(data).compute().shape == (900,)


def test_verbose_shows_the_live_table(tall, split, capsys):
    X, signs, _, _ = tall
    sd.LinearClassifier(alpha=0.01, verbose=1).fit(split(X, 3), signs)
    assert "LinearClassifier" in capsys.readouterr().err


def test_a_model_file_holds_a_distributed_fit(tall, split, tmp_path):
    X, signs, _, _ = tall
    model = sd.LinearClassifier(alpha=0.01, **TOL).fit(split(X, 3), signs)
    sd.save(model, tmp_path / "model.saddle")
    again = sd.load(tmp_path / "model.saddle")
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_allclose(again.dual_coef_, model.dual_coef_.compute())


def test_data_in_memory_never_import_dask(run_script):
    script = """
import json, sys
import numpy as np, pandas as pd
import saddlery as sd
X, y = np.eye(6), np.array([0, 1, 2] * 2)
model = sd.LinearClassifier(alpha=0.1, tol=1e-2).fit(X, y)
model.predict_proba(pd.DataFrame(X).to_numpy())
sd.LinearRegressor(alpha=0.1).fit(X, y).predict(X)
sd.solvers.available(sd.LinearProblem(X, np.where(y > 0, 1, -1), penalty=sd.penalties.L1(0.1)))
print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))
"""
    assert not set(run_script(script)) & {"dask", "distributed"}
