"""The demo, as a newcomer runs it: offline, one table, a page and a picture."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

RUN = [sys.executable, "-m", "saddlery", "demo"]
NO_MATPLOTLIB = "import sys; sys.modules['matplotlib'] = None; from saddlery.cli.main import main; sys.exit(main(['demo']))"
NO_NETWORK = (
    "import socket\nclass Closed(socket.socket):\n    def connect(self, *a): raise OSError('offline')\nsocket.socket = Closed\n"
)


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run([*RUN, "--output", str(folder), "--json"], capture_output=True, text=True, timeout=300, check=True)
    return folder, json.loads(done.stdout)


def test_every_model_is_certified(answer):
    _, told = answer
    assert len(told["fits"]) == 8
    for fit in told["fits"]:
        certificate = fit["certificate"]
        assert certificate["primal"] >= certificate["dual"]
        assert 0.0 <= fit["excess"] <= certificate["relative_gap"] + 1e-12
        if fit["model"].startswith("saddlery"):
            assert certificate["relative_gap"] <= float(fit["model"].split("=")[1])
            assert not fit["warnings"]


def test_all_models_of_a_data_set_have_the_same_objective(answer):
    _, told = answer
    for data in {fit["data"] for fit in told["fits"]}:
        fits = [fit for fit in told["fits"] if fit["data"] == data]
        assert len({round(fit["certificate"]["scale"], 12) for fit in fits}) == 1
        optimum = max(fit["certificate"]["dual"] for fit in fits)
        assert all(optimum <= fit["certificate"]["primal"] + 1e-12 for fit in fits)


def test_warnings_of_scikit_learn_are_shown_and_not_raised(answer):
    _, told = answer
    saga = [fit for fit in told["fits"] if fit["model"] == "sklearn, saga"]
    assert any("ConvergenceWarning" in text for fit in saga for text in fit["warnings"])


def test_files_are_written_where_it_says(answer):
    folder, told = answer
    assert told["page"] == str(folder / "demo.html")
    assert told["picture"] == str(folder / "demo.png")
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "l1 logistic regression" in (folder / "demo.html").read_text(encoding="utf-8")


def test_offline_without_matplotlib_on_a_narrow_terminal(tmp_path):
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-c", NO_NETWORK + NO_MATPLOTLIB]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=tmp_path, env=environment)
    assert max(map(len, done.stdout.splitlines())) <= 80
    for words in ("saddlery, tol=1e-8", "sklearn, liblinear", "ConvergenceWarning", "pip install 'saddlery[plot]'"):
        assert words in done.stdout
    assert [path.name for path in (tmp_path / "saddlery-demo").iterdir()] == ["demo.html"]
