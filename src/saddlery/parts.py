"""How a loss, a penalty or a matrix is seen by Numba.

A *part* is a ``NamedTuple`` whose methods are ordinary scalar Python functions. The decorator
:func:`part` gives it a Numba type of its own, so that a kernel can take ``loss`` or ``penalty`` as an
argument, call ``loss.slope(y, z)`` at hand-written speed, and still be cached on disk.

Numba's index only notices edits of the file that holds a kernel. The type of a part therefore carries
a digest: of the code of its methods (and of what they call) and of all sources of this library. An edit
anywhere gives another type, and with it another cache entry; an old number is never returned.

Two rules follow for those who write kernels: give every kernel at least one part as an argument, and
annotate the fields of a part (``alpha: float``), because annotations fix the compiled types.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import types as python_types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numba
import numpy as np
from numba import types
from numba.extending import (
    NativeValue,
    box,
    models,
    overload_method,
    register_model,
    typeof_impl,
    unbox,
)

from saddlery.inner_code import InnerCompiler, has_known_insides, inner_form

__all__ = ["JIT_DISABLED", "code_digest", "kernel", "part", "verb"]

JIT_DISABLED = bool(numba.config.DISABLE_JIT)  # type: ignore[attr-defined]
SPLIT = has_known_insides() and not JIT_DISABLED  # whether kernels have inner forms
_SCALARS = {float: types.float64, int: types.int64, bool: types.boolean}
_CLASSES: dict[tuple[str, str], type] = {}
_LOOKS: dict[tuple[str, tuple[str, ...]], str] = {}
_VERBS: set[str] = set()


# --------------------------------------------------------------------------- digests


@functools.cache
def library_digest() -> str:
    """Digest of all Python sources of the library, in the order of their paths."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def code_digest(cls: type) -> str:
    """Digest of the methods of `cls`, of the functions that they call, and of what they name, capture or have as defaults."""
    digest, seen = hashlib.sha256(), set()

    def add_code(code: python_types.CodeType, scope: dict[str, Any]) -> None:
        digest.update(code.co_code)
        for constant in code.co_consts:
            if isinstance(constant, python_types.CodeType):
                add_code(constant, scope)
            else:
                digest.update(repr(sorted(constant) if isinstance(constant, frozenset) else constant).encode())
        for name in code.co_names:
            digest.update(name.encode())
            if name in scope:
                add(scope[name])

    def add(value: Any) -> None:
        value = getattr(value, "py_func", value)
        if isinstance(value, python_types.FunctionType):
            if value not in seen:
                seen.add(value)
                add_code(value.__code__, value.__globals__)
                for captured in (*(value.__defaults__ or ()), *(cell.cell_contents for cell in value.__closure__ or ())):
                    add(captured)
        elif isinstance(value, np.ndarray):
            digest.update(value.tobytes())
        elif isinstance(value, (int, float, bool, str, tuple)):
            digest.update(repr(value).encode())

    for name in sorted(dir(cls)):
        if not name.startswith("_"):  # what NamedTuple generates differs from process to process
            add(inspect.getattr_static(cls, name))
    return digest.hexdigest()[:16]


# --------------------------------------------------------------------------- the Numba types


class _Part(types.Type):
    """Common ancestor of all part types: one ``overload_method`` for each verb serves every part."""

    instance_class: type | None


