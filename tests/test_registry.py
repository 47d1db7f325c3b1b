"""Names of losses, penalties and solvers: resolved when asked for, extended by entry points, never replaced."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
import scipy.sparse as sp

import saddlery as sd
from saddlery import registry
from saddlery.errors import InputError
from saddlery.registry import EXPERIMENTS, LOSSES, PENALTIES, READERS, ROW_LOSSES, SOLVERS

ALL = pytest.mark.parametrize("table", [LOSSES, ROW_LOSSES, PENALTIES, SOLVERS, READERS, EXPERIMENTS], ids=lambda table: table.kind)


@ALL
def test_every_line_leads_somewhere(table):
    for name, place in table.builtin.items():
        found = table.get(name)
        assert f"{found.__module__}:{found.__qualname__}" == place
        if isinstance(found, type):
            assert table.name_of(found) == name
    assert len(set(table.builtin.values())) == len(table.builtin)


@ALL
@pytest.mark.parametrize("bad", ["", "nonsense_x", None, 3, ["l1"]])
def test_unknown_names(table, bad):
    with pytest.raises(InputError, match=f"unknown {table.kind} .* choose one of"):
        table.get(bad)


@pytest.mark.parametrize(
    ("table", "typo", "meant"),
    [
        (LOSSES, "logisitc", "logistic"),
        (LOSSES, "smoothhinge", "smooth_hinge"),
        (PENALTIES, "elastic_net", "elasticnet"),
        (PENALTIES, "L2", "l2"),
        (SOLVERS, "prox-newton", "prox_newton"),
        (SOLVERS, "SDCA", "sdca"),
    ],
)
def test_near_misses(table, typo, meant):
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        table.get(typo)


def test_the_published_names_are_there():
    assert {"logistic", "hinge", "smooth_hinge", "squared_hinge", "squared", "huber"} <= set(LOSSES.names())
    assert {"l1", "l2", "elasticnet", "l1_ball", "l2_ball", "simplex"} <= set(PENALTIES.names())
    assert {"prox_newton", "active_sdca", "dgpd", "dgpd_active", "sdca", "spdc", "primal_cd"} <= set(SOLVERS.names())


def test_name_of_a_stranger():
    assert LOSSES.name_of(sd.losses.Huber()) == "huber"
    assert LOSSES.name_of(object()) == "object"


def test_entry_points_add_and_never_replace(monkeypatch):
    """A third party's loss has a name like any other; a built-in keeps its own."""
    group = "saddlery.losses"
    points = [EntryPoint("mine", "saddlery.losses.squared:Squared", group), EntryPoint("hinge", "os:getcwd", group)]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "saddlery.losses" else [])
    for table in (LOSSES, PENALTIES):
        monkeypatch.delitem(table.__dict__, "_others", raising=False)
        monkeypatch.setitem(table.__dict__, "_others", type(table)._others.func(table))
    assert LOSSES.get("mine") is sd.losses.Squared
    assert LOSSES.names()[-1] == "mine"
    assert LOSSES.get("hinge") is sd.losses.Hinge
    assert sd.LinearProblem([[1.0], [2.0]], [1.0, 2.0], "mine", sd.penalties.L1(0.1)).loss == sd.losses.Squared()
    assert "mine" not in PENALTIES.names()


@pytest.mark.parametrize("intercept", [False, True])
def test_svms_on_tall_arrays_are_for_newton_and_on_sparse_data_for_dual_ascent(intercept):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((700, 6)), np.where(rng.random(700) < 0.5, 1.0, -1.0)
    small, tall, wide, sparse = (
        sd.LinearProblem(data, y, "hinge", sd.penalties.L2(0.01), fit_intercept=intercept)
        for data in (X, rng.standard_normal((700, 130)), rng.standard_normal((700, 200)), sp.csr_array(X))
    )
    assert sd.solvers.available(small)[0] == "interior_point"
    assert sd.solvers.available(tall)[0] == "active_sdca"  # where l2 is strong
    weak = sd.LinearProblem(tall.matrix, y, "hinge", sd.penalties.L2(0.001), fit_intercept=intercept)
    assert sd.solvers.available(weak)[0] == "augmented_newton"
    assert {sd.solvers.available(problem)[0] for problem in (wide, sparse)} == {"active_sdca"}


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_few_dense_rows_that_are_nearly_independent_are_for_dual_sweeps(loss):
    rng = np.random.default_rng(1)
    y = np.where(rng.random(70) < 0.5, 1.0, -1.0)
    square = sd.LinearProblem(rng.standard_normal((70, 70)), y, loss, sd.penalties.L2(0.02))
    assert sd.solvers.available(square)[0] == "sdca"
    assert sd.solvers.available(square.with_penalty(sd.penalties.ElasticNet(0.02)))[0] != "sdca"
