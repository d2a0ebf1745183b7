"""Logarithm, exponential and digamma out of sums, products and quotients alone, so that all machines agree.

Promise: the same bits for the same number wherever doubles are IEEE 754's: a system's own functions may differ from
machine to machine in the last bit, and these call none. Nothing is fused or reordered, for numba leaves floats as
they are written. Logarithm and exponential are within 4e-16 of the true value, relative to the larger of it and 1 (the
exponential: to itself); digamma is within 1e-10.

Cost: the logarithm some 15 ns, the exponential some 50 ns: each is taken once for a piece, not for a word.
"""

import math

from corpora.kernels.compiling import kernel

_LN2_HIGH = 0.6931471803691238  # ln 2 cut off after 32 bits: exact when multiplied by an exponent
_LN2_LOW = 1.9082149292705877e-10  # and what is missing
_HALF_ROOT = 0.7071067811865476


@kernel
def logarithm(x: float) -> float:
    """The natural logarithm of a positive normal number.

    With x = m 2^e and m about 1, ln m = 2 artanh((m - 1) / (m + 1)), whose series is s + s^3/3 + s^5/5 + ...
    """
    mantissa, exponent = math.frexp(x)
    if mantissa < _HALF_ROOT:
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = 0.0
    for odd in range(25, 1, -2):
        series = (series + 1.0 / odd) * square
    return exponent * _LN2_HIGH + (2.0 * s + (2.0 * s * series + exponent * _LN2_LOW))


@kernel
def exponential(x: float) -> float:
    """e to the power of x, for x from -700 to 700.

    With x = k ln 2 + r and r at most half of ln 2, e^r is Taylor's series.
    """
    k = math.floor(x / _LN2_HIGH + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    series = 1.0
    for term in range(14, 0, -1):
        series = 1.0 + series * r / term
    return math.ldexp(series, int(k))


@kernel
def digamma(x: float) -> float:
    """The derivative of ln(gamma(x)) for x above 0: by its recurrence up to 7, from there by its expansion.

    The expansion is that around x - 1/2 (its even powers have no neighbours), to the eighth power.
    """
    total = 0.0
    while x < 7.0:
        total -= 1.0 / x
        x += 1.0
    x -= 0.5
    inverse = 1.0 / (x * x)
    fourth = inverse * inverse
    total += logarithm(x) + inverse / 24.0 - 7.0 / 960.0 * fourth + 31.0 / 8064.0 * fourth * inverse
    return total - 127.0 / 30720.0 * fourth * fourth
