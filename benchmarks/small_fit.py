"""What a small fit costs beyond its kernels, and whether a thousand of them leak memory.

The overhead is the median CPU time of ``LinearClassifier().fit`` on scikit-learn's breast-cancer data, less the time inside
compiled code: validation, choice of the solver, dispatch to kernels, certificates, attributes. The time inside is taken in
separate runs, in which every call of a kernel from Python is timed from the moment its arguments are matched.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import saddlery as sd
from saddlery import parts

MAX_OVERHEAD_MS = 3.0
MAX_LEAK_KB = 1024


class KernelClock:
    """Adds up the time inside kernels that Python calls, by giving the kernels a class that takes it."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0
        self._before: list[tuple[Any, type]] = []

    def __enter__(self) -> KernelClock:
        for kernel in parts._KERNELS:
            if isinstance(kernel, Dispatcher):
                self._before.append((kernel, type(kernel)))
                kernel.__class__ = self._timed(type(kernel))
        return self

    def __exit__(self, *_: object) -> None:
        for kernel, cls in self._before:
            kernel.__class__ = cls

    def _timed(self, cls: type) -> type:
        clock = self

        def call(kernel: Any, *args: Any) -> Any:
            compiled = kernel.overloads.get(tuple(map(kernel.typeof_pyval, args)))
            if compiled is None:  # not called with such arguments before, or by another route: count all of it
                function = lambda *args: cls.__call__(kernel, *args)  # noqa: E731
            else:
                function = compiled.entry_point
            began = time.process_time()
            result = function(*args)
            clock.seconds += time.process_time() - began
            clock.calls += 1
            return result

        return type(f"Timed{cls.__name__}", (cls,), {"__call__": call})


def resident_kb() -> int:
    """Resident memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def median_ms(function: Any, runs: int) -> float:
    """Median CPU time of some runs."""
    times = []
    for _ in range(runs):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return 1e3 * float(np.median(times))


def main() -> None:
    """Print both, and whether they are as they must be."""
    parser = argparse.ArgumentParser(description="Overhead of a small fit, and leaks.")
    parser.add_argument("--runs", type=int, default=200, help="fits for the median")
    parser.add_argument("--fits", type=int, default=1000, help="fits for the leak check; 0 skips it")
    parser.add_argument("--raw", action="store_true", help="features as they come, which takes more epochs than standardised ones")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = load_breast_cancer(return_X_y=True)
    X = X if options.raw else scale(X)

    def fit() -> Any:
        return sd.LinearClassifier().fit(X, y)

    for _ in range(10):
        model = fit()
    total = median_ms(fit, options.runs)
    with KernelClock() as clock:
        median_ms(fit, options.runs)
    inside, calls = 1e3 * clock.seconds / options.runs, clock.calls / options.runs
    overhead = total - inside
    print(f"fit {total:.3f} ms, {inside:.3f} ms of them in {calls:.0f} calls of kernels ({model.solver_}, {model.n_iter_} epochs)")
    print(f"overhead {overhead:.3f} ms, at most {MAX_OVERHEAD_MS} ms: {'yes' if overhead <= MAX_OVERHEAD_MS else 'NO'}")
    if options.fits:
        objects = len(gc.get_objects())
        gc.collect()
        before = resident_kb()
        for _ in range(options.fits):
            fit()
        gc.collect()
        grown = resident_kb() - before
        more = len(gc.get_objects()) - objects
        verdict = "no leak" if grown <= MAX_LEAK_KB and more <= options.fits // 10 else "LEAK"
        print(f"{options.fits} fits: resident memory {grown:+d} KB, live objects {more:+d}: {verdict}")


if __name__ == "__main__":
    main()
