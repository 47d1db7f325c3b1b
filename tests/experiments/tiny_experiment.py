"""An experiment as a third party would write it: a few runs that leave a line in a log each time they are computed."""

import os
import time
from pathlib import Path

from saddlery.experiments.base import Chart, Column, Experiment, Outcome, Row, Run, Series, Table


def add_up(data, report, *, upto, seed, log, pause):
    """Sum of squares up to a number, slowly, plus the seed."""
    with open(log, "a") as file:
        file.write(f"{upto}\n")
    for step in range(4):
        time.sleep(pause / 4)
        report(step / 4)
    return {"total": sum(k * k for k in range(upto + 1)) + seed, "rows": 0 if data is None else len(data[1])}


class Tiny(Experiment):
    """Needs a place for its log, and takes its data sets, its number of runs and its pause from the environment."""

    title = "Sums of squares"
    paper = "Archimedes, On spirals"

    def settings(self, quick):
        names = os.environ.get("TINY_DATA", "").split()
        runs = int(os.environ.get("TINY_RUNS", "3"))
        seed = int(os.environ.get("TINY_SEED", "5"))
        return {"data": names, "upto": list(range(1, 1 + (1 if quick else runs))), "seed": seed}

    def runs(self, settings, data):
        log, pause = os.environ["TINY_LOG"], float(os.environ.get("TINY_PAUSE", "0"))
        wanted = settings["data"]
        return [
            Run(f"sum {k}{' of ' + name if name else ''}", "tiny_experiment:add_up", self._arguments(settings, k, log, pause), name)
            for name in (data if wanted else [""])
            for k in settings["upto"]
        ]

    def _arguments(self, settings, k, log, pause):
        return {"upto": k, "seed": settings["seed"], "log": str(Path(log)), "pause": pause}

    def outcome(self, settings, results):
        rows = [Row([run.settings["upto"], record.result["total"]], [record.key]) for run, record in results.pairs]
        upto, totals = (list(column) for column in zip(*(row.values for row in rows), strict=True))
        keys = [record.key for _, record in results.pairs]
        line = Series("sums", upto, totals, keys, low=[t - 1 for t in totals], high=[t + 1 for t in totals])
        charts = [Chart("Growth", "n", "sum", [line, Series("n", upto, upto, [], dashed=True)])]
        return Outcome([Table("Sums", (Column("n"), Column("sum", "{:,d}")), rows, left=0)], ["They grow."], charts)
