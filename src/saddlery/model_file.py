"""Model files: ``.saddle`` is safetensors, plain arrays with JSON beside them. Loading runs no code from the file.

The metadata of the safetensors file have three entries: ``saddlery_format`` (its version), ``content`` (JSON) and ``sha256``
(of the content and all arrays). The content names the class of the estimator, its parameters and attributes, the objective that
its certificate is about, and the versions of what wrote it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import saddlery
from saddlery.errors import InputError
from saddlery.files import write_atomically
from saddlery.model_codec import Decoder, Encoder
from saddlery.registry import LOSSES, PENALTIES, ROW_LOSSES

__all__ = ["ModelFile", "load", "read_model", "restore", "save"]

FORMAT = 1
ESTIMATORS = ("LinearClassifier", "LinearRegressor", "LinearClassifierCV", "LinearRegressorCV", "SublinearSVC")
VERSIONS = ("saddlery", "numpy", "scipy", "numba", "scikit-learn")
WEIGHTS = "_row_weights"


class ModelFile(NamedTuple):
    """What a file holds, checked but not yet made an estimator: JSON content and arrays."""

    path: Path
    content: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def attribute(self, name: str) -> Any:
        """A fitted attribute such as ``"coef_"``; None if there is none of that name."""
        try:
            return Decoder(self.arrays).decode(self.content["attributes"].get(name))
        except InputError as error:
            raise InputError(f"{self.path} cannot be read: {error}") from error

    def objective(self) -> dict[str, Any]:
        """What the certificate is about, in the words of :func:`saddlery.verify.verify`."""
        decoder, content = Decoder(self.arrays), self.content["objective"]
        if "game" in content:
            raise InputError(
                f"{self.path} holds a {self.content['estimator']}, a game without loss and penalty: certify it by "
                "saddlery.SlackSVMProblem(X, y, slack).certify(w, None, b)"
            )
        try:
            parts = {kind: {name: decoder.decode(node) for name, node in content[kind].items()} for kind in ("loss", "penalty")}
            joint = content.get("classes") == "joint"
            return {**parts, "fit_intercept": content["fit_intercept"], **({"classes": "joint"} if joint else {})}
        except (KeyError, AttributeError, InputError) as error:
            raise InputError(
                f"{self.path} holds no objective that can be read ({error}): it was not written by saddlery"
            ) from error

    def row_weights(self) -> np.ndarray | None:
        """Weights of the rows, which sum to one; None if they are equal."""
        return Decoder(self.arrays).decode(self.content["row_weights"])


# --------------------------------------------------------------------------- saving


def save(estimator: Any, path: str | os.PathLike[str], about: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to a file.

    The file is written beside its place and then moved there: it appears whole or not at all, and an old file survives a full disk.

    Parameters
    ----------
    estimator : estimator
        A fitted `LinearClassifier`, `LinearRegressor`, `LinearClassifierCV`, `LinearRegressorCV` or `SublinearSVC`.
    path : str or path
        The file, by custom ``something.saddle``.
    about : dict, optional
        Remarks in JSON types, kept with the model: where the data came from, for example.

    Examples
    --------
    >>> import tempfile, saddlery as sd
    >>> model = sd.LinearRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sd.save(model, folder + "/line.saddle")
    ...     again = sd.load(folder + "/line.saddle")
    >>> again.certificate_ == model.certificate_
    True
    """
    from safetensors.numpy import save as to_bytes  # here, so that the command line answers --help at once

    content, arrays = _describe(estimator, about)
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    metadata = {"saddlery_format": str(FORMAT), "content": text, "sha256": _digest(text, arrays)}
    write_atomically(path, to_bytes(arrays, metadata=metadata))


