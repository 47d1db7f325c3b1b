"""Timing: ladders of settings, budgets, medians of interleaved rounds."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from saddlery.bench import ours
from saddlery.bench.log import OURS, RAW, REFERENCE, Log
from saddlery.bench.rivals import Rival
from saddlery.bench.tasks import Task

__all__ = ["Budget", "key_of", "measure_cell"]

CONTENDER = 2.0  # who needs more than this many times the best time is not timed again
SHORT = 0.05  # seconds: below, a run is preceded by an untimed one, so that caches are as warm as for the others
ENOUGH = 0.02  # seconds: what is shorter is repeated for so long
COLD = 0.001  # seconds that a first run may lose in cold caches, so that its order says little


@dataclass(frozen=True)
class Budget:
    """How accurate, how long to try, and how often to repeat."""

    targets: tuple[float, ...] = (1e-3, 1e-4, 1e-6)  # parts of the optimum, from loose to tight
    quick: bool = False
    fit_seconds: float = 20.0  # a ladder ends with the first fit that took longer
    factor: float = 30.0  # or with the first that took this many times the best time to the last target
    least: float = 1.0  # but not before this
    reference_seconds: float = 60.0
    accuracy: float = 1e-10  # of the reference

    @property
    def last(self) -> float:
        """The tightest target."""
        return self.targets[-1]

    def limit(self, best: float) -> float:
        """CPU seconds after which a ladder ends."""
        return min(self.fit_seconds, max(self.least, self.factor * best))

    def repeats(self, seconds: float) -> int:
        """How many times to run what takes so long."""
        if self.quick:
            return 3 if seconds < 1.0 else 1
        return 9 if seconds < 0.02 else 5 if seconds < 0.2 else 3


def key_of(target: float) -> str:
    """A target as results name it.

    Examples
    --------
    >>> key_of(1e-3), key_of(2.5e-4)
    ('1e-03', '0.00025')
    """
    short = f"{target:.0e}"
    return short if float(short) == target else f"{target:g}"


def timed(function: Callable[[], Any], warm: bool = False) -> tuple[float, float, Any]:
    """CPU seconds of all threads, wall seconds, result.

    The collection of garbage walks through all objects and leaves cold caches behind: a fit of 0.05 ms then takes 0.4. So a `warm`
    one is preceded by another, and repeated within ENOUGH seconds; medians count.
    """
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs: list[tuple[float, float]] = []
            spent = 0.0
            if warm:
                function()
            while not runs or (warm and spent < ENOUGH):
                cpu, wall = time.process_time(), time.perf_counter()
                result = function()
                runs.append((time.process_time() - cpu, time.perf_counter() - wall))
                spent += runs[-1][1]
            cpu, wall = np.median(runs, axis=0)
            return float(cpu), float(wall), result
    finally:
        gc.enable()


def measure_cell(
    task: Task, rivals: list[Rival], budget: Budget, threads: int, log: Log, known: dict | None = None, peers_too: bool = True
) -> dict:
    """All times of a cell.

    With `known`, an earlier result, settings are not searched again: ours are timed, and with `peers_too` the fastest settings of
    the contenders in the same rounds; without, the peers' times are kept.
    """
    if known is None:
        _begin(log, REFERENCE, None)
        base = ours.reference(task, budget.accuracy, budget.reference_seconds, lambda name: _begin(log, REFERENCE, name))
        best = task.values(base.weights)
        bound = best - base.gaps
    else:
        best, bound = np.array(known["reference"]["values"]), np.array(known["reference"]["bounds"])
    mine = _first_ours(task, best, budget, threads, log)
    ladders = known["peers"] if known else _ladders(task, rivals, best, bound, mine, budget, log)
    if known is None:
        seen = [record["values"] for ladder in ladders.values() for record in ladder["steps"]]
        best = np.min([best, *seen], axis=0)
    for ladder in ladders.values():
        for record in ladder["steps"]:
            if "values" in record:  # earlier results hold the suboptimality alone
                record["suboptimality"] = worst(record["values"], best)
    jobs = _jobs(task, mine, ladders if peers_too else {}, rivals, threads, budget, known is not None)
    jobs += _raw_job(task, mine, threads, budget)
    times = _rounds(jobs, budget, log)
    return {
        "cell": task.cell.name,
        "task": task.cell.task,
        "objective": {**asdict(task.objective), "penalty": task.objective.penalty},
        "data": _facts(task),
        "threads": threads,
        "quick": budget.quick,
        "reference": {"values": best.tolist(), "bounds": bound.tolist(), "certified": float(np.max((best - bound) / best))},
        "ours": _ours_times(task, mine, times, best),
        "raw": times.get((RAW, budget.last)),
        "peers": {name: _peer_times(name, ladder, times, budget) for name, ladder in ladders.items()} if peers_too else ladders,
    }


def _begin(log: Log, solver: str, setting: Any) -> None:
    log.write(event="start", solver=solver, setting=setting, time=time.time())


def _facts(task: Task) -> dict[str, Any]:
    sparse = not isinstance(task.X, np.ndarray)
    return {"rows": task.X.shape[0], "columns": task.X.shape[1], "nonzeros": int(task.X.nnz) if sparse else None}


def worst(values: Any, best: np.ndarray) -> float:
    """The largest relative suboptimality of all parts."""
    return float(np.max((np.asarray(values) - best) / best))


# --------------------------------------------------------------------------- ours


def tolerance(task: Task, best: np.ndarray, target: float) -> float:
    """Our `tol`, in units of the objective at zero, for gaps of at most `target` times the optimum."""
    return target * float(np.min(best / task.scales()))


def _first_ours(task: Task, best: np.ndarray, budget: Budget, threads: int, log: Log) -> dict[float, dict[str, Any]]:
    """One run for each target: warms up, and shows whether the certified gap is reached; if not, tighter ones are not tried."""
    records: dict[float, dict[str, Any]] = {}
    for target in budget.targets:
        tol = tolerance(task, best, target)
        _begin(log, OURS, target)
        run = ours.runner(task, tol, threads, 3 * budget.fit_seconds)
        cpu, wall, result = timed(run)
        if cpu < budget.fit_seconds or target == budget.targets[0]:  # the first of all may have compiled
            cpu, wall, result = timed(run)
        got = ours.answer(task, result, tol, 3 * budget.fit_seconds)
        gap, values = float(np.max(got.gaps / best)), task.values(got.weights).tolist()
        reached = gap <= target * (1 + 1e-9)
        record = {"cpu": cpu, "wall": wall, "tol": tol, "gap": gap, "values": values, "solver": got.solver, "reached": reached}
        records[target] = record
        log.write(event="done", solver=OURS, setting=target)
        if not reached:
            return dict.fromkeys(budget.targets, record) | records
    return records


def _ours_times(task: Task, mine: dict[float, dict[str, Any]], times: dict, best: np.ndarray) -> dict[str, Any]:
    out = {}
    for target, record in mine.items():
        low = worst(record["values"], best)
        kept = {key: record[key] for key in ("tol", "gap", "solver")}
        # A gap that is certified to the target and a value above it cannot both be right: such a run does not count.
        reached = record["reached"] and low <= target
        out[key_of(target)] = {**times[OURS, target], **kept, "suboptimality": low, "reached": reached}
    return out


def _raw_job(task: Task, mine: dict[float, dict[str, Any]], threads: int, budget: Budget) -> list[dict[str, Any]]:
    """Ours at the last target with validation and conversions; `ovr` and `cv` are timed so anyway."""
    record = mine[budget.last]
    if task.cell.task not in ("fit", "path") or not record["reached"]:
        return []
    run = ours.runner(task, record["tol"], threads, 3 * budget.fit_seconds, raw=True)
    timed(run)
    cpu, wall, _ = timed(run)
    return [{"solver": RAW, "setting": budget.last, "first": {"cpu": cpu, "wall": wall}, "run": run}]


# --------------------------------------------------------------------------- peers


def _ladders(
    task: Task, rivals: list[Rival], best: np.ndarray, bound: np.ndarray, mine: dict, budget: Budget, log: Log
) -> dict[str, Any]:
    """Each rival's settings from loose to tight, until the last target or the end of its budget.

    Where the optimum is not known well enough, a ladder does not end at what looks like the last target.
    """
    fastest, ladders, sure = mine[budget.last]["cpu"], {}, bool(np.all(best - bound <= 0.1 * budget.last * best))
    for rival in rivals:
        if not rival.can(task.objective, task.X):
            continue
        ladder = _ladder(task, rival, best, sure, budget, budget.limit(fastest), log)
        ladders[rival.name] = ladder
        arrived = [r["cpu"] for r in ladder["steps"] if worst(r["values"], best) <= budget.last]
        fastest = min([fastest, *arrived]) if sure else fastest
    return ladders


def _ladder(task: Task, rival: Rival, best: np.ndarray, sure: bool, budget: Budget, limit: float, log: Log) -> dict[str, Any]:
    steps, note = log.find("step", rival.name), ""
    died = log.find("died", rival.name)
    ended = log.find("end", rival.name)
    if ended or died:
        return {"steps": steps, "note": died[-1]["why"] if died else ended[-1]["why"]}
    try:
        _begin(log, rival.name, "warm-up")
        warm_up(task, rival)
        data = task.prepare(rival)
        for setting in list(rival.ladder(task.objective))[len(steps) :]:
            _begin(log, rival.name, setting)
            cpu, wall, weights = timed(task.run(rival, data, setting))
            values = task.values(weights)
            steps.append({"setting": setting, "cpu": cpu, "wall": wall, "values": values.tolist()})
            log.write(event="step", solver=rival.name, **steps[-1])
            note = _why_stop(steps, best, budget.last if sure else None, limit)
            if note:
                break
        else:
            note = "end of its ladder"
    except Exception as error:  # a rival that fails is a result, too
        note = f"{type(error).__name__}: {error}"[:200]
    log.write(event="end", solver=rival.name, why=note)
    return {"steps": steps, "note": note}


def _why_stop(steps: list[dict[str, Any]], best: np.ndarray, target: float | None, limit: float) -> str:
    """Whether a ladder is at its end: a sentence, or nothing. Without `target` the optimum is not known well enough to judge."""
    errors = [worst(step["values"], best) for step in steps]
    if target is not None and errors[-1] <= target:
        return "reached"
    if steps[-1]["cpu"] > limit or sum(step["cpu"] for step in steps) > 3 * limit:
        return f"budget of {limit:.1f} s"
    stuck = len(errors) > 5 and min(errors[-4:]) > 0.95 * min(errors[:-4]) and min(errors) < 1e-2
    if target is not None and stuck and steps[-1]["cpu"] > SHORT:
        return "no progress in four steps"
    return ""


def warm_up(task: Task, rival: Rival) -> None:
    """Small fits of random data in the same format, so that everything is loaded and compiled."""
    rng = np.random.default_rng(0)
    X: Any = rng.standard_normal((60, 20))
    if not isinstance(task.X, np.ndarray):
        X = sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0.0))
    y = rng.standard_normal(60) if task.cell.loss == "squared" else np.where(np.arange(60) % 2, 1.0, -1.0)
    small = task.objective.at(0.01)
    data, settings = rival.prepare(X, y), list(rival.ladder(small))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for setting in settings[:3]:
            rival.fit(data, small, setting)
        if task.cell.task in ("path", "cv"):
            rival.path(data, small, np.array([0.02, 0.01]), settings[0])


def _peer_times(name: str, ladder: dict[str, Any], times: dict, budget: Budget) -> dict[str, Any]:
    """The least time of any setting that reached each target; times of these rounds count before those of ladders."""
    out = {}
    for target in budget.targets:
        reached = [step for step in ladder["steps"] if step["suboptimality"] <= target]
        timed_now = [step for step in reached if (name, step["setting"]) in times]
        arrived = [{**times.get((name, step["setting"]), _once(step)), "setting": step["setting"]} for step in timed_now or reached]
        out[key_of(target)] = min(arrived, key=lambda time: (time["runs"] == 1, time["cpu"])) if arrived else None
    steps = [{key: step[key] for key in ("setting", "cpu", "wall", "suboptimality")} for step in ladder["steps"]]
    return {"times": out, "steps": steps, "note": ladder["note"]}


def _once(step: dict[str, Any]) -> dict[str, Any]:
    return {"cpu": step["cpu"], "wall": step["wall"], "runs": 1}


# --------------------------------------------------------------------------- rounds


def _jobs(
    task: Task, mine: dict, ladders: dict, rivals: list[Rival], threads: int, budget: Budget, stored: bool
) -> list[dict[str, Any]]:
    """What is to be timed again: ours at every target, and of the contenders the two fastest settings that reach it.

    Times of ladders that are `stored` say who contends, but count for nothing else: they may be of another machine.
    """
    jobs = []
    for target, record in mine.items():
        run = ours.runner(task, record["tol"], threads, 3 * budget.fit_seconds)
        jobs.append({"solver": OURS, "setting": target, "first": record, "run": run})
    wanted: dict[str, set[Any]] = {}
    for target in budget.targets:
        reached = {
            name: sorted((s["cpu"], s["setting"]) for s in ladder["steps"] if s["suboptimality"] <= target)[:2]
            for name, ladder in ladders.items()
        }
        least = min((times[0][0] for times in reached.values() if times), default=np.inf)
        for name, times in reached.items():
            wanted.setdefault(name, set()).update(setting for cpu, setting in times if cpu <= CONTENDER * least + COLD)
    for rival in rivals:
        if wanted.get(rival.name):
            data = task.prepare(rival)
            first = {step["setting"]: step for step in ladders[rival.name]["steps"]}
            jobs += [
                {
                    "solver": rival.name,
                    "setting": setting,
                    "first": first[setting],
                    "run": task.run(rival, data, setting),
                    "stored": stored,
                }
                for setting in sorted(wanted[rival.name], reverse=True)
            ]
    return jobs


def _rounds(jobs: list[dict[str, Any]], budget: Budget, log: Log) -> dict[tuple[str, Any], dict[str, Any]]:
    """Medians over rounds in which everyone runs once, so that a change of the machine's load meets all alike."""
    banned = {(entry["solver"], entry["setting"]) for entry in log.events if entry["event"] == "died"}
    jobs = [job for job in jobs if (job["solver"], job["setting"]) not in banned]
    times: dict[tuple[str, Any], list[tuple[float, float]]] = {(job["solver"], job["setting"]): [] for job in jobs}
    for turn in range(max(budget.repeats(job["first"]["cpu"]) for job in jobs)):
        for job in jobs:
            key, first = (job["solver"], job["setting"]), job["first"]
            repeats = budget.repeats(first["cpu"]) if first.get("reached", True) else 1
            if repeats == 1 and turn == 0 and not job.get("stored"):
                times[key].append((first["cpu"], first["wall"]))
            elif turn < repeats:
                _begin(log, key[0], key[1])
                times[key].append(timed(job["run"], warm=first["cpu"] < SHORT or (turn == 0 and first["cpu"] < 1.0))[:2])
    log.write(event="done", solver="all", setting=None)
    return {key: _median(pairs) for key, pairs in times.items()}


def _median(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    cpu, wall = np.array(pairs).T
    return {
        "cpu": float(np.median(cpu)),
        "wall": float(np.median(wall)),
        "runs": len(pairs),
        "spread": float(cpu.max() / cpu.min()),
    }
