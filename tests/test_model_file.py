"""Model files: what comes back is what was saved, nothing is half written, and bad files are refused with a reason."""

import errno
import json
import os
import pickle
import stat

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.model_selection import KFold

import saddlery as sd
from saddlery import model_file
from saddlery.errors import InputError
from saddlery.files import write_atomically
from saddlery.losses import loss as make_loss_class
from saddlery.model_file import read_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
SCORE = X[:, 0] - 0.5 * X[:, 1] + 0.3 * RNG.normal(size=60)
THREE = np.digitize(SCORE, [-0.5, 0.5])
WEIGHTS = np.where(np.arange(60) % 7 == 0, 0.0, 1.0 + np.arange(60) % 3)


def binary_strings():
    return sd.LinearClassifier(alpha=0.01, random_state=0).fit(X, np.where(SCORE > 0, "yes", "no"))


def three_classes():
    penalty = sd.penalties.ElasticNet(0.02, 0.3)
    return sd.LinearClassifier(loss=sd.losses.SmoothHinge(0.5), penalty=penalty).fit(X, THREE + 5, WEIGHTS)


def class_weights():
    return sd.LinearClassifier(alpha=0.01, class_weight={False: 1.0, True: 3.0}).fit(X, SCORE > 0)


def objects():
    return sd.LinearClassifier(alpha=0.01, max_seconds=float("inf")).fit(X, np.where(SCORE > 0, "ja", "nein").astype(object))


def floats_sparse():
    return sd.LinearClassifier(alpha=0.01, fit_intercept=False, multiclass="ovr").fit(
        sp.csr_array(X), np.where(SCORE > 0, 2.0, -1.0)
    )


def regression():
    return sd.LinearRegressor(loss=sd.losses.Huber(0.5), penalty="l2", alpha=0.1, tol=1e-6).fit(X, SCORE, WEIGHTS)


def regression_cv():
    return sd.LinearRegressorCV(n_alphas=4, cv=3, penalty="elasticnet", l1_ratio=[0.5, 0.9]).fit(X, SCORE)


def classifier_cv():
    return sd.LinearClassifierCV(alphas=np.array([0.1, 0.01]), cv=3).fit(X, THREE)


MODELS = [binary_strings, three_classes, class_weights, objects, floats_sparse, regression, regression_cv, classifier_cv]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.saddle"


def same_predictions(one, two):
    """Labels are equal; products of equal numbers in other memory may differ in the last digit."""
    if one.dtype.kind == "f":
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14)
    else:
        np.testing.assert_array_equal(one, two)


def assert_same(one, two, name):
    assert type(one) is type(two), name
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype, name
        np.testing.assert_array_equal(one, two, err_msg=name)
    else:
        assert one == two, name


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_round_trip(path, make):
    model = make()
    sd.save(model, path)
    again = sd.load(path)
    assert type(again) is type(model)
    for name, value in model.get_params().items():
        assert_same(value, again.get_params()[name], name)
    fitted = {name for name in vars(model) if name.endswith("_")}
    assert fitted == {name for name in vars(again) if name.endswith("_")}
    for name in fitted:
        assert_same(getattr(model, name), getattr(again, name), name)
    data = sp.csr_array(X) if make is floats_sparse else X
    same_predictions(model.predict(data), again.predict(data))
    if hasattr(model, "predict_proba"):
        same_predictions(model.predict_proba(data), again.predict_proba(data))


def test_feature_names_and_weights(path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"größe {j}" for j in range(5)])
    model = sd.LinearRegressor(alpha=0.01).fit(frame, SCORE, WEIGHTS)
    sd.save(model, path, about={"data": "a frame"})
    again = sd.load(path)
    assert again.feature_names_in_.tolist() == list(frame.columns)
    same_predictions(again.predict(frame), model.predict(frame))
    file = read_model(path)
    np.testing.assert_array_equal(file.arrays["row_weights"], WEIGHTS / WEIGHTS.sum())
    assert file.content["about"] == {"data": "a frame"}
    assert set(file.content["versions"]) >= {"saddlery", "numpy", "scikit-learn", "python"}


def test_objective_is_that_of_the_certificate(path):
    sd.save(three_classes(), path)
    assert read_model(path).content["objective"] == {
        "loss": {"name": "smooth_hinge", "gamma": 0.5},
        "penalty": {"name": "elasticnet", "alpha": 0.02, "l1_ratio": 0.3},
        "fit_intercept": True,
    }
    model = regression_cv()
    sd.save(model, path)
    assert read_model(path).content["objective"]["penalty"]["alpha"] == model.alpha_


def test_equal_weights_are_not_stored(path):
    sd.save(sd.LinearRegressor().fit(X, SCORE, np.full(60, 3.0)), path)
    assert read_model(path).content["row_weights"] is None


def test_arrays_can_be_read_by_anyone(path):
    model = binary_strings()
    sd.save(model, path)
    with safe_open(path, framework="np") as file:
        np.testing.assert_array_equal(file.get_tensor("coef_"), model.coef_)
        assert json.loads(file.metadata()["content"])["estimator"] == "LinearClassifier"


# --------------------------------------------------------------------------- what cannot be saved


def test_refused_estimators(path):
    with pytest.raises(InputError, match="is not fitted"):
        sd.save(sd.LinearRegressor(), path)
    with pytest.raises(InputError, match="not a dict"):
        sd.save({}, path)

    class LinearRegressor(sd.LinearRegressor):
        pass

    with pytest.raises(InputError, match="use pickle"):
        sd.save(LinearRegressor().fit(X, SCORE), path)
    assert not path.exists()


