"""What an experiment is: settings as data, runs that can be kept, and an outcome made of tables, notes and charts.

An experiment computes nothing itself. It names its runs; the harness runs them, or takes them from the records; the experiment then
reads the records. So a table and a figure may share runs, and each number can be traced to a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

__all__ = ["Chart", "Column", "Experiment", "Outcome", "Record", "Results", "Row", "Run", "Series", "Table"]


class Run(NamedTuple):
    """One computation: a function, and all that it depends on.

    Attributes
    ----------
    label : str
        What the progress line says; also the beginning of the name of its record.
    function : str
        ``"module:function"``, called as ``function(data, report, **settings)``. It returns a dict that JSON can hold and calls
        ``report(share)`` now and then with the share that is done.
    settings : mapping
        Its arguments, as JSON can hold them, the seed under ``"seed"``.
    data : str
        Name of the data set that it is given as ``(X, y)``, or "" for None.
    solvers : tuple of str
        Registered solvers that it calls by name: a change of their sources makes a record stale.
    cost : float
        How long it takes, in any unit that is the same for all runs of an experiment; for the time left.
    """

    label: str
    function: str
    settings: Mapping[str, Any]
    data: str = ""
    solvers: tuple[str, ...] = ()
    cost: float = 1.0


@dataclass(frozen=True)
class Record:
    """What a run gave and how: enough to do it again.

    Attributes
    ----------
    key : str
        Digest of function, settings, data file and sources: the same key means the same computation.
    label, function, settings : str, str, dict
        As in :class:`Run`.
    seed : int or None
        The seed among the settings.
    data : dict
        Name, file name and SHA-256 of the data, or empty.
    sources : str
        Digest of the sources that the run depends on.
    result : dict
        What the function returned.
    seconds : float
        What it took, compilation included.
    finished : str
        When it was done, in UTC.
    command : str
        The command that asked for it.
    versions : dict
        Of Python and of the libraries.
    """

    key: str
    label: str
    function: str
    settings: dict[str, Any]
    seed: int | None
    data: dict[str, str]
    sources: str
    result: dict[str, Any]
    seconds: float
    finished: str
    command: str
    versions: dict[str, str]


class Column(NamedTuple):
    """A column of a table: its head, and the format of its numbers."""

    head: str
    format: str = "{}"


class Row(NamedTuple):
    """Values in the order of the columns (None where there is nothing), and the keys of the records they come from."""

    values: Sequence[Any]
    keys: Sequence[str] = ()


class Table(NamedTuple):
    """A table of values; the first `left` columns are words.

    Examples
    --------
    >>> table = Table("Counts", (Column("method"), Column("calls", "{:,.0f}")), [Row(("ours", 1234.0)), Row(("theirs", None))])
    >>> table.texts()
    [['ours', '1,234'], ['theirs', '-']]
    """

    title: str
    columns: tuple[Column, ...]
    rows: list[Row]
    left: int = 1

    def texts(self) -> list[list[str]]:
        """The cells as they are shown; words stand for themselves in any column."""
        return [[_text(value, column.format) for value, column in zip(row.values, self.columns, strict=True)] for row in self.rows]


def _text(value: Any, form: str) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else form.format(value)


class Series(NamedTuple):
    """A line of a chart, and the keys of the records it comes from.

    Attributes
    ----------
    name : str
        What the legend says; lines of one name, in all charts of an experiment, share a colour.
    x, y : sequences or arrays of float
        Its points.
    keys : sequence of str
        Records.
    low, high : sequences or arrays of float, optional
        A band around the line, such as one standard deviation.
    dashed : bool
        A second line of the same name, which the legend does not list again.
    """

    name: str
    x: Any
    y: Any
    keys: Sequence[str] = ()
    low: Any = None
    high: Any = None
    dashed: bool = False


class Chart(NamedTuple):
    """A chart as data: the picture and the page are both drawn from it.

    Attributes
    ----------
    title, x, y : str
        What it shows, and the names of its axes.
    series : list of Series
        Its lines.
    log_x, log_y : bool
        Whether the axes are logarithmic at first; values that are not positive then have no place.
    """

    title: str
    x: str
    y: str
    series: list[Series]
    log_x: bool = True
    log_y: bool = True


@dataclass
class Outcome:
    """What an experiment shows: tables, and sentences about what holds and what does not."""

    tables: list[Table]
    notes: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)


@dataclass
class Results:
    """The records of an experiment, each with its run, and the data sets that were wanted but are not there."""

    pairs: list[tuple[Run, Record]]
    missing: list[str] = field(default_factory=list)

    def of(self, data: str, **settings: Any) -> list[Record]:
        """The records of a data set whose settings agree with the given ones."""
        return [
            record
            for run, record in self.pairs
            if run.data == data and all(run.settings.get(name) == value for name, value in settings.items())
        ]


class Experiment:
    """Base of all experiments; a line in :data:`saddlery.registry.EXPERIMENTS` makes one known by its name.

    Attributes
    ----------
    title, paper : str
        What it shows, and where that is printed.
    companions : tuple of str
        Names of experiments that belong to it: whoever asks for the one gets the others, too.
    """

    title: ClassVar[str]
    paper: ClassVar[str]
    companions: ClassVar[tuple[str, ...]] = ()

    def settings(self, quick: bool) -> dict[str, Any]:
        """All choices as data; ``settings["data"]`` lists the data sets. `quick` asks for less of everything."""
        raise NotImplementedError

    def runs(self, settings: dict[str, Any], data: Sequence[str]) -> list[Run]:
        """The runs, for those data sets that are there."""
        raise NotImplementedError

    def outcome(self, settings: dict[str, Any], results: Results) -> Outcome:
        """Tables, notes and charts, read off the records."""
        raise NotImplementedError
