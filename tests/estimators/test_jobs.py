"""Jobs in threads: answers in order, errors and Ctrl-C that reach all of them, and scikit-learn's configuration."""

import threading

import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_info, threadpool_limits

import saddlery as sd
from saddlery.estimators import jobs
from saddlery.estimators.jobs import SMALL, run_jobs


def test_answers_come_in_order_whoever_ends_first():
    first_waits = threading.Event()

    def first():
        assert first_waits.wait(60)  # so both are under way at the same time
        return threading.get_ident()

    def second():
        first_waits.set()
        return threading.get_ident()

    one, two = run_jobs([first, second], 2, SMALL, threading.Event())
    assert one != two
    assert threading.get_ident() not in (one, two)


@pytest.mark.parametrize(("n_jobs", "work"), [(None, 1e9), (1, 1e9), (2, SMALL - 1)])
def test_small_jobs_stay_in_this_thread(n_jobs, work):
    here = threading.get_ident()
    assert run_jobs([threading.get_ident] * 3, n_jobs, work, threading.Event()) == [here] * 3


def test_an_error_stops_the_others_and_is_told():
    stop = threading.Event()

    def waits():
        assert stop.wait(60)
        raise KeyboardInterrupt  # as a fold does that is told to stop: it must not hide the reason

    def fails():
        raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        run_jobs([waits, fails], 2, SMALL, stop)


def test_ctrl_c_stops_all_and_keeps_what_they_have(monkeypatch):
    stop = threading.Event()

    def interrupted(futures, return_when):
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "wait", interrupted)
    assert run_jobs([lambda: stop.wait(60), lambda: 2], 2, SMALL, stop) == [True, 2]


def test_threads_see_the_configuration():
    def displayed():
        return sklearn.get_config()["print_changed_only"]

    with sklearn.config_context(print_changed_only=False):
        assert run_jobs([displayed] * 2, 2, SMALL, threading.Event()) == [False, False]


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_folds_in_threads_score_the_same(penalty, monkeypatch):
    """Also where two paths share the matrices of a fold."""
    monkeypatch.setattr(jobs, "SMALL", 0)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 100))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(80)
    options = {"penalty": penalty, "l1_ratio": [0.5, 0.9] if penalty == "elasticnet" else 0.5, "n_alphas": 5, "cv": 3}
    one, two = (sd.LinearRegressorCV(n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_allclose(one.scores_, two.scores_, rtol=1e-12)
    assert one.alpha_ == two.alpha_


def test_ctrl_c_ends_a_search(monkeypatch):
    """Folds under way end after the present strength, and none begins."""
    monkeypatch.setattr(jobs, "SMALL", 0)
    waited = []

    def interrupted(futures, return_when):
        waited.append(futures)
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs, "wait", interrupted)
    X = np.random.default_rng(0).standard_normal((300, 1000))  # folds that are not done before Ctrl-C is heard
    with pytest.raises(KeyboardInterrupt):
        sd.LinearRegressorCV(n_alphas=40, cv=3, n_jobs=2).fit(X, X[:, :20].sum(axis=1))
    assert len(waited[0]) == 3


def test_jobs_in_threads_have_one_thread_of_blas_each():
    """And the limit ends with them."""

    def blas_threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert run_jobs([blas_threads] * 2, 2, SMALL, threading.Event()) == [{1}, {1}]
        assert blas_threads() == before
