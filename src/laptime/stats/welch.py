"""Whether two small samples have different means, without the assumption of equal variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, inf, sqrt

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
    # By shares of the error, not by its squares: the squares of very small errors underflow to 0.
    dof = 1 / ((error_a / error) ** 2 / (len(one) - 1) + (error_b / error) ** 2 / (len(other) - 1))
    return Welch(distance / sqrt(error), -t_quantile(alpha / 2, max(dof, 1.0)))


def _mean_and_squared_error(values: Sequence[float]) -> tuple[float, float]:
    mean = fsum(values) / len(values)
    return mean, fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
