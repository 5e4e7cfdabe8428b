"""One figure across the heats or trainings of a lane: with its interval, or with the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from laptime.model.missing import Missing
from laptime.model.record import Estimate
from laptime.stats import Interval, log_mean_interval, median

ALPHA = 0.05
START_PHASES = ("start", "import", "build")
ONE_HEAT = Missing("one heat alone gives no interval")
ONE_TRAINING = Missing("one training of each gives no interval")
NOT_ASKED = Missing("not asked of this figure")


def estimate(
    values: Sequence[float], *, p95: float | Missing = NOT_ASKED, alone: Missing = ONE_HEAT
) -> Estimate | None:
    """Estimate a figure from one value per heat, since the steps of one heat are not independent; None if empty."""
    if not values:
        return None
    interval = log_mean_interval(values, ALPHA)
    return Estimate(interval.estimate, *bounds(interval, alone), p95)


def bounds(interval: Interval, alone: Missing = ONE_HEAT) -> tuple[float | Missing, float | Missing]:
    """Return an interval's ends, or `alone` for both where one value alone has no interval."""
    return (interval.low, interval.high) if interval.low > 0 else (alone, alone)


def rate(step_ms: Estimate | None, items: int | None) -> Estimate | None:
    """Return items per second, for a step of `items` items."""
    if step_ms is None or items is None:
        return None
    high, low = (end if isinstance(end, Missing) else items * 1e3 / end for end in (step_ms.low, step_ms.high))
    return Estimate(items * 1e3 / step_ms.median, low, high)


def scaled(figure: Estimate, factor: float, more: float = 0.0) -> Estimate:
    """Return the figure times `factor`, plus `more`, which is known without an interval."""
    low, high = (end if isinstance(end, Missing) else end * factor + more for end in (figure.low, figure.high))
    return Estimate(figure.median * factor + more, low, high)


def middle(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


def largest(values: Iterable[int | Missing], nothing: str) -> int | Missing:
    """Return the largest value, or why there is none; `nothing` is the reason where there are no values at all."""
    seen = list(values)
    numbers = [value for value in seen if not isinstance(value, Missing)]
    return max(numbers) if numbers else next(iter(seen), Missing(nothing))


def most_memory(own: int | Missing, seen: float | Missing) -> int | Missing:
    """Return the larger of a process's own high-water mark and of the most that all its processes held at one reading.

    The mark covers moments between two readings; the readings cover the processes of a loader.
    """
    if isinstance(seen, Missing):
        return own
    return round(seen) if isinstance(own, Missing) else max(own, round(seen))


def startup_s(phases_s: Mapping[str, float]) -> float | None:
    """Return the time from starting the process to the first step, without the proof: a training has none."""
    return sum(phases_s.get(name, 0.0) for name in START_PHASES) if phases_s else None