def _describe(estimator: Any, about: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    name = type(estimator).__name__
    if name not in ESTIMATORS or getattr(saddlery, name) is not type(estimator):
        raise InputError(f"a model file holds one of {', '.join(ESTIMATORS)}, not a {name}: use pickle or joblib for others")
    if not hasattr(estimator, "coef_"):
        raise InputError(f"the {name} is not fitted: call fit before save")
    encoder = Encoder()
    fitted = {key: value for key, value in vars(estimator).items() if key.endswith("_") and not key.startswith("_")}
    weights = getattr(estimator, WEIGHTS)
    weighted = weights is not None and np.ptp(weights) > 0.0
    content = {
        "estimator": name,
        "objective": _objective(estimator, encoder),
        "parameters": _parameters(estimator, encoder),
        "attributes": {key: encoder.encode(value, key) for key, value in fitted.items()},
        "row_weights": encoder.encode(weights / weights.sum(), "row_weights") if weighted else None,
        "versions": {"python": platform.python_version(), **{package: version(package) for package in VERSIONS}},
        "about": about or {},
    }
    return content, encoder.arrays


def _parameters(estimator: Any, encoder: Encoder) -> dict[str, Any]:
    """The parameters; those that are objects of no known kind (a splitter, a random generator) are left out, and said so."""
    out = {}
    for name, value in estimator.get_params(deep=False).items():
        try:
            out[name] = encoder.encode(value, f"parameter.{name}")
        except InputError as error:
            if name in ("loss", "penalty"):
                raise  # predictions and certificate depend on them
            warnings.warn(f"{error}: the loaded model will have the default of {name}", UserWarning, stacklevel=4)
    return out


def _objective(estimator: Any, encoder: Encoder) -> dict[str, Any]:
    """The objective that the certificate is about; :meth:`ModelFile.objective` reads it."""
    if not hasattr(estimator, "loss_"):
        slack = encoder.encode(estimator.slack_, "objective.slack")
        return {"game": "slack_svm", "slack": slack, "form": estimator.form, "fit_intercept": bool(estimator.fit_intercept)}
    joint = hasattr(estimator.loss_, "row_value")
    return {
        **({"classes": "joint"} if joint else {}),
        "loss": encoder.part(ROW_LOSSES if joint else LOSSES, estimator.loss_, "objective.loss"),
        "penalty": encoder.part(PENALTIES, estimator.penalty_, "objective.penalty"),
        "fit_intercept": bool(estimator.fit_intercept),
    }


def _digest(text: str, arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# --------------------------------------------------------------------------- loading


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator from a file written by :func:`saddlery.save`.

    Damaged, tampered-with and foreign files are refused with a reason; no code from the file is run.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    estimator
        Predicts exactly as the one that was saved.
    """
    return restore(read_model(path))


def restore(file: ModelFile) -> Any:
    """The estimator that a file holds."""
    cls = getattr(saddlery, file.content["estimator"])
    decoder = Decoder(file.arrays)
    try:
        parameters = {name: decoder.decode(node) for name, node in file.content["parameters"].items()}
        unknown = sorted(set(parameters) - set(cls._get_param_names()))
        if unknown:
            raise InputError(f"{cls.__name__} has no parameter {unknown[0]}: the file was written by another version")
        estimator = cls(**parameters)
        for name, node in file.content["attributes"].items():
            setattr(estimator, name, decoder.decode(node))
        setattr(estimator, WEIGHTS, decoder.decode(file.content["row_weights"]))
    except InputError as error:
        raise InputError(f"{file.path} cannot be loaded: {error}") from error
    return estimator


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read and check a model file without making an estimator of it; needs neither scikit-learn nor Numba."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(2, "there is no such model file", str(path))
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in sorted(file.keys())} if "saddlery_format" in metadata else {}
    except (SafetensorError, TypeError, AttributeError, KeyError) as error:  # the last three: types that NumPy does not have
        raise InputError(f"{path} is no saddlery model, or it is damaged or cut short ({error})") from error
    if "saddlery_format" not in metadata:
        raise InputError(f"{path} is a safetensors file, but not a saddlery model: give a file written by saddlery.save")
    if metadata["saddlery_format"] != str(FORMAT):
        raise InputError(
            f"{path} has the format {metadata['saddlery_format']!r}, but this version of saddlery reads {FORMAT}: upgrade saddlery"
        )
    text = metadata.get("content", "")
    if metadata.get("sha256") != _digest(text, arrays):
        raise InputError(f"{path} was damaged or changed after it was written: its checksum does not match")
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path} holds no JSON where the model should be: it was not written by saddlery") from error
    _check_content(path, content)
    return ModelFile(path, content, arrays)


def _check_content(path: Path, content: Any) -> None:
    """Refuse content that lacks what every model has; a checksum only shows that nobody changed it by accident."""
    shapes = {"parameters": dict, "attributes": dict, "objective": dict, "versions": dict, "about": dict, "estimator": str}
    for name, kind in shapes.items():
        if not isinstance(content, dict) or not isinstance(content.get(name), kind):
            raise InputError(f"{path} holds no {name}: it was not written by saddlery")
    if content["estimator"] not in ESTIMATORS:
        raise InputError(f"{path} holds a {content['estimator']}, which saddlery does not load: it knows {', '.join(ESTIMATORS)}")
    if "coef_" not in content["attributes"] or "row_weights" not in content:
        raise InputError(f"{path} holds no fitted model: it was not written by saddlery")
    for name in content["attributes"]:
        if not name.endswith("_") or name.startswith("_"):
            raise InputError(f"{path} holds {name!r}, which is no fitted attribute: it was not written by saddlery")
