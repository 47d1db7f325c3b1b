"""What a penalty with arrays among its fields needs beside a NamedTuple: to be compared, hashed, printed, copied and pickled."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ArrayFields", "frozen"]

SHOWN = 6  # numbers of an array in a repr


def frozen(values: Any, dtype: Any) -> np.ndarray:
    """A copy of `values` as an array of one dimension that nobody can write."""
    out = np.array(values, dtype=dtype, ndmin=1)
    out.setflags(write=False)
    return out


class ArrayFields:
    """To be named before the NamedTuple in the list of bases; ``parameters()`` gives what ``__new__`` takes."""

    __slots__ = ()

    def parameters(self) -> dict[str, Any]:
        """The arguments that make an equal one."""
        raise NotImplementedError

    def _key(self) -> tuple[Any, ...]:
        return tuple(v.tobytes() if isinstance(v, np.ndarray) else v for v in self.parameters().values())

    def __eq__(self, other: Any) -> bool:
        return self._key() == other._key() if type(other) is type(self) else NotImplemented

    def __ne__(self, other: Any) -> bool:  # a tuple has its own
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self.parameters().values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(v)}' for name, v in self.parameters().items())})"


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size == 1:
        return repr(value[0].item())
    if value.size <= SHOWN:
        return repr(value.tolist())
    return f"[{', '.join(f'{item:.6g}' for item in value[:SHOWN].tolist())}, ... {value.size} in all]"
