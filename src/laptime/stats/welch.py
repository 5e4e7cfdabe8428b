"""Whether two small samples have different means, and by what factor, without the assumption of equal variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, log, sqrt

from laptime.stats.interval import Interval
from laptime.stats.student import t_quantile


@dataclass(frozen=True, slots=True)
class Welch:
    """Welch's t of two samples, and how large it may be by chance."""

    t: float
    allowed: float

    @property
    def differs(self) -> bool:
        return self.t > self.allowed


def welch(one: Sequence[float], other: Sequence[float], alpha: float) -> Welch:
    """Compare the means of two samples of at least two values each, at the error rate `alpha`."""
    if min(len(one), len(other)) < 2:
        raise ValueError("a sample of one value has no spread to hold a difference against")
    (mean_a, error_a), (mean_b, error_b) = _mean_and_squared_error(one), _mean_and_squared_error(other)
    distance, error = abs(mean_a - mean_b), error_a + error_b
    if error == 0:
        return Welch(inf if distance > 0 else 0.0, 0.0)
    return Welch(distance / sqrt(error), _allowed((error_a, len(one)), (error_b, len(other)), alpha))


def unpaired_ratio(one: Sequence[float], other: Sequence[float], alpha: float) -> Interval:
    """Estimate the ratio of two samples of positive values that do not come in pairs, by their geometric means.

    A sample of one value shows no spread, so the interval is then everything above zero.
    """
    logs_a, logs_b = ([log(value) for value in values] for values in (one, other))
    if min(len(one), len(other)) < 2:
        return Interval(exp(fsum(logs_a) / len(one) - fsum(logs_b) / len(other)), 0.0, inf)
    (mean_a, error_a), (mean_b, error_b) = _mean_and_squared_error(logs_a), _mean_and_squared_error(logs_b)
    middle, error = exp(mean_a - mean_b), error_a + error_b
    if error == 0:
        return Interval(middle, middle, middle)
    reach = _allowed((error_a, len(one)), (error_b, len(other)), alpha) * sqrt(error)
    return Interval(middle, min(middle, exp(mean_a - mean_b - reach)), max(middle, exp(mean_a - mean_b + reach)))


def _allowed(one: tuple[float, int], other: tuple[float, int], alpha: float) -> float:
    """Return how large t may be by chance, by the squared error of each mean and the size of each sample.

    By shares of the error, not by its squares: the squares of very small errors underflow to 0.
    """
    (error_a, count_a), (error_b, count_b) = one, other
    error = error_a + error_b
    dof = 1 / ((error_a / error) ** 2 / (count_a - 1) + (error_b / error) ** 2 / (count_b - 1))
    return -t_quantile(alpha / 2, max(dof, 1.0))


def _mean_and_squared_error(values: Sequence[float]) -> tuple[float, float]:
    mean = fsum(values) / len(values)
    return mean, fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
