"""The arithmetic of tables: ratios, means, nobody there, not certified."""

import json
import math

import pytest

from saddlery.bench import pictures, report


def result(cell, ours, peers, threads=1, raw=None):
    """A result with times in seconds at 1e-2 and 1e-6; None: not reached."""
    keys = ("1e-02", "1e-06")

    def time(seconds):
        return {"cpu": seconds, "wall": seconds / 2, "runs": 3}

    mine = {
        k: {**time(t or 1.0), "reached": t is not None, "solver": "newton", "gap": 1e-7} for k, t in zip(keys, ours, strict=True)
    }
    theirs = {
        name: {
            "times": {k: None if t is None else time(t) for k, t in zip(keys, times, strict=True)},
            "steps": [{"setting": 1, "cpu": 1.0, "wall": 0.5, "suboptimality": 0.1}],
            "note": "reached" if times[-1] else "end of its ladder",
        }
        for name, times in peers.items()
    }
    return {
        "cell": cell,
        "task": "fit",
        "threads": threads,
        "reference": {"certified": 1e-11},
        "ours": mine,
        "raw": None if raw is None else time(raw),
        "peers": theirs,
    }


RESULTS = [
    result("d:a", (0.1, 0.2), {"x": (0.4, 1.6), "y": (0.2, None)}, raw=0.3),
    result("d:b", (0.1, 0.2), {"x": (0.05, 0.1), "y": (0.3, 0.4)}),
    result("d:c", (0.1, 0.2), {"x": (0.4, None)}),
    result("d:d", (0.1, None), {"x": (0.4, 0.5)}),
    {"cell": "d:e", "error": "crashed"},
]


def test_ratios():
    table = report.rows(RESULTS)
    assert [row.ratio("1e-02") for row in table] == pytest.approx([2.0, 0.5, 4.0, 4.0])
    assert [row.ratio("1e-06") for row in table] == [pytest.approx(8.0), pytest.approx(0.5), None, 0.0]
    assert [report.ratio_text(row.ratio("1e-06")) for row in table] == ["8.00", "0.50", "no peer", "not certified"]
    assert table[0].unreached == {"y": "end of its ladder"}
    assert (table[0].best("1e-02", 1), table[0].raw, table[1].raw) == ("y 200", 0.3, None)


def test_several_threads_count_by_the_clock():
    (row,) = report.rows([result("d:a", (0.1, 0.2), {"x": (0.4, 1.6)}, threads=2)])
    assert row.ours == {"1e-02": 0.05, "1e-06": 0.1}


def test_summary():
    last = report.summary(report.rows(RESULTS))["1e-06"]
    assert last["cells"] == 3
    assert last["without_peer"] == ["d:c"]
    assert last["not_certified"] == ["d:d"]
    assert last["geometric_mean"] == pytest.approx(math.sqrt(8.0 * 0.5))
    assert last["minimum"] == ("d:d", 0.0)
    assert last["losers"] == {"d:d": 0.0, "d:b": 0.5}
    assert report.summary(report.rows([RESULTS[2]]))["1e-06"]["geometric_mean"] is None


def test_texts():
    assert [report.milliseconds(seconds) for seconds in (None, 0.00012345, 1.0, 12.3456)] == ["-", "0.123", "1e+03", "12346"]
    text = report.text_table(report.rows(RESULTS))
    assert "d:a           2.00           8.00   200; x 1.6e+03" in text
    assert "1e-06: geometric mean 2.00 over 3 cells, minimum 0.00 (d:d)" in text
    assert report.text_table([]) == ""


def test_files(tmp_path):
    told = report.document(RESULTS, 1, {"z": "not installed"})
    paths = report.write_all(told, tmp_path / "all.of-it", "Written by a test.")
    assert [path.name for path in paths] == ["all.of-it.json", "all.of-it.md"]
    assert json.loads(paths[0].read_text())["summary"]["1e-06"]["cells"] == 3
    page = paths[1].read_text()
    assert "Written by a test. CPU times;" in page
    assert "Not available: z (not installed)." in page
    assert "| d:a | 1e-11 | 2.00 | 8.00 | 100 / 200 | 300 | newton | x 1.6e+03 | y |" in page
    assert page.endswith("\nd:e: crashed\n")


def test_pictures(tmp_path):
    pictures.plot_ratios(report.rows(RESULTS), tmp_path / "ratios.png")
    pictures.plot_curves(RESULTS, tmp_path / "curves.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("ratios.png", "curves.png"))
