"""The live table: aligned lines in a log, a redrawn table on a terminal, several threads without garbling."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest

import saddlery as sd
from saddlery.report.live import LiveTable
from saddlery.solvers.base import Record


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def record(epoch, gap=0.5):
    return Record(epoch, 0.1 * epoch, float(epoch), 0.5 + gap, 0.5, gap, 2 * gap, epoch % 7)


def test_plain_lines_are_aligned():
    out = io.StringIO()
    with LiveTable("a title", file=out, every=0.0) as table:
        for epoch in (0, 3, 1234):
            table(record(epoch, 10.0**-epoch if epoch < 10 else 1e-12))
    title, head, *lines = out.getvalue().splitlines()
    assert title == "a title"
    assert head.split() == ["epoch", "seconds", "primal", "dual", "gap", "relative", "gap", "non-zeros"]
    assert len({len(line) for line in [head, *lines]}) == 1
    assert [line.split()[0] for line in lines] == ["0", "3", "1234"]


def test_first_and_last_are_shown_even_when_lines_come_fast():
    out = io.StringIO()
    with LiveTable(file=out, every=60.0) as table:
        for epoch in range(50):
            table(record(epoch))
    assert [line.split()[0] for line in out.getvalue().splitlines()[1:]] == ["0", "49"]


def test_a_record_that_reaches_the_tolerance_is_shown_at_once():
    out = io.StringIO()
    table = LiveTable(file=out, every=60.0, tol=1e-3)
    table(record(0))
    table(record(1, 1e-5))
    assert len(out.getvalue().splitlines()) == 3


def test_it_never_stops_the_solver():
    assert LiveTable(file=io.StringIO())(record(0)) is None


def test_threads_do_not_garble_lines():
    out = io.StringIO()
    with LiveTable(file=out, every=0.0) as table:

        def fit(label):
            show = table.labelled(label)
            for epoch in range(100):
                show(record(epoch))

        threads = [threading.Thread(target=fit, args=(f"class {k}",)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    head, *lines = out.getvalue().splitlines()
    assert head.startswith("fit")
    assert len(lines) == 400
    assert len({len(line) for line in [head, *lines]}) == 1
    for k in range(4):
        epochs = [int(line.split()[2]) for line in lines if line.startswith(f"class {k}")]
        assert epochs == list(range(100))


@pytest.mark.parametrize("label", ["[red]", "[/]", "plain"])
def test_terminal_has_one_row_for_each_fit(label):
    out = Terminal()
    with LiveTable("[bold]title", tol=1e-3, file=out) as table:
        for name in (label, "other"):
            show = table.labelled(name)
            show(record(0))
            show(record(9, 1e-5))
    text = out.getvalue()
    assert "[bold]title" in text
    assert label in text
    assert "relative" in text
    last = text[text.rindex("non-zeros") :]
    assert last.count("1.00e-05") == 2
    assert "5.00e-01" not in last


def test_terminal_shows_the_history_of_a_single_fit(monkeypatch):
    monkeypatch.setenv("LINES", "20")
    monkeypatch.setenv("COLUMNS", "100")
    out = Terminal()
    with LiveTable(file=out) as table:
        for epoch in range(40):
            table(record(epoch))
    assert "earlier rows are not shown" in out.getvalue()


def test_many_fits_leave_out_the_best_certified(monkeypatch):
    monkeypatch.setenv("LINES", "20")
    out = Terminal()
    with LiveTable(file=out) as table:
        for k in range(40):
            table.labelled(f"class {k}")(record(1, 10.0**-k))
    last = out.getvalue()
    last = last[last.rindex("non-zeros") :]
    assert "fits with smaller gaps are not shown" in last
    assert "class 0 " in last
    assert "class 39" not in last


def test_as_a_callback_of_solve():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 10))
    problem = sd.LinearProblem(X, np.sign(X[:, 0]), penalty=sd.penalties.L1(0.05))
    out = io.StringIO()
    with LiveTable(file=out, every=0.0) as table:
        solution = sd.solve(problem, callbacks=[table])
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + len(solution.trace)
    assert int(lines[-1].split()[-1]) == np.count_nonzero(solution.w)


def test_verbose_classifier_writes_to_standard_error(capfd):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4))
    sd.LinearClassifier(alpha=0.05, verbose=1, n_jobs=2).fit(X, np.repeat(["a", "b", "c"], 30))
    out, err = capfd.readouterr()
    assert out == ""
    assert {line.split()[0] for line in err.splitlines()[2:]} == {"a", "b", "c"}
