"""Estimators on stores: the same models, predictions by blocks, and a fit under a hard limit of memory."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery.errors import InputError


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((70, 9))
    score = X @ rng.standard_normal(9) + 0.3 * rng.standard_normal(70)
    return X, score, np.array(["low", "middle", "high"])[np.digitize(score, [-1.0, 1.0])]


def opened(values, y, folder, **options):
    store = sd.open_store(sd.convert((values, y), folder, **options), load=False)
    store.block_bytes, store.room = 1000, 3000
    return store


@pytest.mark.parametrize("sparse", [False, True])
def test_classifier(data, tmp_path, sparse):
    X, score, _ = data
    y = np.where(score > 0.0, "yes", "no")
    with opened(sp.csr_array(X) if sparse else X, y, tmp_path / "store") as store:
        model = sd.LinearClassifier(alpha=0.02, tol=1e-8).fit(store)  # targets are those of the store
        want = sd.LinearClassifier(alpha=0.02, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(model.coef_, want.coef_, atol=5e-4)
        assert model.certificate_.relative_gap <= 1e-8
        np.testing.assert_array_equal(model.predict(store), model.predict(X))
        np.testing.assert_allclose(model.predict_proba(store), model.predict_proba(X), atol=1e-12)
        assert model.score(store, store.y) == model.score(X, y)
        weights = np.arange(70) % 3.0
        weighted = sd.LinearClassifier(alpha=0.02, tol=1e-8, class_weight="balanced").fit(store, y, sample_weight=weights)
        plain = sd.LinearClassifier(alpha=0.02, tol=1e-8, class_weight="balanced").fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(weighted.coef_, plain.coef_, atol=5e-4)
        np.testing.assert_allclose(weighted.dual_coef_[weights == 0.0], 0.0)
        with pytest.raises(InputError, match="70 rows"):
            model.fit(store, y[:-1])
        with pytest.raises(InputError, match="expecting 9 features"):
            model.predict(store.select(None, np.arange(4)))


def test_three_classes_and_regression(data, tmp_path):
    X, score, three = data
    with opened(X, three, tmp_path / "three") as store:
        model = sd.LinearClassifier(alpha=0.02, tol=1e-8).fit(store)
        np.testing.assert_allclose(model.coef_, sd.LinearClassifier(alpha=0.02, tol=1e-8).fit(X, three).coef_, atol=5e-4)
        np.testing.assert_array_equal(model.predict(store), model.predict(X))
        with pytest.raises(InputError, match="read in parts"):
            sd.LinearClassifier(multiclass="joint").fit(store)
    with opened(X, score, tmp_path / "score") as store:
        for penalty in ("l1", "l2"):
            model = sd.LinearRegressor(penalty=penalty, alpha=0.02, tol=1e-10).fit(store)
            want = sd.LinearRegressor(penalty=penalty, alpha=0.02, tol=1e-10).fit(X, score)
            np.testing.assert_allclose(model.coef_, want.coef_, atol=5e-4)
            np.testing.assert_allclose(model.predict(store), model.predict(X))


def test_cross_validation_cuts_folds_without_copies(data, tmp_path):
    X, score, _ = data
    with opened(X, score, tmp_path / "store") as store:
        model = sd.LinearRegressorCV(n_alphas=4, cv=3, tol=1e-6).fit(store)
    want = sd.LinearRegressorCV(n_alphas=4, cv=3, tol=1e-6).fit(X, score)
    assert model.alpha_ == pytest.approx(want.alpha_)
    np.testing.assert_allclose(model.coef_, want.coef_, atol=1e-4)


def test_names_and_missing_targets(data, tmp_path):
    X, _, _ = data
    with opened(X, None, tmp_path / "store") as store, pytest.raises(InputError, match="target y is None"):
        sd.LinearClassifier().fit(store)
    path = tmp_path / "named.csv"
    path.write_text("a,b,y\n" + "".join(f"{i % 3},{i % 2},{i % 2}\n" for i in range(12)))
    store = sd.open_store(sd.convert(path, tmp_path / "named"), load=False)
    model = sd.LinearClassifier(alpha=0.01).fit(store)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    store.feature_names = ["b", "a"]
    with pytest.raises(InputError, match="column 0 of X is called 'b', but the model was fitted with 'a'"):
        model.predict(store)


LIMITED = """
import json, re, resource, sys
import numpy as np
import saddlery as sd

small, large = sys.argv[1:]
model = dict(alpha=0.02, tol=1e-5)
sd.LinearClassifier(**model).fit(sd.open_store(small, load=False))  # compile before the limit
used = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1])
resource.setrlimit(resource.RLIMIT_AS, (used + 40_000_000, used + 40_000_000))
store = sd.open_store(large, max_memory="16MB")
try:
    np.empty(store.nnz, dtype=np.float32)
    fits = True
except MemoryError:
    fits = False
fitted = sd.LinearClassifier(**model).fit(store)
right = float(np.mean(fitted.predict(store) == store.y))
print(json.dumps([fits, fitted.status_.name, fitted.certificate_.relative_gap, right, store.bytes_read / (4 * store.nnz)]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space are those of Linux")
def test_fit_under_a_hard_limit(tmp_path, run_script):
    """60 MB of data, 40 MB of address space beyond what the program itself takes: the data cannot be in memory, the fit can."""

    def rows(n, d):
        rng = np.random.default_rng(0)
        for _ in range(n // 500):
            X = rng.standard_normal((500, d), dtype=np.float32)
            yield X, np.where(X[:, :5].sum(axis=1) > 0.5, "a", "b")

    sd.convert(rows(1000, 40), tmp_path / "small")
    sd.convert(rows(5000, 3000), tmp_path / "large", max_memory="20MB")
    script = tmp_path / "limited.py"
    script.write_text(LIMITED)
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    fits, status, gap, right, passes = run_script(script, str(tmp_path / "small"), str(tmp_path / "large"), **environment)
    assert not fits
    assert status == "CONVERGED"
    assert gap <= 1e-5
    assert right > 0.9
    assert passes < 40
