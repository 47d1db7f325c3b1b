"""Rounds: one broadcast and one sum over all partitions, on a Dask client or on this machine's threads.

Partitions are joined to fixed *runs* of neighbours, two for each worker thread there is at the start; a round is one task for
each worker thread, over the runs that its worker owns. A task gets its arguments with it and keeps nothing, so that Dask may
run it again anywhere. Sums go over a run in the order of its partitions and then over the runs in their order: where tasks ran
does not show in the result (but for last digits of BLAS, which depend on where in memory an array begins).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from saddlery.distributed.blocks import Block, Source, load_block
from saddlery.errors import InputError

__all__ = ["ClientPool", "Meter", "ThreadPool", "Visitor", "add_sums", "assign", "make_pool", "payload"]

RUNS_FOR_EACH_THREAD = 2  # so that a worker that is lost or added shifts half a share
FAN_IN = 8  # results that are added by one task, where there are more than FLAT
FLAT = 24
ROOM = 0.4  # share of the workers' memory that partitions may take to be kept there


class Visitor:
    """One round's work on a run of partitions: made from the round's arguments, visits the blocks in order, gives its sums."""

    def visit(self, block: Block, extra: Any) -> Any:
        """Add this block; what is returned goes back to the driver as it is."""
        raise NotImplementedError

    def sums(self) -> dict[str, Any]:
        """Arrays and numbers that are added over all runs."""
        return {}


class Meter:
    """What the rounds of one problem cost: rounds, bytes, seconds by phase."""

    def __init__(self) -> None:
        self.rounds = 0
        self.bytes_down = self.bytes_up = 0
        self.round_seconds = self.task_seconds = 0.0

    def counts(self) -> dict[str, float]:
        """For the trace; `task_seconds` is the sum over rounds of the slowest task."""
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in vars(self).items()}


def payload(value: Any) -> int:
    """Bytes of the numbers in arrays and containers, as they travel."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(payload, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(payload, value))
    if hasattr(value, "indptr"):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if hasattr(value, "__dict__"):
        return sum(map(payload, vars(value).values()))
    return 8 if isinstance(value, int | float | np.number) else 0


def add_sums(results: Sequence[Any]) -> Any:
    """Results of neighbouring runs as that of one run."""
    sums, owns, seconds = dict(results[0][0]), list(results[0][1]), results[0][2]
    for more, others, took in results[1:]:
        for name, value in more.items():
            sums[name] = sums[name] + value
        owns += others
        seconds = max(seconds, took)
    return sums, owns, seconds


def run_tasks(make: Callable[[Any], Visitor], common: Any, items: Sequence[Any], extras: Sequence[Any]) -> Any:
    """Visit a run of partitions: sums, what each partition returns for itself, seconds. The task of a round."""
    began = time.perf_counter()
    visitor, owns = make(common), []
    for item, extra in zip(items, extras, strict=True):
        block = load_block(item) if isinstance(item, Source) else item
        owns.append(visitor.visit(block, extra) if block.n else None)
        del block  # before the next one is read
    return visitor.sums(), owns, time.perf_counter() - began


def run_bundle(make: Callable[[Any], Visitor], common: Any, runs: Sequence[tuple[Any, Any]]) -> list[Any]:
    """Several runs, one after the other, each with sums of its own: the task of a round on a cluster."""
    results, seconds = [], 0.0
    for items, extras in runs:
        sums, owns, took = run_tasks(make, common, items, extras)
        seconds += took
        results.append((sums, owns, seconds))  # since the task began
    return results


def add_bundles(bundles: Sequence[list[Any]]) -> list[Any]:
    """Bundles of one result each, added."""
    return [add_sums([result for bundle in bundles for result in bundle])]


