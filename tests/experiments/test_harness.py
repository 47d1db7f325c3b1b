"""The harness: runs are kept by content, killed commands go on, every number leads to a record, missing data are named."""

import importlib
import io
import json
import signal
import time
from pathlib import Path

import pytest

from saddlery.errors import InputError
from saddlery.experiments import harness, records, sources
from saddlery.experiments.base import Column, Row, Run, Table
from saddlery.experiments.data import SETS, find, load
from saddlery.experiments.progress import Progress
from saddlery.registry import SOLVERS


def run_tiny(tmp_path, data=Path("nowhere"), quick=False):
    plans = harness.plan(["tiny"], data, quick)
    return harness.reproduce(plans, tmp_path / "out", "saddlery reproduce tiny", lambda n, cost: Progress(n, cost, io.StringIO()))


def test_runs_are_kept(tiny, tmp_path):
    """The second time nothing is computed, and the same comes out."""
    (first,) = run_tiny(tmp_path)
    assert tiny() == ["1", "2", "3"]
    (second,) = run_tiny(tmp_path)
    assert tiny() == ["1", "2", "3"]
    assert second.content == first.content
    assert [row.values for row in second.outcome.tables[0].rows] == [[1, 6], [2, 10], [3, 19]]


def test_other_settings_are_other_runs(tiny, tmp_path, monkeypatch):
    run_tiny(tmp_path, quick=True)
    run_tiny(tmp_path)  # shares one run with the quick one
    assert tiny() == ["1", "2", "3"]
    monkeypatch.setenv("TINY_SEED", "6")
    run_tiny(tmp_path)
    assert tiny() == ["1", "2", "3"] * 2


def test_quick_results_do_not_replace_full_ones(tiny, tmp_path):
    full = run_tiny(tmp_path)[0].files
    quick = run_tiny(tmp_path, quick=True)[0].files
    assert not set(full) & set(quick)
    assert len(json.loads(full[1].read_text())["tables"][0]["rows"]) == 3


def test_every_number_leads_to_a_record_that_can_be_done_again(tiny, tmp_path):
    (report,) = run_tiny(tmp_path)
    content = json.loads(report.files[1].read_text())
    assert content["experiment"] == "tiny"
    for row in content["tables"][0]["rows"]:
        assert len(row["records"]) == 1
        record = json.loads((tmp_path / "out" / row["records"][0]).read_text())
        module, name = record["function"].split(":")
        again = getattr(importlib.import_module(module), name)(None, lambda share: None, **record["settings"])
        assert again == record["result"]
        assert again["total"] == row["values"]["sum"]
        assert record["seed"] == 5
        assert record["command"] == "saddlery reproduce tiny"
        assert set(record["versions"]) == {"python", "saddlery", "numpy", "scipy", "numba"}
        assert record["finished"].endswith("+00:00")


def test_markdown(tiny, tmp_path):
    (report,) = run_tiny(tmp_path)
    text = report.files[0].read_text()
    assert text.startswith("# Sums of squares\n\nArchimedes, On spirals.\n")
    assert "| n | sum |\n|---:|---:|\n| 1 | 6 |\n" in text
    assert text.endswith("- They grow.\n\n![Sums of squares](figure.png)\n")


def test_data_are_part_of_the_key(tiny, tmp_path, monkeypatch, data_folder):
    """The bytes of the file count, not where it is."""
    monkeypatch.setenv("TINY_DATA", "a9a")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a9a").write_bytes((data_folder / "a9a").read_bytes())
    run_tiny(tmp_path, tmp_path / "one")
    run_tiny(tmp_path, tmp_path / "two")
    assert tiny() == ["1", "2", "3"]
    with open(tmp_path / "two" / "a9a", "a") as file:
        file.write("+1 1:1\n")
    (report,) = run_tiny(tmp_path, tmp_path / "two")
    assert tiny() == ["1", "2", "3"] * 2
    record = json.loads((tmp_path / "out" / report.content["records"][0]).read_text())
    assert record["result"]["rows"] == 601
    assert record["data"]["file"] == "a9a"


def test_damaged_records_are_refused(tiny, tmp_path):
    (report,) = run_tiny(tmp_path)
    record = tmp_path / "out" / report.content["records"][0]
    record.write_text("{")
    with pytest.raises(InputError, match=f"{record.name} is damaged: delete it"):
        run_tiny(tmp_path)
    other = tmp_path / "out" / report.content["records"][1]
    record.write_text(other.read_text())
    with pytest.raises(InputError, match="holds the record of another run"):
        run_tiny(tmp_path)


