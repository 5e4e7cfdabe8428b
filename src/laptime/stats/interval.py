"""Estimates, always with an interval. Heats are the replicates; the scale is logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, isfinite, log, sqrt
from typing import Literal

from laptime.stats.student import t_quantile

Verdict = Literal["faster", "slower", "not distinguishable"]

_LARGEST_POWER = 709.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A positive estimate and how far the true value may be from it."""

    estimate: float
    low: float
    high: float

    def __post_init__(self) -> None:
        """Reject an interval that does not contain its own estimate."""
        if not 0 <= self.low <= self.estimate <= self.high:
            raise ValueError(f"an interval needs 0 <= low <= estimate <= high, not {self}")

    @property
    def half_width(self) -> float:
        """The relative half width on the logarithmic scale (0.05 is 5 %), to compare with a margin."""
        return sqrt(self.high / self.low) - 1 if self.low > 0 else inf


def log_mean_interval(values: Sequence[float], alpha: float) -> Interval:
    """Estimate a lane's typical value from one value per heat, by the geometric mean.

    One heat does not show the spread between heats, so its interval is everything above zero.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"an error rate between 0 and 1 is needed, not {alpha}")
    logs = [log(value) for value in _positive(values)]
    mean = fsum(logs) / len(logs)
    if len(logs) == 1:
        return Interval(float(values[0]), 0.0, inf)
    return interval_of_logs(mean, _standard_error(logs, mean) ** 2, len(logs) - 1, alpha)


def interval_of_logs(mean: float, variance: float, dof: float, alpha: float) -> Interval:
    """Return the interval of Student's t around a mean of logarithms that has this variance, back on the scale."""
    reach = -t_quantile(alpha / 2, dof) * sqrt(variance)
    middle = _power(mean)
    # The exponential may be off in its last digit. That must not put the estimate outside a tiny interval.
    return Interval(middle, min(middle, _power(mean - reach)), max(middle, _power(mean + reach)))


def mean_interval(values: Sequence[float], alpha: float) -> tuple[float, float, float]:
    """Return the mean of figures that may be negative, such as differences, and its interval: mean, low, high.

    One figure does not show a spread, so its interval is all there is.
    """
    if not values or not all(map(isfinite, values)):
        raise ValueError("a mean needs finite figures, at least one")
    mean = fsum(values) / len(values)
    if len(values) == 1:
        return mean, -inf, inf
    reach = -t_quantile(alpha / 2, len(values) - 1) * _standard_error(list(values), mean)
    return mean, mean - reach, mean + reach


def paired_ratio(lane: Sequence[float], reference: Sequence[float], alpha: float) -> Interval:
    """Estimate how many times faster a lane is than its reference, from times of heats of the same rounds.

    Both heats of a pair meet the same state of the machine, so a drift between rounds cancels in their ratio.
    """
    if len(lane) != len(reference):
        raise ValueError(f"heats come in pairs, not {len(lane)} of one lane and {len(reference)} of the other")
    pairs = zip(_positive(lane), _positive(reference), strict=True)
    return log_mean_interval([theirs / ours for ours, theirs in pairs], alpha)


def verdict(interval: Interval) -> Verdict:
    """Return what the interval of a ratio allows to conclude; an interval that includes 1 settles nothing."""
    if interval.low > 1:
        return "faster"
    if interval.high < 1:
        return "slower"
    return "not distinguishable"


def _positive(values: Sequence[float]) -> Sequence[float]:
    """Reject values that no clock can have measured, or that have no logarithm."""
    if len(values) == 0:
        raise ValueError("no heats: an estimate needs at least one")
    if not all(isfinite(value) and value > 0 for value in values):
        raise ValueError("only positive, finite values have a mean on the logarithmic scale")
    return values


def _standard_error(logs: list[float], mean: float) -> float:
    """Return the standard error of the mean, from the spread between the heats."""
    squares = fsum((value - mean) ** 2 for value in logs)
    return sqrt(squares / (len(logs) - 1) / len(logs))


def _power(exponent: float) -> float:
    """Return the exponential; beyond the largest float the bound is infinite, not an error."""
    return exp(exponent) if exponent < _LARGEST_POWER else inf