def assign(runs: int, threads: dict[str, int], before: dict[int, str]) -> dict[int, str]:
    """Which worker owns which run: as before where that is possible, no worker with more than its share.

    Examples
    --------
    >>> assign(4, {"a": 1, "b": 1}, {})
    {0: 'a', 1: 'a', 2: 'b', 3: 'b'}
    >>> assign(4, {"b": 1, "c": 1}, {0: 'a', 1: 'a', 2: 'b', 3: 'b'})
    {0: 'c', 1: 'c', 2: 'b', 3: 'b'}
    """
    total, had = sum(threads.values()), list(before.values())
    room = {worker: runs * count // total for worker, count in threads.items()}
    broken = [worker for worker, count in threads.items() if runs * count % total]  # whose share is no whole number
    rest = sorted(broken, key=lambda worker: (room[worker] - had.count(worker), worker))  # who has more keeps more
    for worker in rest[: runs - sum(room.values())]:
        room[worker] += 1
    owners: dict[int, str] = {}
    for run in range(runs):
        worker = before.get(run, "")
        if room.get(worker, 0) > 0:
            owners[run] = worker
            room[worker] -= 1
    free = iter([worker for worker in sorted(room) for _ in range(room[worker])])
    return {run: owners[run] if run in owners else next(free) for run in range(runs)}


class Pool:
    """Partitions and how rounds are run over them; see the subclasses."""

    def __init__(self, items: Sequence[Any]):
        self.items: list[Any] = list(items)
        self.runs: list[range] = []

    def _make_runs(self, threads: int) -> None:
        count = min(len(self.items), max(1, RUNS_FOR_EACH_THREAD * threads))
        ends = [round(k * len(self.items) / count) for k in range(count + 1)]
        self.runs = [range(low, high) for low, high in itertools.pairwise(ends)]

    def run(
        self, meter: Meter, make: Callable[[Any], Visitor], common: Any, extras: Sequence[Any] | None = None, only: Any = None
    ) -> tuple[dict[str, Any], list[Any]]:
        """One round: the sums, and what the partitions returned for themselves, in their order.

        Parameters
        ----------
        meter : Meter
            What it cost is added there.
        make : class of Visitor
            What to do.
        common : object
            The arguments that all tasks get.
        extras : sequence, optional
            One more argument for each partition.
        only : set of int, optional
            The partitions to visit; by default all.
        """
        began = time.perf_counter()
        extras = [None] * len(self.items) if extras is None else extras
        runs = [[k for k in run if only is None or k in only] for run in self.runs]
        work = [(number, run) for number, run in enumerate(runs) if run]
        results = self._results(make, common, [(number, run, [extras[k] for k in run]) for number, run in work])
        sums, owns, slowest = add_sums(results)
        meter.rounds += 1
        meter.bytes_down += len(work) * payload(common) + sum(payload(extras[k]) for _, run in work for k in run)
        meter.bytes_up += sum(payload(result[:2]) for result in results)
        meter.round_seconds += time.perf_counter() - began
        meter.task_seconds += slowest
        out: list[Any] = [None] * len(self.items)
        for k, own in zip((k for _, run in work for k in run), owns, strict=True):
            out[k] = own
        return sums, out

    def _results(self, make: Any, common: Any, work: list[Any]) -> list[Any]:
        raise NotImplementedError

    @property
    def room(self) -> float:
        """Bytes of partitions that can be kept in memory."""
        raise NotImplementedError

    def hold(self, delayed: Sequence[Any]) -> None:
        """Compute the partitions once and keep them."""
        raise NotImplementedError

    def change(self, function: Callable[..., Any], argument: Any) -> None:
        """Apply a function to all partitions that are kept."""
        raise NotImplementedError


class ThreadPool(Pool):
    """Rounds on the scheduler that Dask has set for this process; its threads by default."""

    def __init__(self, items: Sequence[Any]):
        super().__init__(items)
        import os

        from dask import config

        self._make_runs(int(config.get("num_workers", None) or os.cpu_count() or 1))

    @property
    def room(self) -> float:
        import psutil

        return ROOM * psutil.virtual_memory().available

    def hold(self, delayed: Sequence[Any]) -> None:
        from dask import compute

        self.items = list(compute(*delayed))

    def change(self, function: Callable[..., Any], argument: Any) -> None:
        self.items = [function(item, argument) for item in self.items]

    def _results(self, make: Any, common: Any, work: list[Any]) -> list[Any]:
        import dask.threaded
        from dask.base import get_scheduler

        def task(place: int) -> Any:
            _, run, extras = work[place]
            return run_tasks(make, common, [self.items[k] for k in run], extras)

        keys = [("saddlery-round", place) for place in range(len(work))]
        get = get_scheduler() or dask.threaded.get
        return list(get({key: (task, key[1]) for key in keys}, keys))


class ClientPool(Pool):
    """Rounds on the workers of a `distributed.Client`."""

    def __init__(self, items: Sequence[Any], client: Any):
        super().__init__(items)
        self.client = client
        self.owners: dict[int, str] = {}
        self._make_runs(sum(self._threads().values()))

    def _threads(self) -> dict[str, int]:
        """The workers that are alive, and their threads; waits for the first."""
        threads = self.client.ncores()
        if not threads:
            self.client.wait_for_workers(1)
            threads = self.client.ncores()
        return threads

    @property
    def room(self) -> float:
        workers = self.client.run_on_scheduler(_memory_limits)
        return ROOM * sum(workers) if all(workers) and workers else math.inf

    def hold(self, delayed: Sequence[Any]) -> None:
        self.items = self.client.compute(list(delayed))

    def change(self, function: Callable[..., Any], argument: Any) -> None:
        """Each on its owner, so that the rounds find it there."""
        self.owners = assign(len(self.runs), self._threads(), self.owners)
        changed = []
        for number, run in enumerate(self.runs):
            pinned = {"workers": [self.owners[number]], "allow_other_workers": True}
            changed += [self.client.submit(function, self.items[k], argument, pure=False, **pinned) for k in run]
        self.items = changed

    def _results(self, make: Any, common: Any, work: list[Any]) -> list[Any]:
        threads = self._threads()
        self.owners = assign(len(self.runs), threads, self.owners)
        bundles: dict[Any, list[int]] = {}
        for place, (number, _, _) in enumerate(work):
            owner = self.owners[number]
            slot = number if len(work) > FLAT else number % threads[owner]  # many runs are added by tasks, so each is one
            bundles.setdefault((owner, slot), []).append(place)
        made: list[Any] = []
        try:
            for (owner, _), places in bundles.items():
                runs = [([self.items[k] for k in work[place][1]], work[place][2]) for place in places]
                key = f"saddlery-round-{work[places[0]][1][0]}-{work[places[-1]][1][-1]}-{next(_numbers)}"
                task = (run_bundle, make, common, runs)
                made.append(self.client.submit(*task, key=key, pure=False, workers=[owner], allow_other_workers=True))
            futures = made
            if len(work) > FLAT:
                order = np.argsort([places[0] for places in bundles.values()])
                futures = self._tree([made[k] for k in order], made)
                return [result for results in self.client.gather(futures) for result in results]
            results: list[Any] = [None] * len(work)
            for places, found in zip(bundles.values(), self.client.gather(futures), strict=True):
                for place, result in zip(places, found, strict=True):
                    results[place] = result
            return results
        except BaseException as error:
            self.client.cancel(made, force=True)
            raise self._explained(error) from None

    def _tree(self, futures: list[Any], made: list[Any]) -> list[Any]:
        """Neighbours added by tasks, until there are few: neither driver nor network takes all vectors at once."""
        while len(futures) > FAN_IN:
            groups = [futures[low : low + FAN_IN] for low in range(0, len(futures), FAN_IN)]
            futures = [self.client.submit(add_bundles, group, pure=False) for group in groups]
            made += futures
        return futures

    def _explained(self, error: BaseException) -> BaseException:
        """A killed worker in words about partitions; other errors as they are."""
        from distributed.scheduler import KilledWorker

        if not isinstance(error, KilledWorker):
            return error
        words = str(error.task).split("-")
        which = "a partition"
        if words[:2] == ["saddlery", "round"]:
            which = f"partition {words[2]}" if words[2] == words[3] else f"one of the partitions {words[2]} to {words[3]}"
        elif words[:2] == ["saddlery", "block"]:
            which = f"partition {words[2]}"
        return InputError(
            f"{which} does not fit into the memory of a worker, or ends the process that works on it "
            f"({error.allowed_failures + 1} workers "
            "were lost to it): make partitions smaller, or give the workers more memory"
        )


def _count() -> Any:
    import uuid

    name = uuid.uuid4().hex[:8]  # keys of two drivers on one cluster must differ
    return (f"{name}{number}" for number in itertools.count())


_numbers = _count()


def _memory_limits(dask_scheduler: Any = None) -> list[int]:
    return [int(worker.memory_limit) for worker in dask_scheduler.workers.values()]


def current_client() -> Any:
    """The Dask client that is in charge, or None: then this machine's threads serve."""
    import sys

    if "distributed" not in sys.modules:  # no client can have been made
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def make_pool(items: Sequence[Any]) -> Pool:
    """A pool on the current client, or on threads if there is none."""
    client = current_client()
    return ThreadPool(items) if client is None else ClientPool(items, client)