def test_errors_of_a_run_are_not_swallowed(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("TINY_LOG", str(tmp_path))  # a folder cannot be written to
    with pytest.raises(IsADirectoryError):
        run_tiny(tmp_path)
    assert not list((tmp_path / "out" / "records").glob("*")) if (tmp_path / "out" / "records").exists() else True


def test_without_matplotlib_there_is_a_note(tiny, tmp_path, monkeypatch):
    (plan,) = harness.plan(["tiny"], Path("nowhere"))

    def picture(charts):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr(harness, "picture", picture)
    (report,) = harness.reproduce([plan], tmp_path / "out", "", lambda n, cost: Progress(n, cost, io.StringIO()))
    assert report.outcome.notes[-1] == harness.NO_MATPLOTLIB
    assert report.content["figures"] == []


# --------------------------------------------------------------------------- stopped and started again


def _wait_for_records(folder, count):
    for _ in range(600):
        if len(list((folder / "records").glob("*.json"))) >= count:
            return
        time.sleep(0.05)
    raise AssertionError("no records appeared")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_command_goes_on(reproduce_tiny, how):
    """Stopped in the middle of its third run, it does that one again and the others never."""
    slow = {"TINY_RUNS": "5", "TINY_PAUSE": "0.5"}
    process = reproduce_tiny(**slow)
    _wait_for_records(reproduce_tiny.output, 2)
    process.send_signal(how)
    out, err = process.communicate(timeout=60)
    begun = reproduce_tiny.log()
    done = {path.name for path in (reproduce_tiny.output / "records").glob("*.json")}
    assert out == ""
    assert 2 <= len(done) < 5
    if how == signal.SIGINT:
        assert process.returncode == 3
        assert "the same command goes on from there" in err
        assert "Traceback" not in err
    again = reproduce_tiny(**slow)
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert err.startswith(f"1/{5 - len(done)}  sum {len(done) + 1}  ")
    assert reproduce_tiny.log() == begun + [str(k) for k in range(len(done) + 1, 6)]
    assert "60" in out  # 1 + 4 + 9 + 16 + 25, and the seed
    assert not list((reproduce_tiny.output / "records").glob("*.tmp"))


# --------------------------------------------------------------------------- sources


def test_sources_behind_a_solver():
    behind = set(sources.modules_behind(["saddlery.solvers.gsfw"]))
    assert {"saddlery.solvers.gsfw", "saddlery.solvers.frank_wolfe_steps", "saddlery.parts", "saddlery.penalties.base"} <= behind
    assert not any(name.startswith(("saddlery.cli", "saddlery.report", "saddlery.registry")) for name in behind)


def test_a_change_of_the_sources_makes_a_record_stale(tmp_path, monkeypatch):
    package = tmp_path / "changing"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "top.py").write_text("def f():\n    from changing import below\n    return below.VALUE\n")
    (package / "below.py").write_text("VALUE = 1\n")
    (package / "other.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    digest = sources.sources_digest.__wrapped__
    before = digest("changing.top")
    (package / "other.py").write_text("VALUE = 2\n")
    assert digest("changing.top") == before
    (package / "below.py").write_text("VALUE = 2\n")
    assert digest("changing.top") != before
    after = digest("changing.top")
    (package / "below.json").write_text("{}")  # a table beside the module
    assert digest("changing.top") != after


def test_solvers_called_by_name_count():
    module = "saddlery.experiments.frank_wolfe_runs"
    digests = {name: sources.sources_digest(module, (name,)) for name in ("gsfw", "scgm", "auto")}
    assert len(set(digests.values())) == 3
    places = {place.split(":")[0] for place in SOLVERS.builtin.values()}
    assert places <= set(sources.modules_behind([module, *sources._solver_modules(("auto",))]))


def test_keys():
    run = Run("a label", "saddlery.experiments.frank_wolfe_runs:optimum", {"radius": 5.0}, "a9a")
    key = records.key_of(run, "digest")
    assert records.key_of(run._replace(label="another", cost=3.0), "digest") == key
    for other in (run._replace(settings={"radius": 5.5}), run._replace(function=run.function + "x"), run._replace(data="w8a")):
        assert records.key_of(other, "digest") != key
    assert records.key_of(run, "other") != key


# --------------------------------------------------------------------------- data


@pytest.mark.parametrize("suffix", ["", ".xz", ".bz2", ".gz"])
@pytest.mark.parametrize("inside", ["", "gisette", "gisette_scale"])
def test_files_are_found(tmp_path, suffix, inside):
    folder = tmp_path / inside
    folder.mkdir(exist_ok=True)
    assert find(tmp_path, "gisette") is None
    (folder / f"gisette_scale{suffix}").write_bytes(b"")
    assert find(tmp_path, "gisette") == folder / f"gisette_scale{suffix}"


def test_unknown_data_set(tmp_path):
    with pytest.raises(InputError, match="did you mean 'mushrooms'"):
        find(tmp_path, "mushroom")


def test_labels_become_signs_and_columns_are_those_of_the_full_data(data_folder):
    for name, rows in (("a9a", 600), ("mushrooms", 500)):
        X, y = load(find(data_folder, name), name)
        assert X.shape == (rows, SETS[name].columns)
        assert set(y) == {-1.0, 1.0}


# --------------------------------------------------------------------------- progress and tables


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_tells_the_time_left():
    out = io.StringIO()
    with Progress(2, 4.0, out) as progress:
        for label, cost in (("one", 1.0), ("two", 3.0)):
            progress.start(label, cost)(0.5)
            progress.finish(1.0)
    first, second = out.getvalue().splitlines()
    assert first == "1/2  one  1.0 s, about 0:00 left"
    assert second == "2/2  two  1.0 s"


def test_progress_on_a_terminal():
    out = _Terminal()
    with Progress(1, 1.0, out) as progress:
        progress.start("a [b] c", 1.0)(2.0)
        progress.finish(1.0)
    assert "a [b] c" in out.getvalue()


def test_progress_without_runs_says_nothing():
    out = _Terminal()
    with Progress(0, 0.0, out):
        pass
    assert out.getvalue() == ""


def test_cells():
    table = Table("t", (Column("a"), Column("b", "{:.1e}")), [Row(("x", 1e-5)), Row((None, "> 3"))])
    assert table.texts() == [["x", "1.0e-05"], ["-", "> 3"]]
