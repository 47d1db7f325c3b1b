"""Numbers in words must be true: bounds are rounded outwards."""

from __future__ import annotations

import math
import re

import pytest

from saddlery.report.wording import MINUS, apart, power_of_ten, share, short, ticks

UNITS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


@pytest.mark.parametrize("fraction", [0.9, 0.0301, 0.0300001, 1e-3, 9.99e-4, 3.3e-5, 1.23456e-7, 9.9999e-10, 4e-13])
def test_shares_are_true_and_not_far_off(fraction):
    text = share(fraction)
    if text.endswith("%"):
        stated = float(re.findall(r"[\d.]+", text)[0]) / 100
    else:
        count, *unit = re.fullmatch(r"less than 1 part in ([\d.]+) ?(\w*)", text).groups()
        stated = 1.0 / (float(count) * UNITS.get(unit[0], 1.0))
    assert fraction <= stated <= 1.2 * fraction + 1e-3 * (fraction >= 1e-3)


@pytest.mark.parametrize(
    ("primal", "dual"), [(0.1234567891, 0.1234567880), (2152.122993, 2152.122977), (1e-9, 0.9e-9), (3.0, 3.0), (1.0, -2.0)]
)
def test_both_claims_are_true(primal, dual):
    high, low = (float(text.replace(MINUS, "-")) for text in apart(primal, dual))
    assert high >= primal
    assert low <= dual
    assert high - low <= 3 * (primal - dual) + 1e-15 * abs(primal)


def test_odd_numbers():
    assert short(math.inf) == "∞"
    assert short(-math.inf) == MINUS + "∞"
    assert share(math.nan) == "an unknown share"
    assert apart(math.inf, 0.0) == ("∞", "0")
    assert power_of_ten(-12) == "10⁻¹²"


@pytest.mark.parametrize("top", [1e-6, 0.03, 0.99, 1.0, 7.3, 12345.0])
def test_ticks_are_round_and_inside(top):
    found = ticks(top, 6)
    assert found[0] == 0.0
    assert 3 <= len(found) <= 8
    assert found[-1] <= top * (1 + 1e-9)
    assert ticks(0.0, 5) == [0.0]