def test_unregistered_losses_are_refused(path):
    @make_loss_class
    class Own(sd.losses.Squared):
        pass

    model = sd.LinearRegressor().fit(X, SCORE)
    model.loss_ = Own()
    with pytest.raises(InputError, match="Own is not registered"):
        sd.save(model, path)


def test_parameters_that_are_objects_are_left_out_with_a_warning(path):
    model = sd.LinearRegressorCV(n_alphas=3, cv=KFold(3)).fit(X, SCORE)
    with pytest.warns(UserWarning, match=r"cv is a KFold, .* will have the default of cv"):
        sd.save(model, path)
    assert sd.load(path).cv is None


# --------------------------------------------------------------------------- bad files


@pytest.fixture
def saved(path):
    sd.save(regression(), path)
    return path


def test_truncated_files(saved):
    whole = saved.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 8, len(whole) - 1]:
        saved.write_bytes(whole[:length])
        with pytest.raises(InputError, match="damaged or cut short"):
            sd.load(saved)
    saved.write_bytes(whole + b"\0")
    with pytest.raises(InputError):
        sd.load(saved)


def test_every_changed_byte_is_noticed(saved):
    whole = saved.read_bytes()
    for at in np.random.default_rng(0).choice(len(whole), size=300, replace=False):
        changed = bytearray(whole)
        changed[at] ^= 1
        saved.write_bytes(changed)
        with pytest.raises(InputError) as caught:
            sd.load(saved)
        assert "\n" not in str(caught.value)


def rewrite(path, change):
    """Change content or arrays as someone would who can compute checksums."""
    file = read_model(path)
    content, arrays = json.loads(json.dumps(file.content)), dict(file.arrays)
    change(content, arrays)
    text = json.dumps(content)
    save_file(arrays, path, metadata={"saddlery_format": "1", "content": text, "sha256": model_file._digest(text, arrays)})


CHANGES = [
    (lambda c, a: c.update(estimator="PosixPath"), "holds a PosixPath, which saddlery does not load"),
    (lambda c, a: c.update(estimator="audit"), "holds a audit"),
    (lambda c, a: c.pop("objective"), "holds no objective"),
    (lambda c, a: c["attributes"].pop("coef_"), "holds no fitted model"),
    (lambda c, a: c["attributes"].update(__class__="str"), "holds '__class__', which is no fitted attribute"),
    (lambda c, a: c["attributes"].update(predict=1), "holds 'predict', which is no fitted attribute"),
    (lambda c, a: c["attributes"].update(coef_={"array": "nowhere"}), "cannot be loaded: the file holds a array that does not"),
    (lambda c, a: c["attributes"].update(coef_={"pickle": "gASVIQ"}), "a value of an unknown kind"),
    (lambda c, a: c["attributes"].update(coef_=[1, 2]), "a value of an unknown kind"),
    (lambda c, a: c["attributes"].update(status_={"status": "GREAT"}), "a status that does not make sense"),
    (lambda c, a: c["attributes"].update(certificate_={"certificate": {"primal": 1}}), "a certificate that does not make sense"),
    (lambda c, a: c["attributes"].update(x_={"strings": {"dtype": "V8", "shape": [0], "items": []}}), "strings of an unknown type"),
    (lambda c, a: c["parameters"].update(loss={"loss": {"name": "os.system"}}), "unknown loss"),
    (
        lambda c, a: c["parameters"].update(solver={"solver": {"name": "sdca", "command": "ls"}}),
        "a solver that does not make sense",
    ),
    (lambda c, a: c["parameters"].update(colour="red"), "has no parameter colour"),
]


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_tampered_files_with_a_good_checksum(saved, change, reason):
    rewrite(saved, change)
    with pytest.raises(InputError, match=reason):
        sd.load(saved)


def test_foreign_files(path, tmp_path):
    save_file({"weight": np.zeros(3)}, path)
    with pytest.raises(InputError, match="a safetensors file, but not a saddlery model"):
        sd.load(path)
    save_file({"weight": np.zeros(3)}, path, metadata={"saddlery_format": "99"})
    with pytest.raises(InputError, match="format '99', but this version of saddlery reads 1: upgrade"):
        sd.load(path)
    save_file({}, path, metadata={"saddlery_format": "1", "content": "{", "sha256": model_file._digest("{", {})})
    with pytest.raises(InputError, match="no JSON"):
        sd.load(path)
    path.write_bytes(pickle.dumps({"coef_": [1.0]}))
    with pytest.raises(InputError, match="no saddlery model"):
        sd.load(path)
    with pytest.raises(FileNotFoundError):
        sd.load(tmp_path / "nothing.saddle")
    with pytest.raises(FileNotFoundError):
        sd.load(tmp_path)


# --------------------------------------------------------------------------- atomic writing


def full_disk(*args):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_failed_write_leaves_the_old_file(saved, monkeypatch, step):
    before = saved.read_bytes()
    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(
        OSError, match=r"could not write .* \(No space left on device\): the file that was there is unchanged"
    ) as caught:
        sd.save(binary_strings(), saved)
    assert caught.value.errno == errno.ENOSPC
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_interrupted_write_leaves_nothing(path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"content")
    assert os.listdir(path.parent) == []


def test_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"could not write .*No such file"):
        write_atomically(tmp_path / "no" / "model.saddle", b"")


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_and_links_are_kept(tmp_path):
    path, link = tmp_path / "real", tmp_path / "link"
    mask = os.umask(0o027)
    try:
        write_atomically(path, b"1")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    link.symlink_to(path)
    write_atomically(link, b"2")
    assert (path.read_bytes(), link.is_symlink(), stat.S_IMODE(path.stat().st_mode)) == (b"2", True, 0o600)
