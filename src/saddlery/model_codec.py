"""Values of an estimator as JSON and plain arrays, and back. Nothing here can run code: unknown marks are refused.

Numbers, strings, booleans and None stand for themselves. Everything else is an object with one key, its mark: arrays of numbers are
kept beside the JSON and named in it, arrays of strings are written out, records of this library are written field by field.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.registry import LOSSES, PENALTIES, SOLVERS, Registry

__all__ = ["Decoder", "Encoder", "part_fields"]

PARTS = {"loss": LOSSES, "penalty": PENALTIES}


class Encoder:
    """Turns values into JSON, and collects their arrays of numbers in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: Any, name: str) -> Any:
        """`value` as JSON; `name` names it in errors, and its array."""
        from saddlery.solvers.base import Solver, Status, Trace  # noqa: PLC0415  (costs the import of the solvers)

        if value is None or isinstance(value, (bool, int, float, str)) and type(value).__module__ == "builtins":
            return value
        if isinstance(value, np.generic):
            return {"scalar": self.encode(np.asarray(value), name)}
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        if isinstance(value, Certificate):
            return {"certificate": dataclasses.asdict(value)}
        if isinstance(value, Status):
            return {"status": value.name}
        if isinstance(value, Trace):
            return {"trace": self._array(np.array(value, dtype=np.float64).reshape(len(value), -1), name)}
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return {type(value).__name__: [self.encode(item, f"{name}.{at}") for at, item in enumerate(value)]}
        if isinstance(value, dict):
            items = enumerate(value.items())
            return {"dict": [[self.encode(k, f"{name}.key{at}"), self.encode(v, f"{name}.{at}")] for at, (k, v) in items]}
        if isinstance(value, Solver):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {"solver": {"name": _registered(SOLVERS, value), **self._plain(fields, name)}}
        for mark, registry in PARTS.items():
            if hasattr(value, "_asdict") and _is_registered(registry, value):
                return {mark: part_fields(registry, value)}
        raise InputError(f"{name} is a {type(value).__name__}, which a model file cannot hold")

    def _plain(self, fields: dict[str, Any], name: str) -> dict[str, Any]:
        for field, value in fields.items():
            if not (value is None or isinstance(value, (bool, int, float, str))):
                raise InputError(f"{field} of {name} is a {type(value).__name__}, which a model file cannot hold")
        return fields

    def _array(self, value: np.ndarray, name: str) -> dict[str, Any]:
        if value.dtype.kind in "OU":
            if not all(isinstance(item, (str, int, float, bool)) for item in value.flat):
                raise InputError(f"{name} holds Python objects that are neither text nor numbers, which a model file cannot hold")
            return {"strings": {"dtype": value.dtype.str, "shape": list(value.shape), "items": value.ravel().tolist()}}
        if value.dtype.kind not in "fiub" or value.dtype.itemsize > 8:
            raise InputError(f"{name} is an array of type {value.dtype}, which a model file cannot hold: use numbers or strings")
        self.arrays[name] = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("=")).reshape(value.shape)
        return {"array": name}


class Decoder:
    """Turns JSON back into values, with the arrays that it names."""

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = arrays

    def decode(self, node: Any) -> Any:
        """The value that was encoded; anything that does not fit is refused."""
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if isinstance(node, dict) and len(node) == 1:
            (mark, content), *_ = node.items()
            reader = getattr(self, f"_read_{mark}", None)
            if reader is not None:
                try:
                    return reader(content)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    if isinstance(error, InputError):
                        raise
                    raise InputError(f"the file holds a {mark} that does not make sense ({error})") from error
        raise InputError("the file holds a value of an unknown kind: it was written by another version, or damaged")

    def _read_array(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def _read_scalar(self, content: Any) -> Any:
        return self.decode(content)[()]

    def _read_strings(self, content: Any) -> np.ndarray:
        dtype = np.dtype(content["dtype"])
        if dtype.kind not in "OU":
            raise InputError("the file holds strings of an unknown type")
        out = np.empty(len(content["items"]), dtype=dtype)
        out[:] = content["items"]
        return out.reshape(content["shape"])

    def _read_certificate(self, content: Any) -> Certificate:
        return Certificate(**content)

    def _read_status(self, content: str) -> Any:
        from saddlery.solvers.base import Status  # noqa: PLC0415

        return Status[content]

    def _read_trace(self, content: Any) -> Any:
        from saddlery.solvers.base import Record, Trace  # noqa: PLC0415

        whole = {"epoch", "nonzeros"}
        rows = self.decode(content).tolist()
        return Trace(
            Record(*(int(value) if field in whole else value for field, value in zip(Record._fields, row, strict=True))) for row in rows
        )

    def _read_list(self, content: list[Any]) -> list[Any]:
        return [self.decode(item) for item in content]

    def _read_tuple(self, content: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in content)

    def _read_dict(self, content: list[Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in content}

    def _read_solver(self, content: dict[str, Any]) -> Any:
        return SOLVERS.get(content["name"])(**{k: v for k, v in content.items() if k != "name"})

    def _read_loss(self, content: dict[str, Any]) -> Any:
        return LOSSES.get(content["name"])(**{k: v for k, v in content.items() if k != "name"})

    def _read_penalty(self, content: dict[str, Any]) -> Any:
        return PENALTIES.get(content["name"])(**{k: v for k, v in content.items() if k != "name"})


def part_fields(registry: Registry, part: Any) -> dict[str, Any]:
    """The registered name of a loss or penalty, and its parameters."""
    return {"name": _registered(registry, part), **{field: float(value) for field, value in part._asdict().items()}}


def _is_registered(registry: Registry, value: Any) -> bool:
    return registry.name_of(value) in registry.places()


def _registered(registry: Registry, value: Any) -> str:
    name = registry.name_of(value)
    if name not in registry.places():
        raise InputError(f"the {registry.kind} {name} is not registered, so no file can name it: add an entry point for it")
    return name
