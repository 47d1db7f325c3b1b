"""Values of an estimator as JSON and plain arrays, and back. Nothing here can run code: unknown marks are refused.

Numbers, strings, booleans and None stand for themselves. Everything else is an object with one key, its mark: arrays of numbers are
kept beside the JSON and named in it, arrays of strings are written out, records of this library are written field by field.
"""

from __future__ import annotations

import dataclasses
import math
from numbers import Integral
from typing import Any

import numpy as np

from saddlery.certificate import Certificate
from saddlery.errors import InputError
from saddlery.registry import LOSSES, PENALTIES, ROW_LOSSES, SOLVERS, Registry

__all__ = ["Decoder", "Encoder", "part_fields"]

PARTS = {"loss": LOSSES, "row_loss": ROW_LOSSES, "penalty": PENALTIES}
WHOLE = ("epoch", "nonzeros")  # fields of a record that are whole numbers


class Encoder:
    """Turns values into JSON, and collects their arrays of numbers in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: Any, name: str) -> Any:
        """`value` as JSON; `name` names it in errors, and its array."""
        from saddlery.solvers.base import Solver, Status, Trace  # not at the top: reading a file needs no solvers

        if value is None or type(value) in (bool, int, float, str):
            return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value
        if isinstance(value, np.generic):
            return {"scalar": self.encode(np.asarray(value), name)}
        if hasattr(value, "__dask_graph__"):  # dual points of a distributed fit
            value = np.asarray(value.compute())
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        if hasattr(value, "tocsr"):
            csr = value.tocsr()
            pieces = {field: self._array(getattr(csr, field), f"{name}.{field}") for field in ("data", "indices", "indptr")}
            return {"sparse": {"shape": list(csr.shape), **pieces}}
        if isinstance(value, Certificate):
            return {"certificate": self._fields(dataclasses.asdict(value), name)}
        if isinstance(value, Status):
            return {"status": value.name}
        if isinstance(value, Trace):
            return {"trace": self._trace(value, name)}
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return {type(value).__name__: [self.encode(item, f"{name}.{at}") for at, item in enumerate(value)]}
        if isinstance(value, dict):
            items = enumerate(value.items())
            return {"dict": [[self.encode(k, f"{name}.key{at}"), self.encode(v, f"{name}.{at}")] for at, (k, v) in items]}
        if isinstance(value, Solver):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {"solver": {"name": _registered(SOLVERS, value), **self._fields(fields, name)}}
        for mark, registry in PARTS.items():
            if hasattr(value, "_asdict") and registry.name_of(value) in registry.places():
                return {mark: self.part(registry, value, name)}
        raise InputError(f"{name} is a {type(value).__name__}, which a model file cannot hold")

    def part(self, registry: Registry, part: Any, name: str) -> dict[str, Any]:
        """A loss or penalty as JSON: its registered name and its parameters; `name` names its arrays."""
        return self._fields(part_fields(registry, part), name)

    def _trace(self, trace: Any, name: str) -> dict[str, Any]:
        """The columns of a trace as one array; what solvers count beside them as it is."""
        fields = [field for field in type(trace[0])._fields if field != "counts"] if trace else []
        numbers = np.array([[getattr(record, field) for field in fields] for record in trace], dtype=np.float64)
        counts = [record.counts for record in trace] if any(record.counts for record in trace) else None
        numbers = numbers.reshape(len(trace), len(fields))
        return {"fields": fields, "numbers": self._array(numbers, name), "counts": self.encode(counts, f"{name}.counts")}

    def _fields(self, fields: dict[str, Any], name: str) -> dict[str, Any]:
        return {field: self.encode(value, f"{name}.{field}") for field, value in fields.items()}

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

    def _read_float(self, content: str) -> float:
        return float(content)

    def _read_array(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def _read_sparse(self, content: Any) -> Any:
        from scipy.sparse import csr_array

        pieces = tuple(self.decode(content[field]) for field in ("data", "indices", "indptr"))
        out = csr_array(pieces, shape=tuple(content["shape"]))
        out.check_format(full_check=True)
        return out

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
        return Certificate(**{name: self.decode(node) for name, node in content.items()})

    def _read_status(self, content: str) -> Any:
        from saddlery.solvers.base import Status

        return Status[content]

    def _read_trace(self, content: Any) -> Any:
        from saddlery.solvers.base import Record, Trace

        fields, counts = content["fields"], self.decode(content["counts"])
        trace = Trace()
        for at, row in enumerate(self.decode(content["numbers"]).tolist()):
            values: dict[str, Any] = {f: int(value) if f in WHOLE else value for f, value in zip(fields, row, strict=True)}
            trace.append(Record(**values) if counts is None else Record(**values, counts=counts[at]))
        return trace

    def _read_list(self, content: list[Any]) -> list[Any]:
        return [self.decode(item) for item in content]

    def _read_tuple(self, content: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in content)

    def _read_dict(self, content: list[Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in content}

    def _read_solver(self, content: dict[str, Any]) -> Any:
        return self._build(SOLVERS, content)

    def _read_loss(self, content: dict[str, Any]) -> Any:
        return self._build(LOSSES, content)

    def _read_row_loss(self, content: dict[str, Any]) -> Any:
        return self._build(ROW_LOSSES, content)

    def _read_penalty(self, content: dict[str, Any]) -> Any:
        return self._build(PENALTIES, content)

    def _build(self, registry: Registry, content: dict[str, Any]) -> Any:
        """An object of a registered class from its fields."""
        return registry.get(content["name"])(**{name: self.decode(node) for name, node in content.items() if name != "name"})


def part_fields(registry: Registry, part: Any) -> dict[str, Any]:
    """The registered name of a loss or penalty, and its parameters: numbers, and arrays of them."""
    fields = part.parameters() if hasattr(part, "parameters") else part._asdict()
    return {"name": _registered(registry, part), **{field: _plain(value) for field, value in fields.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _registered(registry: Registry, value: Any) -> str:
    name = registry.name_of(value)
    if name not in registry.places():
        raise InputError(f"the {registry.kind} {name} is not registered, so no file can name it: add an entry point for it")
    return name
