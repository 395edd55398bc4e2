"""The normal distribution and its expected improvement, scalar kernels.

``EI_s(z) = E[max(0, z + s Z)] = z Phi(z / s) + s phi(z / s)`` is the value of looking once before deciding; its
inverse is the root of a chain's last stage and bounds the roots of all others.
"""

from __future__ import annotations

import math

from lrgittins._numba import kernel

_INV_SQRT_2PI = 0.3989422804014327
_LOG_SQRT_2PI = 0.9189385332046727
_INV_SQRT_2 = 0.7071067811865476
# z Phi + phi loses z^2 units in the last place to cancellation: down to here that is cheaper than the continued fraction.
_TAIL = -4.0
# Above this ratio c / s the inverse is c to the last bit (EI(-40) < 1e-350).
_LINEAR = 40.0


@kernel
def normal_pdf(x: float) -> float:
    """phi(x), the standard normal density."""
    return _INV_SQRT_2PI * math.exp(-0.5 * x * x)


@kernel
def normal_cdf(x: float) -> float:
    """Phi(x), with full relative accuracy in the left tail."""
    return 0.5 * math.erfc(-x * _INV_SQRT_2)


@kernel
def _tail_fraction(x: float) -> float:
    """K(x) = 1/(x + 2/(x + 3/(x + ...))), x > 0: Mills' ratio is 1/(x + K), and EI(-x) = phi(x) K/(x + K)."""
    n_terms = 12 + int(500.0 / (x * x))  # measured: below 1e-15 for x >= 2
    tail = x
    for term in range(n_terms, 1, -1):
        tail = x + term / tail
    return 1.0 / tail


@kernel
def expected_improvement(z: float, s: float) -> float:
    """EI_s(z), with full relative accuracy in the left tail; max(z, 0) for s = 0."""
    if s <= 0.0:
        return max(z, 0.0)
    u = z / s
    if u >= _TAIL:
        return z * normal_cdf(u) + s * normal_pdf(u)
    fraction = _tail_fraction(-u)
    return s * normal_pdf(u) * fraction / (fraction - u)


@kernel
def log_expected_improvement(u: float) -> float:
    """Log of EI_1(u); finite where EI itself underflows."""
    if u >= _TAIL:
        return math.log(u * normal_cdf(u) + normal_pdf(u))
    fraction = _tail_fraction(-u)
    return -0.5 * u * u - _LOG_SQRT_2PI + math.log(fraction / (fraction - u))


@kernel
def inverse_expected_improvement(value: float, s: float) -> float:
    """The z with EI_s(z) = value: Newton on the logarithm, whose concavity makes it monotone after one step.

    -inf for value 0; `value` itself for s = 0 or where EI is linear to the last bit.
    """
    if value <= 0.0:
        return -math.inf
    if s <= 0.0 or value > _LINEAR * s:
        return value
    target = value / s
    if target <= 0.0:  # the quotient underflowed: s is enormous
        target = 5e-324
    log_target = math.log(target)
    if target > 0.4:
        u = target - math.exp(-2.0 * target)
    else:
        # EI(u) ~ phi(u)/u^2 far left; the shift keeps the start finite near u = 0.
        x = math.sqrt(max(0.0, -2.0 * (log_target + _LOG_SQRT_2PI)))
        u = -math.sqrt(max(0.0, x * x - 4.0 * math.log(max(x, 1.0)))) if x > 2.5 else -0.7 * x
    for _ in range(60):
        if u >= _TAIL:
            probability = normal_cdf(u)
            improvement = u * probability + normal_pdf(u)
            step = (log_target - math.log(improvement)) * improvement / probability
        else:
            fraction = _tail_fraction(-u)
            log_improvement = -0.5 * u * u - _LOG_SQRT_2PI + math.log(fraction / (fraction - u))
            step = (log_target - log_improvement) * fraction  # d log EI / du = 1 / K
        u += step
        if abs(step) <= 1e-9 * (1.0 + abs(u)):  # quadratic: the next step would be below rounding
            break
    return min(u * s, value)  # EI_s(z) >= z, also in the last bit
