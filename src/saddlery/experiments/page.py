"""One page with all that was reproduced: self-contained, for any screen, with charts to zoom into and tables to sort.

Every row and every line names the records it was read from; each record is listed with its command, seed and versions, and links to
its JSON file beside the page.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from saddlery.experiments.papers import OTHERS, PAPERS, Paper
from saddlery.experiments.pictures import colours_of
from saddlery.files import write_atomically
from saddlery.report.displays import COLOURS
from saddlery.report.markup import Markup, element, join

__all__ = ["NO_PLOTLY", "write_page"]

NO_PLOTLY = "the page is not written, because plotly is missing: pip install 'saddlery[page]'"
# Scripts are those in the page; nothing is fetched, whatever a name says.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
MOST_LINKS = 2  # records of a row; more are folded away
SHORTEST = 10  # characters of a key that tell records apart for eyes


def write_page(path: Path, contents: Sequence[dict[str, Any]], left_out: Sequence[str] = (), command: str = "") -> Path:
    """Write the page of some experiments.

    Parameters
    ----------
    path : path
        The file to write, in the folder that has the records.
    contents : sequence of dict
        What the harness wrote as ``result.json`` of each.
    left_out : sequence of str
        A sentence for each experiment that was not run.
    command : str
        What asked for it.

    Returns
    -------
    Path
        The file; it appears whole or not at all.
    """
    from plotly.offline import get_plotlyjs

    charts: list[dict[str, Any]] = []
    folder = path.parent
    body = join(
        element("a", "Skip to the results", class_="skip", href="#results"),
        _header(contents, command),
        _contents(contents),
        Markup('<main id="results">'),
        *(_paper(paper, chosen, charts, folder) for paper, chosen in _by_paper(contents)),
        _left_out(left_out),
        Markup("</main>"),
        element(
            "footer",
            "Every row and every line was read from records: JSON files with function, settings, seed, data digest, versions and "
            "command. Counts are compared with the printed ones by number; times are those of one machine and are compared in "
            "shape.",
        ),
    )
    scripts = join(
        element("script", Markup(_json(charts)), type="application/json", id="charts"),
        element("script", Markup(get_plotlyjs())),
        element("script", Markup(_resource("page.js"))),
    )
    write_atomically(path, _document("Five papers, computed again", body, scripts).encode())
    return path


def _document(title: str, body: Markup, scripts: Markup) -> str:
    styles = (files("saddlery.report") / "page.css").read_text(encoding="utf-8") + _resource("page.css")
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(styles)),
    )
    return f'<!doctype html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n{scripts}\n</body>\n</html>\n'


def _resource(name: str) -> str:
    return (files("saddlery.experiments") / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False).replace("</", "<\\/")


# --------------------------------------------------------------------------- parts of the page


def _header(contents: Sequence[dict[str, Any]], command: str) -> Markup:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    kind = "a quick run: less of everything" if any(content["quick"] for content in contents) else "a full run"
    return element(
        "header",
        element(
            "div",
            element("h1", "Five papers, computed again"),
            element("p", f"Written by saddlery, {now}; {kind}. ", element("code", command), class_="sub"),
        ),
        element("button", "Light or dark", id="theme", type="button"),
    )


def _by_paper(contents: Sequence[dict[str, Any]]) -> list[tuple[Paper, list[dict[str, Any]]]]:
    """The papers in order, each with what was computed of it."""
    groups: dict[str, tuple[Paper, list[dict[str, Any]]]] = {paper.citation: (paper, []) for paper in PAPERS}
    groups[OTHERS.citation] = (OTHERS, [])
    for content in contents:
        own = next((paper for paper in PAPERS if content["paper"].startswith(paper.citation)), OTHERS)
        groups[own.citation][1].append(content)
    return [(paper, chosen) for paper, chosen in groups.values() if chosen]


def _contents(contents: Sequence[dict[str, Any]]) -> Markup:
    items = []
    for paper, chosen in _by_paper(contents):
        links = [element("li", element("a", content["title"], href=f"#{content['experiment']}")) for content in chosen]
        items.append(element("li", paper.citation, element("ul", *links)))
    return element("nav", element("h2", "Contents"), element("ul", *items), aria_label="Contents")


def _paper(paper: Paper, chosen: Sequence[dict[str, Any]], charts: list[dict[str, Any]], folder: Path) -> Markup:
    heads = ("What holds", "What does not", "Errata", "Our default instead")
    sentences = (paper.holds, paper.fails, paper.errata, paper.instead)
    found = [
        join(element("dt", head), *(element("dd", sentence) for sentence in group))
        for head, group in zip(heads, sentences, strict=True)
        if group
    ]
    summary = join(element("h3", "What we found"), element("dl", *found, class_="found")) if found else None
    articles = [_experiment(content, charts, folder) for content in chosen]
    return element("section", element("h2", paper.citation), summary, *articles, class_="paper")


def _experiment(content: dict[str, Any], charts: list[dict[str, Any]], folder: Path) -> Markup:
    name = content["experiment"]
    colours = colours_of((line["name"] for chart in content["charts"] for line in chart["series"]), COLOURS)
    holders = [_chart(chart, colours, charts) for chart in content["charts"]]
    return element(
        "article",
        element("h3", content["title"]),
        element("p", content["paper"], class_="sub"),
        element("p", element("code", content["command"])),
        element("ul", *(element("li", note) for note in content["notes"])) if content["notes"] else None,
        element("div", *holders, class_="charts") if holders else None,
        *(_table(table, name) for table in content["tables"]),
        element(
            "details",
            element("summary", "Settings"),
            element("pre", json.dumps(content["settings"], indent=1), tabindex=0),
        ),
        _records(content, folder),
        id=name,
    )


def _chart(chart: dict[str, Any], colours: dict[str, str], charts: list[dict[str, Any]]) -> Markup:
    """The place of a chart; its data go into the page once, as JSON."""
    charts.append({**chart, "series": [{**line, "colour": colours[line["name"]]} for line in chart["series"]]})
    buttons = [
        element("button", f"log {side}", type="button", data_axis=f"{side}axis", aria_pressed=str(chart[f"log_{side}"]).lower())
        for side in "xy"
    ]
    return element(
        "figure",
        element("h4", chart["title"]),
        element("div", class_="plot", data_chart=len(charts) - 1, role="img", aria_label=_in_words(chart)),
        element("div", *buttons, class_="axes"),
        element("figcaption", _in_words(chart)),
    )


def _in_words(chart: dict[str, Any]) -> str:
    """What a chart shows, for whoever cannot see it: the axes, and where each line ends."""
    ends = [f"{line['name']} {line['y'][-1]:.2g}" for line in chart["series"] if line["y"] and not line["dashed"]]
    return f"{chart['title']}: {chart['y']} against {chart['x']}. The lines end at: {', '.join(ends)}."


def _short(record: str) -> str:
    return Path(record).stem[-SHORTEST:]


def _table(table: dict[str, Any], name: str) -> Markup:
    columns = [[row["values"][head] for row in table["rows"]] for head in table["columns"]]
    looks = ["number" if any(isinstance(value, int | float) for value in column) else None for column in columns]
    heads = [
        element("th", element("button", head, type="button", data_column=at), scope="col", aria_sort="none", class_=looks[at])
        for at, head in enumerate(table["columns"])
    ]
    rows = []
    for row, texts in zip(table["rows"], table["texts"], strict=True):
        cells = [
            element("td", text, class_=look, data_value=value if isinstance(value, int | float) else None)
            for value, text, look in zip(row["values"].values(), texts, looks, strict=True)
        ]
        links = [
            part for record in row["records"] for part in (element("a", _short(record), href=f"#{name}-{_short(record)}"), " ")
        ]
        many = len(row["records"]) > MOST_LINKS
        shown = element("details", element("summary", len(row["records"])), *links) if many else join(*links)
        rows.append(element("tr", *cells, element("td", shown, class_="records")))
    return element(
        "div",
        element(
            "table",
            element("caption", table["title"]),
            element("thead", element("tr", *heads, element("th", "records", scope="col"))),
            element("tbody", *rows),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=table["title"],
    )


def _records(content: dict[str, Any], folder: Path) -> Markup:
    """All records of an experiment: what was run, by which command, with which seed and versions."""
    rows = []
    for place in content["records"]:
        record = json.loads((folder / place).read_bytes())
        versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
        cells = [
            element("td", element("a", _short(place), href=place), class_="records"),
            element("td", record["label"]),
            element("td", "-" if record["seed"] is None else record["seed"], class_="number"),
            element("td", f"{record['seconds']:.2f}", class_="number", data_value=record["seconds"]),
            element("td", element("code", record["command"])),
            element("td", versions),
        ]
        rows.append(element("tr", *cells, id=f"{content['experiment']}-{_short(place)}"))
    heads = [element("th", head, scope="col") for head in ("record", "run", "seed", "seconds", "command", "versions")]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return element(
        "details",
        element("summary", f"Records ({len(rows)})"),
        element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Records"),
    )


def _left_out(sentences: Sequence[str]) -> Markup | None:
    if not sentences:
        return None
    return element(
        "section", element("h2", "Not run"), element("ul", *(element("li", sentence) for sentence in sentences)), class_="paper"
    )
