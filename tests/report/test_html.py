"""The page: well formed, self-contained, escaped, true to the certificate, and readable in a real browser."""

from __future__ import annotations

import html.parser
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import saddlery as sd
from saddlery.report.html import Mark, Table, write_report
from saddlery.report.markup import VOID
from saddlery.report.wording import apart, short

EVIL = '<script>alert("x")</script>&amp;'


class Page(html.parser.HTMLParser):
    """Collects tags, texts and attributes, and checks that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID or tag in {"path", "circle"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without a beginning"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    problem = sd.LinearProblem(X, X[:, 0] - X[:, 1], loss="squared", penalty=sd.penalties.L1(0.05), fit_intercept=True)
    return sd.solve(problem)


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 4))
    return sd.LinearClassifier(alpha=0.02).fit(X, np.repeat(["a", EVIL, "c"], 30))


def read(tmp_path, fitted, **options):
    return write_report(tmp_path / "page.html", fitted, **options).read_text(encoding="utf-8")


def test_well_formed_and_complete(tmp_path, solution):
    page = Page(read(tmp_path, solution, title="A lasso", tol=1e-6))
    assert page.tags.count("h1") == 1
    assert page.tags.count("svg") == 2  # one for wide and one for narrow screens
    assert page.tags.count("table") == page.tags.count("caption")
    for heading in ("The certificate", "Convergence", "Largest coefficients", "Settings and versions"):
        assert heading in page.text
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert ("lang", "en") in page.attributes
    assert ("role", "img") in page.attributes


def test_the_numbers_are_those_of_the_certificate(tmp_path, solution):
    text = Page(read(tmp_path, solution, tol=1e-6)).text
    c = solution.certificate
    for shown in (
        *apart(c.primal, c.dual),
        short(c.gap, 3),
        short(c.relative_gap, 3),
        short(c.scale, 6),
        short(float(solution.w[0]), 4),
    ):
        assert shown in text
    assert "certified to the tolerance" in text
    assert f"{np.count_nonzero(solution.w)} of 6 coefficients are not zero" in text
    assert sd.__version__ in text


def test_everything_is_escaped(tmp_path, solution, classifier):
    evil = Table(EVIL, EVIL, [EVIL], [[EVIL]], note=EVIL)
    options = {"title": EVIL, "settings": {EVIL: EVIL}, "tables": [evil], "marks": [Mark(EVIL, 0.1, 0.1)]}
    for fitted, d in ((solution, 6), (classifier, 4)):
        text = read(tmp_path, fitted, feature_names=[EVIL] * d, **options)
        assert "<script" not in text
        page = Page(text)
        assert "script" not in page.tags
        assert EVIL in page.text


def test_nothing_is_fetched(tmp_path, solution):
    text = read(tmp_path, solution)
    assert not re.search(r"(https?:)?//", text)
    assert "@import" not in text
    assert "url(" not in text
    assert any(value.startswith("default-src 'none'") for name, value in Page(text).attributes if name == "content")


def test_one_vs_rest_shows_every_class(tmp_path, classifier):
    page = Page(read(tmp_path, classifier))
    assert "One certificate for each fit" in page.text
    assert "the least certain of 3" in page.text
    for label in ("class a", "class c"):
        assert label in page.text


def test_a_fit_that_stopped_early_says_so(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    problem = sd.LinearProblem(X, np.sign(X[:, 0]), penalty=sd.penalties.L1(0.001))
    text = read(tmp_path, sd.solve(problem, tol=0.0, max_epochs=1))
    assert "badge warn" in text
    assert "stopped at max_epochs" in text


def test_many_runs_and_long_traces_stay_small(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 10))
    model = sd.LinearClassifier(alpha=0.02, solver="primal_cd", tol=1e-9).fit(X, np.repeat(np.arange(12), 10))
    text = read(tmp_path, model)
    assert len(text) < 600_000
    assert "the other 11" in Page(text).text


def test_written_whole_or_not_at_all(tmp_path, solution):
    target = tmp_path / "page.html"
    target.write_text("old", encoding="utf-8")
    with pytest.raises(sd.InputError, match="5 feature names"):
        write_report(target, solution, feature_names=list("abcde"))
    assert target.read_text(encoding="utf-8") == "old"
    write_report(target, solution)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    for wrong in (tmp_path, tmp_path / "no" / "page.html"):
        with pytest.raises(sd.InputError, match="directory that exists"):
            write_report(wrong, solution)


def test_works_without_matplotlib(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import numpy as np, saddlery as sd\n"
        "from saddlery.report import write_report\n"
        "problem = sd.LinearProblem(np.eye(3), [1.0, 2.0, 3.0], loss='squared', penalty=sd.penalties.L1(0.1))\n"
        f"write_report({str(tmp_path / 'page.html')!r}, sd.solve(problem))\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert Page((tmp_path / "page.html").read_text(encoding="utf-8")).tags.count("svg") == 2


BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize(("width", "shown", "hidden"), [(1000, "wide", "narrow"), (500, "narrow", "wide")])
def test_in_a_real_browser(tmp_path, classifier, width, shown, hidden):
    """The page renders without errors, shows one of its two drawings, and is never wider than the window."""
    page = write_report(tmp_path / "page.html", classifier, feature_names=["x" * 80, EVIL, "a", "b"])
    probe = (
        "<script>const seen = name => getComputedStyle(document.querySelector('.' + name)).display != 'none';"
        "document.title = JSON.stringify({wide: seen('wide'), narrow: seen('narrow'),"
        "fits: document.documentElement.scrollWidth <= window.innerWidth, scripts: document.scripts.length});</script>"
    )
    text = page.read_text(encoding="utf-8")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', text).group()
    page.write_text(text.replace(policy, "").replace("</body>", probe + "</body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    flags += [
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--window-size={width},900",
    ]
    command = [BROWSER, *flags, "--dump-dom", page.as_uri()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = re.search(r"<title>(.*?)</title>", answer.stdout).group(1)
    assert f'"{shown}":true' in told
    assert f'"{hidden}":false' in told
    assert '"fits":true' in told
    assert '"scripts":1' in told  # only the probe


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_the_policy_of_the_page_stops_scripts(tmp_path, solution):
    page = write_report(tmp_path / "page.html", solution, title="quiet")
    page.write_text(
        page.read_text(encoding="utf-8").replace("</body>", "<script>document.title = 'loud'</script></body>"), encoding="utf-8"
    )
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    command = [BROWSER, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "<title>quiet</title>" in answer.stdout
