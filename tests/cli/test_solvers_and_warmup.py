"""``saddlery solvers`` and ``saddlery warmup``."""

import json

from saddlery.registry import SOLVERS


def test_all_solvers(saddlery):
    done = saddlery("solvers")
    assert done.code == 0
    assert all(name in done.out for name in SOLVERS.names())
    assert "Lei et al. 2017, Algorithm 1" in done.out


def test_solvers_for_a_problem(saddlery):
    told = json.loads(saddlery("solvers", "--loss", "logistic", "--penalty", "l1", "--intercept", "--json").out)
    names = [row["name"] for row in told["solvers"]]
    assert names[0] == "small_newton"
    assert "prox_newton" in names
    assert "at most 64 columns" in told["solvers"][0]["needs"]
    assert "sdca" not in names
    assert "best first" in saddlery("solvers", "--penalty", "l2").out


def test_unknown_names(saddlery):
    done = saddlery("solvers", "--loss", "hing")
    assert done.code == 2
    assert "did you mean 'hinge'?" in done.sentence()


def test_warmup(saddlery, monkeypatch):
    monkeypatch.setattr("saddlery.cli.warmup.PAIRS", {"classification": [("logistic", "l1")], "regression": [("squared", "l1")]})
    done = saddlery("warmup")
    assert done.code == 0
    assert done.out.startswith("ready in ")
    assert len(done.err.splitlines()) == 6
