"""Peers that crash or hang cost themselves, not the command. The workers here are scripts without numerics, which start at once."""

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from saddlery.bench.compare import budget_for, compare
from saddlery.bench.probe import probe
from saddlery.bench.rivals import known, load, rivals_of
from saddlery.bench.supervise import Supervisor, environment
from saddlery.bench.tasks import Cell
from saddlery.bench.worker import kept_data
from saddlery.errors import InputError

WORKER = """
import json, os, pathlib, sys, time
folder, behaviour = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
for name in sys.argv[3:]:
    log = folder / (name + ".partial")
    died = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    died = [event["solver"] for event in died if event["event"] == "died"]
    for solver, what in behaviour.get(name, {}).items():
        if solver not in died:
            with log.open("a") as file:
                file.write(json.dumps({"event": "start", "solver": solver, "setting": 1}) + "\\n")
            print("about to", what, flush=True)
            if what == "crash":
                os._exit(7)
            time.sleep(1000 if what == "hang" else 0)
    (folder / (name + ".json")).write_text(json.dumps({"cell": name, "died": died, "threads": os.environ["OMP_NUM_THREADS"]}))
    log.unlink(missing_ok=True)
"""


def outcome(folder, behaviour, names, **options):
    told = []

    def command(batch):
        return [sys.executable, "-S", "-c", WORKER, str(folder), json.dumps(behaviour), *[cell.name for cell in batch]]

    cells = [Cell(name, name[0], "fit", "hinge", 0.0) for name in names]
    Supervisor(folder, command, tell=told.append, **options).run(cells)
    return told


def test_crashes_and_hangs_are_noted_and_the_cell_goes_on(tmp_path):
    behaviour = {"a1": {"peer": "crash", "other": "fit"}, "a2": {"lazy": "hang"}}
    told = outcome(tmp_path, behaviour, ["a1", "a2", "b"], threads=3, patience=0.5)
    assert [(result["cell"], result["died"]) for result in told] == [("a1", ["peer"]), ("a2", ["lazy"]), ("b", [])]
    assert {result["threads"] for result in told} == {"3"}
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("solver", ["saddlery", "reference"])
def test_a_cell_in_which_we_crash_is_given_up(tmp_path, solver):
    told = outcome(tmp_path, {"a1": {solver: "crash"}}, ["a1", "a2"])
    assert [(result["cell"], result.get("error")) for result in told] == [("a1", "crashed (exit 7): about to crash"), ("a2", None)]


def test_too_many_deaths(tmp_path, monkeypatch):
    monkeypatch.setattr("saddlery.bench.supervise.DEATHS", 2)
    behaviour = {"a": {f"peer{k}": "crash" for k in range(3)}}
    (result,) = outcome(tmp_path, behaviour, ["a"])
    assert result["error"].startswith("crashed")


def test_environment():
    assert environment(2)["NUMBA_NUM_THREADS"] == environment(2)["OPENBLAS_NUM_THREADS"] == "2"


def test_peers_that_cannot_be_imported(fake_peers):
    names = [f"fake_rivals:{name}" for name in ("CrashesAtOnce", "Good", "NotInstalled", "Nobody")]
    found = probe(names)
    assert list(found.here) == ["fake_rivals:Good"]
    assert found.here["fake_rivals:Good"] == ("good", "", [("squared", "l2")])
    assert found.missing["fake_rivals:CrashesAtOnce"] == "crashes (exit 9) when it is imported"
    assert found.missing["fake_rivals:NotInstalled"] == "ModuleNotFoundError: No module named 'no_such_module_anywhere'"
    assert found.missing["fake_rivals:Nobody"].startswith("AttributeError")
    assert probe(["fake_rivals:HangsAtOnce"], patience=1.0).missing == {"fake_rivals:HangsAtOnce": "hangs when it is imported"}


def test_how_to_install_is_said(monkeypatch, tmp_path):
    from saddlery.bench import probe as module

    monkeypatch.setattr(known()["celer"], "modules", ("no_such_module_anywhere",))
    module.main(tmp_path / "log", ["celer"])
    assert json.loads((tmp_path / "log").read_text().splitlines()[-1])["why"] == "not installed: pip install 'saddlery[bench]'"


def test_names_of_peers():
    assert set(rivals_of()) == set(known())
    assert "celer" not in rivals_of(None, ("hinge", "l2"))
    assert rivals_of(["celer", "mine:Peer"], ("hinge", "l2")) == ["mine:Peer"]
    assert set(rivals_of(["skglm"])) == {"skglm", "skglm-gram", "skglm-svc"}
    assert rivals_of([]) == []
    assert load("celer").package == "celer"
    with pytest.raises(InputError, match="no peer is called 'nobody': 'saddlery bench --list' lists them"):
        rivals_of(["celer", "nobody"])


@pytest.mark.parametrize("done", [0, 1])
def test_what_was_done_counts_if_it_is_interrupted(monkeypatch, done):
    """And the worker finds the data as they were given."""
    X, y = sp.csc_array(np.eye(3)) if done else np.eye(3), np.arange(3)

    def run(self, cells):
        kept = kept_data(self.folder)
        assert type(kept[0]) is type(X)
        assert np.array_equal(kept[0] @ np.eye(3), np.eye(3))
        assert np.array_equal(kept[1], y)
        for cell in cells[:done]:
            (self.folder / f"{cell.file}.json").write_text('{"cell": "a"}')
        raise KeyboardInterrupt

    monkeypatch.setattr(Supervisor, "run", run)
    cells = [Cell(name, "", "fit", "hinge", 0.0) for name in "ab"]
    if done:
        assert compare(X, y, cells, [], budget_for()) == [{"cell": "a"}]
    else:
        with pytest.raises(KeyboardInterrupt):
            compare(X, y, cells, [], budget_for())
