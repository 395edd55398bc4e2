"""exp(-|x|) and log(1 + exp(-|x|)) of blocks of numbers, in loops that compilers vectorise (calls of libm are not)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK = 256  # numbers at once: all buffers of a block stay in the first-level cache
_ROUND = 6755399441055744.0  # 1.5 * 2^52: a double's last bits are then its integer part
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has 21 zero bits at its end
_LARGEST = 700.0  # beyond it exp(-x) would leave the normal numbers; what is given up is below 1e-304
_EXPONENT_OF_ONE = 1023 << 52


@kernel
def softplus(gap: FloatArray, n: int, small: FloatArray, soft: FloatArray, power: FloatArray, power_bits: IntArray) -> None:
    """small = exp(-|gap|) and soft = log(1 + small) of the first `n` (at most BLOCK) numbers, to 1 and 3 units in the last place.

    `power` is a buffer of BLOCK numbers and `power_bits` the same memory as integers.

    Notes
    -----
    exp: |x| = m ln 2 - r with |r| <= ln 2 / 2, and e^r = 1 + r + r^2 p(r), p of degree 9 through Chebyshev nodes. log(1 + s) =
    2 artanh(s / (2 + s)), whose series in the square of its argument, at most 1/9, is replaced by a polynomial likewise.
    Both polynomials are summed in pairs, so that their operations do not wait for each other.
    """
    for k in range(n):
        size = abs(gap[k])
        size = _LARGEST if size > _LARGEST else size
        rounded = size * _LOG2_E + _ROUND
        power[k] = rounded
        m = rounded - _ROUND
        r = (m * _LN2_HIGH - size) + m * _LN2_LOW
        r2 = r * r
        r4 = r2 * r2
        p = (0.5000000000000001 + 0.16666666666666669 * r) + (0.04166666666662413 + 0.008333333333330062 * r) * r2
        p += ((0.0013888888917213717 + 0.00019841269863053618 * r) + (2.4801521295954376e-05 + 2.7557268459997064e-06 * r) * r2) * r4
        p += (2.7620088445409746e-07 + 2.510038549551032e-08 * r) * (r4 * r4)
        soft[k] = 1.0 + (r + r2 * p)
    for k in range(n):
        power_bits[k] = _EXPONENT_OF_ONE - (power_bits[k] << 52)  # the bits of 2^-m
    for k in range(n):
        s = soft[k] * power[k]
        small[k] = s
        u = s / (2.0 + s)
        w = u * u
        w2 = w * w
        w4 = w2 * w2
        p = (0.6666666666666666 + 0.40000000000014585 * w) + (0.2857142856710876 + 0.22222222717427864 * w) * w2
        p += ((0.18181789436132859 + 0.15385570064958623 * w) + (0.13314144209654935 + 0.12001072809590713 * w) * w2) * w4
        p += (0.08800738486144674 + 0.1616404561194353 * w) * (w4 * w4)
        soft[k] = 2.0 * u + u * w * p
