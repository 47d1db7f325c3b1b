"""The jobs of one fit, such as folds or classes, in threads: kernels release the GIL and share the data.

Two threads take turns at what is done in Python, which is a third to a half of the time (folds of news20, a9a; of leu), so small
jobs are done one after the other (8192 x 12, folds of 0.1 ms: 18 -> 1.2 ms; joblib also looks for results every 10 ms only).
Threads need cores that are idle: where others use all of them, they take as long as one, and a tenth more for taking turns. Each
has one thread of BLAS: with more they wait for each other (five folds of news20, 20 lassos, two threads: 370 -> 240 ms; one: 300).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from joblib import effective_n_jobs
from sklearn import config_context, get_config

from saddlery.threads import products_on_one_thread

__all__ = ["run_jobs"]

Answer = TypeVar("Answer")
SMALL = 50_000  # numbers times strengths: a path or a fit of this size takes 0.1 to 1.3 ms, or is mostly Python


def run_jobs(jobs: Sequence[Callable[[], Answer]], n_jobs: int | None, work: float, stop: threading.Event) -> list[Answer]:
    """The answers of all jobs, in their order.

    Parameters
    ----------
    jobs : sequence of callables
        They look at `stop`, and end early once it is set.
    n_jobs : int, optional
        Number of threads, as scikit-learn means it.
    work : float
        Numbers that a job looks at, times strengths.
    stop : Event
        Set by Ctrl-C, which reaches the thread that calls this only, and by the first error.

    Examples
    --------
    >>> run_jobs([lambda: 1, lambda: 2], n_jobs=2, work=1e6, stop=threading.Event())
    [1, 2]
    """
    workers = 1 if work < SMALL else min(effective_n_jobs(n_jobs), len(jobs))
    if workers <= 1:
        return [job() for job in jobs]
    config = get_config()  # scikit-learn's, of which each thread has its own

    def configured(job: Callable[[], Answer]) -> Answer:
        with config_context(**config):
            return job()

    with products_on_one_thread(), ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(configured, job) for job in jobs]
        try:
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
        except KeyboardInterrupt:  # here or in a job: what others have done so far may be of use
            stop.set()
        except BaseException:
            stop.set()
            raise
        return [future.result() for future in futures]
