"""Quantiles of Student's t, so that an interval over a few heats does not need scipy."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import erfc, exp, hypot, isfinite, lgamma, log, sqrt

_LARGE_DOF = 1e6
_TINY = 1e-300
# No probability that a float can hold is closer to one half than exp(-45); exp(709) is the largest power.
_LOG_RANGE = (-45.0, 709.0)


@lru_cache(maxsize=1024)
def t_quantile(p: float, dof: float) -> float:
    """Return the value that Student's t with `dof` degrees of freedom stays below with probability `p`."""
    if not 0 < p < 1:
        raise ValueError(f"a probability between 0 and 1 is needed, not {p}")
    if not (isfinite(dof) and dof >= 1):
        raise ValueError(f"at least one degree of freedom is needed, and finitely many, not {dof}")
    if p < 0.5:
        return -_upper_quantile(p, dof)
    return _upper_quantile(1 - p, dof)


def _upper_quantile(tail: float, dof: float) -> float:
    """Solve for t >= 0 with `tail` above it, by the centre or by the tail, whichever avoids cancellation."""
    if tail == 0.5:
        return 0.0
    if dof > _LARGE_DOF:
        z = _solve_rising(lambda x: -erfc(x / sqrt(2)) / 2, -tail)
        # First term of the Cornish-Fisher expansion; the next is of the order of z**4 / dof**2.
        return z + (z**3 + z) / (4 * dof)
    if tail < 0.25:
        return _solve_rising(lambda t: -_upper_tail(t, dof), -tail)
    return _solve_rising(lambda t: _centre(t, dof), 0.5 - tail)


def _solve_rising(function: Callable[[float], float], target: float) -> float:
    """Find where a rising function meets `target`, by bisection on the log scale, which always converges."""
    low, high = _LOG_RANGE
    while high - low > 1e-12 * max(1.0, abs(low)):
        middle = (low + high) / 2
        if function(exp(middle)) < target:
            low = middle
        else:
            high = middle
    return exp((low + high) / 2)


def _upper_tail(t: float, dof: float) -> float:
    """Return P(T > t) for t > 0."""
    log_inside, log_outside = _log_shares(t, dof)
    return _incomplete_beta(dof / 2, 0.5, log_outside, log_inside) / 2


def _centre(t: float, dof: float) -> float:
    """Return P(0 < T < t) for t > 0; when t is small, the tail cannot be distinguished from one half."""
    log_inside, log_outside = _log_shares(t, dof)
    return _incomplete_beta(0.5, dof / 2, log_inside, log_outside) / 2


def _log_shares(t: float, dof: float) -> tuple[float, float]:
    """Return the logarithms of t^2 / (dof + t^2) and dof / (dof + t^2) without squaring a huge t."""
    scaled = t / sqrt(dof)
    length = hypot(1.0, scaled)
    return 2 * log(scaled / length), -2 * log(length)


def _incomplete_beta(a: float, b: float, log_x: float, log_rest: float) -> float:
    """Return the regularised I_x(a, b), from log x and log(1 - x), on the side where its fraction converges fast."""
    log_front = a * log_x + b * log_rest + lgamma(a + b) - lgamma(a) - lgamma(b)
    x = exp(log_x)
    if x < (a + 1) / (a + b + 2):
        return exp(log_front) * _beta_fraction(a, b, x) / a
    return 1 - exp(log_front) * _beta_fraction(b, a, exp(log_rest)) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Sum the continued fraction of the incomplete beta function (DLMF 8.17.22) by Lentz's method."""
    ratio = 1.0
    inverse = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = inverse
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            inverse = 1 / _away_from_zero(1 + term * inverse)
            ratio = _away_from_zero(1 + term / ratio)
            value *= inverse * ratio
        if abs(inverse * ratio - 1) < 1e-14:
            break
    return value


def _away_from_zero(value: float) -> float:
    """Replace a vanishing denominator, as Lentz's method requires."""
    return value if abs(value) > _TINY else _TINY
