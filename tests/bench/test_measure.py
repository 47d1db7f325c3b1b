"""Ladders, budgets and rounds, with peers that behave as told."""

import json
import time

import fake_rivals as fake
import numpy as np
import pytest

from saddlery.bench.log import Log
from saddlery.bench.measure import Budget, _why_stop, measure_cell
from saddlery.bench.measure import timed as really_timed

BUDGET = Budget((1e-2, 1e-6), quick=True)


@pytest.fixture(scope="module", autouse=True)
def clock():
    """Fits take as long as they say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("saddlery.bench.measure.timed", fake.timed)
        yield


@pytest.fixture(scope="module")
def measured(ridge, clock, tmp_path_factory):
    """A result of all that end in an orderly way, and its log."""
    log = Log(tmp_path_factory.mktemp("log") / "partial")
    rivals = [cls() for cls in (fake.Good, fake.Coarse, fake.Slow, fake.Raises)]
    return json.loads(json.dumps(measure_cell(ridge, rivals, BUDGET, 1, log))), log


def test_who_arrives(measured):
    peers = measured[0]["peers"]
    assert peers["good"]["note"] == "reached"
    assert {key: time["setting"] for key, time in peers["good"]["times"].items()} == {"1e-02": 1e-2, "1e-06": 1e-4}
    assert all(time["runs"] > 1 for time in peers["good"]["times"].values())
    assert peers["good"]["steps"][-1]["suboptimality"] < 1e-6


def test_who_does_not(measured):
    peers = measured[0]["peers"]
    assert peers["coarse"]["note"] == "end of its ladder"
    assert peers["coarse"]["times"]["1e-02"]["setting"] == 3e-2
    assert peers["coarse"]["times"]["1e-06"] is None
    assert (peers["slow"]["note"], len(peers["slow"]["steps"])) == ("budget of 1.0 s", 1)
    assert (peers["raises"]["note"], peers["raises"]["steps"]) == ("ZeroDivisionError: of all things", [])


def test_ours_are_certified_and_the_optimum_is_right(measured, ridge):
    result = measured[0]
    best = ridge.values(fake.Good().fit((ridge.X, ridge.y), ridge.objective, 0.0))
    assert result["reference"]["values"] == pytest.approx(best, rel=1e-12)
    assert result["reference"]["bounds"][0] <= best[0] * (1 + 1e-14)
    assert all(ours["reached"] and ours["gap"] <= float(key) for key, ours in result["ours"].items())
    assert result["raw"]["cpu"] > 0
    assert result["objective"] == {"loss": "squared", "alpha": 0.1, "l1_ratio": 0.0, "penalty": "l2"}


def test_what_was_found_is_not_searched_again(measured, ridge, tmp_path):
    first = measured[0]
    log = Log(tmp_path / "again")
    again = measure_cell(ridge, [fake.Good(), fake.Raises()], BUDGET, 1, log, json.loads(json.dumps(first)))
    assert not log.find("step", "good")
    assert again["peers"]["good"]["times"]["1e-06"]["runs"] > 1
    ours = measure_cell(ridge, [], BUDGET, 1, Log(tmp_path / "ours"), json.loads(json.dumps(first)), peers_too=False)
    assert ours["peers"] == first["peers"]


def test_stored_times_of_another_machine_do_not_count(measured, ridge, tmp_path):
    """Slow fits are timed once, but in this run."""
    known = json.loads(json.dumps(measured[0]))
    for step in known["peers"]["good"]["steps"]:
        step["cpu"] += 1e3
    again = measure_cell(ridge, [fake.Good()], BUDGET, 1, Log(tmp_path / "again"), known)
    assert all(time["cpu"] < 1e3 for time in again["peers"]["good"]["times"].values())


def test_a_cell_goes_on_where_a_worker_died(ridge, tmp_path):
    """The steps that were done count, and the one that was fatal is not tried again."""
    log = Log(tmp_path / "partial")
    step = {
        "setting": 0.1,
        "cpu": 0.01,
        "wall": 0.01,
        "values": ridge.values(fake.Good().fit((ridge.X, ridge.y), ridge.objective, 0.1)).tolist(),
    }
    log.write(event="step", solver="crashes", **step)
    log.write(event="died", solver="crashes", setting=0.01, why="crashed (exit 7)")
    peer = measure_cell(ridge, [fake.Crashes()], BUDGET, 1, Log(log.path))["peers"]["crashes"]
    assert peer["note"] == "crashed (exit 7)"
    assert [done["setting"] for done in peer["steps"]] == [0.1]


@pytest.mark.parametrize(
    ("errors", "cpu", "target", "note"),
    [
        ([1e-1, 1e-7], 0.1, 1e-6, "reached"),
        ([1e-1, 1e-7], 0.1, None, ""),
        ([1e-1], 9.0, 1e-6, "budget of 2.0 s"),
        ([1e-1] * 5, 1.5, 1e-6, "budget of 2.0 s"),
        ([1e-1, 1e-3, *[1e-3] * 4], 0.1, 1e-6, "no progress in four steps"),
        ([1e-1, 1e-3, *[1e-3] * 4], 0.01, 1e-6, ""),
        ([1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-5], 0.1, 1e-6, ""),
    ],
)
def test_ends_of_ladders(errors, cpu, target, note):
    steps = [{"cpu": cpu, "values": [1.0 + error]} for error in errors]
    assert _why_stop(steps, np.array([1.0]), target, 2.0) == note


def test_times():
    """Waiting costs no CPU; what is short is repeated after a run that does not count."""
    runs = []
    cpu, wall, result = really_timed(lambda: (time.sleep(0.01), runs.append(1), len(runs))[-1])
    assert (result, len(runs)) == (1, 1)
    assert 0.0 <= cpu < wall
    assert really_timed(lambda: runs.append(1), warm=True)[2] is None
    assert len(runs) > 3
