"""``saddlery reproduce``."""

import json
from pathlib import Path

import pytest

from saddlery.registry import EXPERIMENTS

TINY = Path(__file__).parent.parent / "experiments"


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A small experiment of a third party beside those that come with the library; its output goes to a folder of the test."""
    monkeypatch.syspath_prepend(TINY)
    monkeypatch.setitem(EXPERIMENTS.__dict__, "_others", {"tiny": "tiny_experiment:Tiny"})
    monkeypatch.setenv("TINY_LOG", str(tmp_path / "log"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_list(saddlery, tmp_path):
    (tmp_path / "a9a").write_text("+1 1:1\n")
    done = saddlery("reproduce", "--list", "--data", tmp_path)
    assert done.code == 0
    assert all(name in done.out for name in EXPERIMENTS.names())
    assert "a9a, w8a (not found), mushrooms (not found), gisette (not found)" in done.out
    told = json.loads(saddlery("reproduce", "--list", "--json", "--data", tmp_path).out)["experiments"]
    assert [row["name"] for row in told] == EXPERIMENTS.names()
    (table,) = (row for row in told if row["name"] == "frank-wolfe-table3")
    assert table["missing"] == ["w8a", "mushrooms", "gisette"]
    assert "Table 3" in table["paper"]


def test_text(saddlery, tiny):
    done = saddlery("reproduce", "tiny")
    assert done.code == 0
    assert done.out.startswith("Sums of squares\nArchimedes, On spirals\n")
    assert "- They grow." in done.out
    assert "wrote saddlery-reproduce/tiny/result.json" in done.out
    assert [line.split("  ")[:2] for line in done.err.splitlines()] == [["1/3", "sum 1"], ["2/3", "sum 2"], ["3/3", "sum 3"]]
    again = saddlery("reproduce", "tiny")
    assert (again.out, again.err) == (done.out, "")


def test_json(saddlery, tiny):
    told = json.loads(saddlery("reproduce", "tiny", "--quick", "--json", "-o", "there").out)
    (report,) = told["experiments"]
    assert report["quick"] is True
    assert report["tables"][0]["rows"][0]["values"] == {"n": 1, "sum": 6}
    names = ("result.md", "result.json", "figure.png", "figure.svg")
    assert report["files"] == [f"there/tiny-quick/{name}" for name in names]
    assert Path("there", "quick.html").is_file()
    record = json.loads(Path("there", report["records"][0]).read_text())
    assert record["command"] == "saddlery reproduce tiny --quick"


def test_missing_data_are_named(saddlery, tiny):
    done = saddlery("reproduce", "frank-wolfe-table3", "tiny", "--data", "empty")
    assert done.code == 2
    sentence = done.sentence()
    assert sentence.startswith("saddlery: frank-wolfe-table3 needs a9a or w8a or mushrooms or gisette; frank-wolfe-figure1 needs")
    assert "empty has no a9a, w8a, mushrooms," in sentence
    assert "LIBSVM data page" in sentence
    assert "--data" in sentence
    assert not Path("saddlery-reproduce").exists()


def test_all_leaves_out_what_has_no_data(saddlery, tiny, monkeypatch):
    monkeypatch.setattr(EXPERIMENTS, "builtin", {name: place for name, place in EXPERIMENTS.builtin.items() if "frank" in name})
    done = saddlery("reproduce", "all", "--quick")
    assert done.code == 0
    assert "Sums of squares" in done.out
    left_out = [line for line in done.err.splitlines() if "left out" in line]
    assert len(left_out) == len(EXPERIMENTS.builtin)
    assert left_out[0].startswith("saddlery: warning: left out: frank-wolfe-table3 needs mushrooms: data has no mushrooms")


def test_the_folder_may_come_from_the_environment(saddlery, tiny, monkeypatch):
    monkeypatch.setenv("SADDLERY_DATA", "elsewhere")
    assert "elsewhere has no" in saddlery("reproduce", "frank-wolfe-figure1").sentence()


def test_usage(saddlery):
    done = saddlery("reproduce")
    assert done.code == 2
    assert "name an experiment, or 'all': doubly-greedy-figure1" in done.sentence()
    assert "did you mean 'frank-wolfe-table3'?" in saddlery("reproduce", "frank-wolfe-table").sentence()
