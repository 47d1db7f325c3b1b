"""exp and log1p as short polynomials, which compilers turn into vector code; the library versions are calls, one number at a time.

Errors are below 1e-15 relative. With the compiler switched off the functions of ``math`` serve.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from saddlery.parts import JIT_DISABLED, kernel

__all__ = ["decaying_exp", "entropy_term", "log_of_rest", "unit_log1p"]

_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # the first has zeros at the end: products with integers are exact
_TO_SQRT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)  # between the bits of 1 and of sqrt(1/2)
_WHOLE = np.uint64(0x4330000000000000)  # the bits of 2^52: a small integer in its last bits is added to it
_ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to the nearest integer and leaves that in the last bits


@intrinsic
def _bits_of(typingctx, value):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@intrinsic
def _number_of(typingctx, bits):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@kernel(inline=True)
def _decaying_exp(x):
    """exp(x) for x <= 0 as 2^k exp(r) with |r| <= ln 2 / 2, a Taylor polynomial of degree 13; below -708 it stays at exp(-708)."""
    x = x if x > -708.0 else -708.0  # max() would branch to tell NaN apart
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r * (1.0 / 6227020800.0))
    p = 1.0 / 40320.0 + r * (1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * p))
    p = 1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0 + r * p))
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * p))))
    return p * _number_of((_bits_of(shifted) + np.int64(1023)) << np.int64(52))  # type: ignore[call-arg]


@kernel(inline=True)
def _atanh(s):
    """atanh(s) for |s| <= 1/3: the series s + s^3 / 3 + s^5 / 5 + ..."""
    q = s * s
    p = 1.0 / 27.0 + q * (1.0 / 29.0 + q * (1.0 / 31.0 + q * (1.0 / 33.0)))
    p = 1.0 / 19.0 + q * (1.0 / 21.0 + q * (1.0 / 23.0 + q * (1.0 / 25.0 + q * p)))
    p = 1.0 / 11.0 + q * (1.0 / 13.0 + q * (1.0 / 15.0 + q * (1.0 / 17.0 + q * p)))
    p = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q * p))))
    return s * p


@kernel(inline=True)
def _unit_log1p(e):
    """log(1 + e) for 0 <= e <= 1 as 2 atanh(e / (2 + e))."""
    return 2.0 * _atanh(e / (2.0 + e))


@kernel(inline=True)
def _log_of_rest(q):
    """log(1 - q) for 0 <= q <= 1/2 as -2 atanh(q / (2 - q)), exact where q is tiny."""
    return -2.0 * _atanh(q / (2.0 - q))


@kernel(inline=True)
def _entropy_term(p):
    """p log p for 0 <= p <= 1, 0 at 0: log p = k ln 2 + 2 atanh((m - 1) / (m + 1)), p = 2^k m, sqrt(1/2) <= m < sqrt(2)."""
    bits = np.uint64(_bits_of(p if p > 1e-300 else 1e-300))  # type: ignore[call-arg]
    biased = (bits + _TO_SQRT_HALF) >> np.uint64(52)  # k + 1023; unsigned, because only that shift exists in vectors
    k = _number_of(np.int64(biased | _WHOLE)) - 4503599627371519.0  # type: ignore[call-arg]
    m = _number_of(np.int64(bits - ((biased - np.uint64(1023)) << np.uint64(52))))  # type: ignore[call-arg]
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    t = 1.0 / 15.0 + q * (1.0 / 17.0 + q * (1.0 / 19.0 + q * (1.0 / 21.0 + q * (1.0 / 23.0))))
    t = 1.0 / 7.0 + q * (1.0 / 9.0 + q * (1.0 / 11.0 + q * (1.0 / 13.0 + q * t)))
    t = 1.0 + q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * t))
    return p * (k * _LN2_HIGH + (2.0 * s * t + k * _LN2_LOW))


def _plain_entropy_term(p: float) -> float:
    return p * math.log(p) if p > 0.0 else 0.0


def _plain_log_of_rest(q: float) -> float:
    return math.log1p(-q)


decaying_exp = math.exp if JIT_DISABLED else _decaying_exp
unit_log1p = math.log1p if JIT_DISABLED else _unit_log1p
entropy_term = _plain_entropy_term if JIT_DISABLED else _entropy_term
log_of_rest = _plain_log_of_rest if JIT_DISABLED else _log_of_rest
