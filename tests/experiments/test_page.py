"""The page: whole, traceable, and alive in a real browser where there is one."""

import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from saddlery.experiments import harness, page
from saddlery.experiments.base import Series
from saddlery.experiments.pictures import MOST_POINTS, thin
from saddlery.experiments.progress import Progress

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture
def written(tiny, tmp_path):
    """A page of the tiny experiment, and what is on it."""
    plans = harness.plan(["tiny"], Path("nowhere"))
    reports = harness.reproduce(
        plans, tmp_path / "out", "saddlery reproduce tiny", lambda n, cost: Progress(n, cost, io.StringIO())
    )
    path = page.write_page(tmp_path / "out" / "index.html", [reports[0].content], ["fig needs <tree>"], "saddlery reproduce tiny")
    return path, reports[0].content


def test_page_is_self_contained(written):
    text = written[0].read_text()
    body = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", body)
    assert "default-src" in text
    assert "fig needs &lt;tree&gt;" in text


def test_every_row_and_line_has_its_record(written):
    path, content = written
    text = path.read_text()
    charts = json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL).group(1))
    assert [line["name"] for line in charts[0]["series"]] == ["sums", "n"]
    assert charts[0]["series"][0]["records"] == content["records"]
    for place in content["records"]:
        record = json.loads((path.parent / place).read_text())
        assert record["command"] == "saddlery reproduce tiny"
        assert record["versions"]["saddlery"]
        anchor = f'id="tiny-{page._short(place)}"'
        assert anchor in text
        assert f'href="#tiny-{page._short(place)}"' in text
        assert f'href="{place}"' in text


def test_charts_have_words_for_those_who_cannot_see(written):
    text = written[0].read_text()
    assert 'role="img" aria-label="Growth: sum against n. The lines end at: sums 19."' in text
    for tag in ("h1", "h2", "h3", "main", "nav", "caption"):
        assert f"<{tag}" in text


def test_thin_lines_keep_their_ends():
    line = Series("a", range(1, 5001), range(5000), low=range(5000), high=range(5000))
    for log_x in (False, True):
        kept = thin(line, log_x)
        assert (kept.x[0], kept.x[-1], kept.high[-1]) == (1, 5000, 4999)
        assert len(kept.x) == len(kept.low) <= MOST_POINTS + 2


def test_without_plotly_the_command_says_so(tiny, tmp_path, monkeypatch, capsys):
    from saddlery.cli.main import main

    def write_page(*args):
        raise ModuleNotFoundError("No module named 'plotly'", name="plotly")

    monkeypatch.setattr(page, "write_page", write_page)
    assert main(["reproduce", "tiny", "-o", str(tmp_path / "out")]) == 0
    assert page.NO_PLOTLY in capsys.readouterr().err


ACTIONS = """
<script>
window.addEventListener("load", function () {
  const said = {};
  said.charts = document.querySelectorAll(".plot .main-svg").length;
  const table = document.querySelector("article table"), first = () => table.tBodies[0].rows[0].cells[1].textContent;
  const button = table.querySelectorAll("th button")[1];
  button.click(); button.click();
  said.largest = first();
  said.sort = button.parentElement.getAttribute("aria-sort");
  document.getElementById("theme").click();
  said.theme = document.documentElement.dataset.theme;
  const log = document.querySelector("button[data-axis=yaxis]"), plot = document.querySelector(".plot");
  log.click();
  said.axis = plot._fullLayout.yaxis.type;
  said.bands = plot.data.filter((trace) => trace.fill === "toself").length;
  Plotly.restyle(plot, { visible: "legendonly" }, [1]).then(function () {
    said.hidden = plot._fullData[1].visible;
    document.documentElement.dataset.said = JSON.stringify(said);
  });
});
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_page_lives_in_a_browser(written, tmp_path):
    path = tmp_path / "out" / "acted.html"
    path.write_text(written[0].read_text().replace("</body>", ACTIONS + "</body>"))
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [BROWSER, *options, "--virtual-time-budget=10000", "--dump-dom", path.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    said = re.search(r'data-said="(.*?)"', run.stdout)
    assert said, run.stderr
    told = json.loads(said.group(1).replace("&quot;", '"'))
    assert told.pop("charts") >= 1
    expected = {"largest": "19", "sort": "descending", "axis": "linear", "bands": 1, "hidden": "legendonly"}
    assert {name: told[name] for name in expected} == expected
    assert told["theme"] in {"light", "dark"}