class PartType(_Part, types.NamedTuple):
    """A part with fields: laid out as a tuple, known by name, digest and types of the fields."""

    def __init__(self, fields: tuple[str, ...], field_types: tuple[types.Type, ...], qualname: str, digest: str):
        self.fields, self.types, self.count = fields, field_types, len(field_types)
        self.qualname, self.digest = qualname, digest
        self.instance_class = _CLASSES.get((qualname, digest))  # compile time only, never pickled
        inside = ", ".join(f"{name}: {kind}" for name, kind in zip(fields, field_types, strict=True))
        types.Type.__init__(self, f"Part[{qualname}@{digest}]({inside})")

    @property
    def key(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return PartType, (self.fields, self.types, self.qualname, self.digest)


class EmptyPartType(_Part):
    """A part without fields. Numba cannot pass an empty tuple, so it travels as an opaque dummy."""

    def __init__(self, qualname: str, digest: str):
        self.qualname, self.digest = qualname, digest
        self.instance_class = _CLASSES.get((qualname, digest))
        types.Type.__init__(self, f"Part[{qualname}@{digest}]()")

    @property
    def key(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return EmptyPartType, (self.qualname, self.digest)


register_model(PartType)(models.TupleModel)
register_model(EmptyPartType)(models.OpaqueModel)


@unbox(EmptyPartType)
def _unbox_empty(typ: EmptyPartType, obj: Any, c: Any) -> NativeValue:
    return NativeValue(c.context.get_dummy_value())


@box(EmptyPartType)
def _box_empty(typ: EmptyPartType, val: Any, c: Any) -> Any:
    return c.pyapi.call_function_objargs(c.pyapi.unserialize(c.pyapi.serialize_object(typ.instance_class)), ())


def _field_type(hint: Any, value: Any, context: Any) -> types.Type:
    """Annotated scalars have the annotated type; arrays are read-only, so memory maps share the kernels."""
    kind = _SCALARS.get(hint) or typeof_impl(value, context)
    return kind.copy(readonly=True) if isinstance(kind, types.Array) else kind


def part(cls: type) -> type:
    """Make a ``NamedTuple`` class usable as an argument of kernels.

    Parameters
    ----------
    cls : type
        A ``typing.NamedTuple`` class with annotated fields. Its methods whose names are verbs
        (see :func:`verb`) can be called inside kernels.

    Returns
    -------
    type
        The same class.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> @part
    ... class Doubled(NamedTuple):
    ...     factor: float = 2.0
    ...     def value(self, y, z):
    ...         return self.factor * (z - y)
    >>> Doubled().value(1.0, 3.0)
    4.0
    """
    name = f"{cls.__module__}.{cls.__qualname__}"
    digest = code_digest(cls) + library_digest()
    _CLASSES[name, digest] = cls
    hints = get_type_hints(cls)
    # Numba's quick look at an argument knows a NamedTuple by the names of class and fields only: two that agree in these, say after
    # an edit in a notebook, must not be taken for each other.
    look = (cls.__name__, getattr(cls, "_fields", ()))
    if _LOOKS.setdefault(look, digest) != digest:
        cls.__name__ = f"{cls.__name__}_{digest[:8]}"

    @typeof_impl.register(cls)
    def _typeof(value: Any, context: Any) -> types.Type:
        if not value:
            return EmptyPartType(name, digest)
        kinds = tuple(_field_type(hints[f], v, context) for f, v in zip(cls._fields, value, strict=True))  # type: ignore[attr-defined]
        return PartType(cls._fields, kinds, name, digest)  # type: ignore[attr-defined]

    return cls


def verb(name: str, arguments: str, inline: Literal["never", "always"] = "never") -> None:
    """Let kernels call the method `name` of any part. `arguments` names them, as each method must.

    Parameters
    ----------
    name : str
        Name of the method.
    arguments : str
        Comma-separated names of its arguments, without ``self``.
    inline : {"never", "always"}
        ``"always"`` pastes the method into the kernel: for matrix verbs, which else count array references.
    """
    if name in _VERBS:
        raise ValueError(f"the verb {name!r} is registered already")
    _VERBS.add(name)
    scope: dict[str, Any] = {}
    source = (
        f"def {name}(self, {arguments}):\n    return pick(self, {name!r})\n"
        if arguments
        else (f"def {name}(self):\n    return pick(self, {name!r})\n")
    )
    exec(source, {"pick": _implementation}, scope)  # the names of the arguments are part of the protocol
    # Verbs are pasted by LLVM wherever they are called: a loop with a call in it is not turned into vector code.
    options: dict[str, Any] = {"forceinline": True, "no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    if SPLIT:
        options["pipeline_class"] = InnerCompiler
    overload_method(_Part, name, inline=inline, jit_options=options)(scope[name])  # type: ignore[call-arg]


def _implementation(part_type: _Part, name: str) -> Callable[..., Any] | None:
    method = getattr(part_type.instance_class, name, None)
    return getattr(method, "scalar", method)  # losses wrap their scalar methods for arrays


# --------------------------------------------------------------------------- kernels


@functools.cache
def _cache_is_writable() -> bool:
    """Whether compiled kernels can be kept; says so once if not."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    for folder in [chosen] if chosen else [str(Path(__file__).parent), str(Path.home() / ".cache")]:
        probe = Path(folder)
        while not probe.exists() and probe != probe.parent:
            probe = probe.parent
        if os.access(probe, os.W_OK):
            return True
    warnings.warn(
        "saddlery found no writable directory for compiled kernels, so each process compiles anew; "
        "set NUMBA_CACHE_DIR to a writable directory",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


_KERNELS: list[Any] = []


def kernel(
    function: Callable[..., Any] | None = None, *, fast_sums: bool = False, inline: bool = False, only_inside: bool = False
) -> Any:
    """Compile a hot loop: ``njit`` with disk cache, without the GIL, with NumPy's division and fused multiply-add.

    Parameters
    ----------
    function : callable
        The loop.
    fast_sums : bool
        Allow re-association, so that sums use vector units. Never for code that must
        meet NaN or infinity, and never for error-free transformations.
    inline : bool
        Paste it into the kernels that call it: for formulas of one number, so that loops over them become vector code.
    only_inside : bool
        Paste it before anything is compiled: for the one long kernel inside of another, which would else be compiled twice.
    """
    if function is None:
        return functools.partial(kernel, fast_sums=fast_sums, inline=inline, only_inside=only_inside)
    fastmath = {"reassoc", "contract", "nsz", "arcp"} if fast_sums else {"contract"}
    options: dict[str, Any] = {"forceinline": True} if inline else {}
    if only_inside:
        options["inline"] = "always"
    options["no_cfunc_wrapper"] = True  # nobody calls kernels from C (a first default fit: 7.4 -> 6.4 s)
    cache = _cache_is_writable()
    compiled = numba.njit(cache=cache, nogil=True, error_model="numpy", fastmath=fastmath, **options)(function)
    _KERNELS.extend([compiled, inner_form(compiled, cache)] if SPLIT else [compiled])
    return compiled


def cache_misses() -> int:
    """Number of kernels that this process had to compile (0 when the disk cache served everything)."""
    return sum(sum(k.stats.cache_misses.values()) for k in _KERNELS if hasattr(k, "stats"))
