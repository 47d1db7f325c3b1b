"""The fit of the table behind ``solver="auto"`` (benchmarks/auto_lib), on made-up times."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from auto_lib.fitting import cross_validated, fit, is_fixed
from auto_lib.sheet import Sheet, regret

START = [{"when": {}, "solver": "prox_newton", "why": "the start"}]
FACTS = {"smooth": True, "selects": False, "sparse": False, "partial": False, "n": 1000, "d": 100, "columns_per_row": 0.1}


def entry(data, times, **facts):
    return {"data": data, "family": data, "in_table": True, "facts": FACTS | facts, "times": times}


def sheet(*rows, missing=3.0):
    return Sheet({f"{row['data']}:{i}": row for i, row in enumerate(rows)}, missing)


def planted(sets, fast=0.1):
    """Four problems of each set: on sparse data `sdca` is ten times as fast, on others ten times as slow."""
    rows = []
    for data in sets:
        for sparse in (True, False) * 2:
            rows.append(entry(data, {"prox_newton": [1.0, 1.0], "sdca": [fast if sparse else 10.0] * 2}, sparse=sparse))
    return sheet(*rows)


def test_regret_is_the_mean_logarithm_of_the_factor_to_the_fastest():
    times = {"a": [1.0, 2.0], "b": [2.0, 2.0], "c": [4.0, None], "d": [None, None]}
    assert regret(times, "a", 3.0) == 0.0
    assert regret(times, "b", 3.0) == pytest.approx(math.log(2.0) / 2)
    assert regret(times, "c", 3.0) == pytest.approx((math.log(4.0) + 3.0) / 2)
    assert regret(times, "d", 3.0) == 3.0
    assert regret({"a": [1.0, None], "b": [2.0, None]}, "a", 3.0) == 0.0  # nobody arrives: nobody is to blame


def test_the_first_rule_that_holds_and_whose_solver_can_decides():
    three = sheet(
        entry("one", {"prox_newton": [1.0, 1.0], "sdca": [2.0, 2.0]}),
        entry("two", {"prox_newton": [1.0, 1.0]}, n=50),
        entry("two", {"sdca": [1.0, 1.0], "newton_cg": [3.0, 3.0]}, n=5000),
    )
    rules = [
        {"when": {"conditioning": [None, 2.0]}, "solver": "newton_cg"},  # a fact that is not there fulfils nothing
        {"when": {"partial": True}, "solver": "newton_cg"},
        {"when": {"n": [None, 2000]}, "solver": "sdca"},
        *START,
    ]
    assert three.chosen(rules) == ["sdca", "prox_newton", ""]
    np.testing.assert_allclose(three.costs(rules), [math.log(2.0), 0.0, math.log(3.0)])  # without a rule: the slowest
    judged = three.judge(three.costs(rules), three.chosen(rules))
    assert judged.mean == pytest.approx(math.exp(math.log(6.0) / 3))
    assert (judged.worst, judged.where, judged.missed) == (pytest.approx(3.0), "two:2", 1)
    np.testing.assert_allclose(three.by_family(np.array([1.0, 2.0, 3.0])), [1.0, 5.0])


def test_a_planted_rule_is_found_and_explained():
    problems = planted("abcdef")
    rules = fit(problems, START)
    assert [rule["solver"] for rule in rules] == ["sdca", "prox_newton"]
    assert rules[0]["when"] == {"sparse": True, "partial": False}
    assert "10.00 times as fast as without it on 12 problems of a, b, c, d and 2 more" in rules[0]["why"]
    assert rules[1] == START[0]
    assert problems.costs(rules).max() == 0.0
    assert fit(problems, rules) == rules


def test_bounds_are_moved():
    rows = [
        entry(data, {"prox_newton": [1.0, 1.0], "sdca": [0.1 if n < 3000 else 10.0] * 2}, n=n)
        for data in "abcdef"
        for n in (300, 1500, 2500, 6000)
    ]
    rules = fit(sheet(*rows), [{"when": {"n": [None, 500]}, "solver": "sdca", "why": "an old one"}, *START])
    assert [rule["solver"] for rule in rules] == ["sdca", "prox_newton"]
    assert rules[0]["when"] == {"n": [None, 4000]}
    assert rules[0]["why"] != "an old one"


def test_what_helps_few_sets_only_is_not_a_rule():
    assert fit(planted("a"), START) == START
    assert fit(planted("abcd"), START) == START


def test_rules_without_evidence_against_them_stay():
    kept = {"when": {"partial": True, "sparse": True}, "solver": "sdca", "why": "about data that are not here"}
    unseen = {"when": {"n": [10**6, None]}, "solver": "sdca", "why": "no such problem"}
    useless = {"when": {"d": [None, 50]}, "solver": "sdca", "why": "no faster here, but perhaps elsewhere"}
    rows = [entry(data, {"prox_newton": [1.0, 1.0], "sdca": [1.0, 1.0]}, d=20) for data in "abcdef"]
    rules = [kept, unseen, useless, *START]
    assert is_fixed(kept)
    assert not is_fixed(unseen)
    assert fit(sheet(*rows), rules) == rules


def test_a_rule_gets_another_solver_where_three_families_gain():
    rows = [entry(data, {"prox_newton": [1.0, 1.0], "sdca": [9.0, 9.0], "newton_cg": [0.5, 0.5]}, d=20) for data in "abc"]
    old = {"when": {"d": [None, 50]}, "solver": "sdca", "why": "an old one"}
    rules = fit(sheet(*rows), [old, *START])
    assert [rule["solver"] for rule in rules] == ["newton_cg", "prox_newton"]
    assert rules[0]["when"] == old["when"]
    assert fit(sheet(*rows[:2]), [old, *START]) == [old, *START]


def test_sets_are_judged_by_tables_that_have_not_seen_them():
    """Eight sets agree; the last is against the rule that they make, and cannot prevent it where it is left out."""
    agree, against = planted("abcdefgh"), planted("z", fast=1.2)
    both = Sheet({name: row for part in (agree, against) for name, row in zip(part.names, part.entries, strict=True)}, 3.0)
    costs, chosen = cross_validated(both, START)
    sparse = np.array([row["facts"]["sparse"] for row in both.entries])
    last = np.array([row["data"] == "z" for row in both.entries])
    assert {chosen[i] for i in np.flatnonzero(sparse)} == {"sdca"}
    np.testing.assert_allclose(costs[~last], 0.0)
    np.testing.assert_allclose(costs[last & sparse], math.log(1.2))


def test_the_measured_times_are_of_solvers_and_facts_that_exist():
    from saddlery.registry import SOLVERS

    times = json.loads((Path(__file__).resolve().parents[1] / "benchmarks" / "results" / "auto_times.json").read_text())
    assert {solver for row in times.values() for solver in row["times"]} <= set(SOLVERS.names())
    table = json.loads((Path(__file__).resolve().parents[1] / "src" / "saddlery" / "solvers" / "auto.json").read_text())
    asked = {name for rule in table["rules"] for name in rule["when"]}
    assert all(asked <= set(row["facts"]) for row in times.values())
