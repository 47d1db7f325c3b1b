"""Kernels inside of kernels, compiled only once.

Numba optimises a function, turns it into machine code and wraps it for Python, then links its code into each function that calls it
and optimises everything there again. Most of our kernels are only called by others. These get a second, inner form that is typed
and kept on disk as ever, but is neither optimised, nor machine code, nor visible from Python: all that happens once, in the kernel
that Python calls (a first default fit, both measured beside other work: 27.2 -> 18.9 CPU s).

The hooks are those by which Numba's other targets replace code generators, libraries, caches and compilers. Inner code must never
meet the engine: the first definition of a name is the one that runs, so that a copy that is not optimised would be run by all.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler

__all__ = ["InnerCompiler", "has_known_insides", "inner_form"]

KNOWN = ((0, 61), (0, 68))  # oldest and newest Numba with which this was tested; others compile as ever, which takes longer


def has_known_insides() -> bool:
    """Whether the installed Numba is one whose insides are those that this file stands on."""
    return KNOWN[0] <= tuple(numba.version_info.short) <= KNOWN[1]  # type: ignore[attr-defined]


class _Library(JITCodeLibrary):
    """Code that waits to be linked into a kernel."""

    def _optimize_final_module(self) -> None:
        """Left to the kernel."""

    def _finalize_specific(self) -> None:
        """No machine code."""

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def serialize_using_object_code(self) -> Any:
        return self.serialize_using_bitcode()


class _Codegen(JITCPUCodegen):
    """Makes libraries that never meet the engine."""

    _library_class = _Library

    def _add_module(self, module: Any) -> None:
        pass

    def set_env(self, env_name: str, env: Any) -> None:
        pass


@functools.cache
def _codegen() -> _Codegen:
    return _Codegen("saddlery.inner")


class InnerCompiler(Compiler):
    """Ends with code that is good for linking."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        self.state.library = _codegen().create_library(func.__qualname__)
        return super().compile_extra(func)


class _CacheFiles(CompileResultCacheImpl):
    """Inner forms have files of their own, beside those of the kernels."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return "inner-" + super().get_filename_base(fullname, abiflags)

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return super().rebuild(target_context.subtarget(_internal_codegen=_codegen()), payload)


class _Cache(FunctionCache):
    _impl_class = _CacheFiles


def _is_plain(kind: Any) -> bool:
    """Whether what a kernel returns is nothing, numbers, or a tuple of numbers."""
    if isinstance(kind, (types.Tuple, types.UniTuple)):
        return all(map(_is_plain, kind))
    return isinstance(kind, (types.Number, types.Boolean, types.NoneType))


def _with_door(inner: Any, args: tuple[Any, ...], return_type: Any) -> Any:
    """The inner form of a kernel, optimised and wrapped for Python."""
    inner.compile(args)
    result = inner.overloads[args]
    if not _is_plain(result.signature.return_type):  # it would need constants that the inner form on disk does not have
        raise TypeError(f"{result.fndesc.qualname} returns {result.signature.return_type}: kernels fill arrays that they are given")
    context, descriptor, environment = inner.targetctx, result.fndesc, result.environment
    library = context.codegen().create_library(descriptor.qualname)
    library.enable_object_caching()
    library.add_linking_library(result.library)
    context.create_cpython_wrapper(library, descriptor, environment, None, release_gil=True)
    entry = context.get_executable(library, descriptor, environment)
    whole = result._replace(library=library, entry_point=entry, metadata={})  # Numba writes its times there
    for other in whole._find_referenced_environments():  # those of inner forms, whose code has an address only now
        library.codegen.set_env(other.env_name, other)
    return whole


def inner_form(compiled: Any, cache: bool) -> Any:
    """Split a kernel: returns the inner form, which other kernels call from now on, and which Python reaches by the kernel.

    Kernels do not call themselves: each call would ask for another inner form.
    """
    options = compiled.targetoptions | {"no_cpython_wrapper": True}
    inner = numba.jit(pipeline_class=InnerCompiler, **options)(compiled.py_func)
    if cache:
        inner._cache = _Cache(compiled.py_func)
    compiled.get_call_template, compiled.get_overload = inner.get_call_template, inner.get_overload
    compiled._compiler.compile = functools.partial(_with_door, inner)
    return inner
