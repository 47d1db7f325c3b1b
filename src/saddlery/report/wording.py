"""Numbers as people read them."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["MINUS", "apart", "power_of_ten", "share", "short", "ticks"]

MINUS = "\N{MINUS SIGN}"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NAMES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"), (1e3, "thousand"))


def short(value: float, digits: int = 4) -> str:
    """A number with a few digits, and a true minus sign.

    Examples
    --------
    >>> short(0.000012345), short(-2.5), short(float("nan"))
    ('1.234e-05', '−2.5', 'unknown')
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else ("∞" if value > 0 else MINUS + "∞")
    text = f"{value:.{digits}g}"
    return MINUS + text[1:] if text.startswith("-") else text


def share(fraction: float) -> str:
    """A share in words, rounded so that "less than" is true.

    Examples
    --------
    >>> share(0.0304), share(3.1e-7), share(0.0)
    ('less than 3.1 %', 'less than 1 part in 3.2 million', 'nothing beyond rounding')
    """
    if not math.isfinite(fraction):
        return "an unknown share"
    if fraction <= 1e-15:
        return "nothing beyond rounding"
    if fraction >= 1e-3:
        percent = math.floor(1000 * fraction + 1) / 10
        return f"less than {percent:g} %"
    parts = 1.0 / fraction
    for unit, name in _NAMES:
        if parts >= unit:
            count = math.floor(parts / unit * 10) / 10 if parts < 100 * unit else math.floor(parts / unit)
            return f"less than 1 part in {count:g} {name}"
    return f"less than 1 part in {math.floor(parts)}"


def apart(primal: float, dual: float) -> tuple[str, str]:
    """A value and a lower bound, with as many digits as it takes to show their distance, rounded so that both claims are true.

    Examples
    --------
    >>> apart(0.119221830301, 0.119221830202)
    ('0.1192218304', '0.1192218302')
    >>> apart(0.5, 0.25)
    ('0.5', '0.25')
    """
    if not (math.isfinite(primal) and math.isfinite(dual)):
        return short(primal, 8), short(dual, 8)
    high, low = Decimal(primal), Decimal(dual)
    for digits in range(6, 17):
        high = Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(primal)
        low = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal_from_float(dual)
        if float(high - low) <= 3 * (primal - dual):
            break
    return _plain(high), _plain(low)


def _plain(value: Decimal) -> str:
    text = f"{value.normalize():f}" if abs(value) >= Decimal("1e-6") or value == 0 else str(value.normalize()).lower()
    return MINUS + text[1:] if text.startswith("-") else text


def power_of_ten(exponent: int) -> str:
    """10 to a whole number.

    Examples
    --------
    >>> power_of_ten(-3), power_of_ten(0), power_of_ten(-1)
    ('10⁻³', '1', '0.1')
    """
    return {-2: "0.01", -1: "0.1", 0: "1", 1: "10"}.get(exponent, "10" + str(exponent).translate(_SUPERSCRIPTS))


def ticks(top: float, count: int) -> list[float]:
    """About `count` round numbers from 0 to `top`.

    Examples
    --------
    >>> ticks(0.43, 5)
    [0.0, 0.1, 0.2, 0.3, 0.4]
    """
    if not 0.0 < top < math.inf:
        return [0.0]
    raw = top / count
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= raw)
    return [round(k * step, 12) for k in range(int(top / step * (1 + 1e-9)) + 1)]
