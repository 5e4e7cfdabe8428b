"""One figure across the heats or trainings of a lane: with its interval, or with the reason why there is none."""

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
    """Take one value a heat, since the steps of one heat are not independent; none at all give no figure."""
    if not values:
        return None
    interval = log_mean_interval(values, ALPHA)
    return Estimate(interval.estimate, *bounds(interval, alone), p95)


def bounds(interval: Interval, alone: Missing = ONE_HEAT) -> tuple[float | Missing, float | Missing]:
    """Give an interval's ends, or say that one value alone has none."""
    return (interval.low, interval.high) if interval.low > 0 else (alone, alone)


def rate(step_ms: Estimate | None, items: int | None) -> Estimate | None:
    """Give items per second, for a step of so many items."""
    if step_ms is None or items is None:
        return None
    high, low = (end if isinstance(end, Missing) else items * 1e3 / end for end in (step_ms.low, step_ms.high))
    return Estimate(items * 1e3 / step_ms.median, low, high)


def scaled(figure: Estimate, factor: float, more: float = 0.0) -> Estimate:
    """Give so many times the figure, and some more that is known without an interval."""
    low, high = (end if isinstance(end, Missing) else end * factor + more for end in (figure.low, figure.high))
    return Estimate(figure.median * factor + more, low, high)


def middle(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


def largest(values: Iterable[int | Missing], nothing: str) -> int | Missing:
    """Give the largest, or why there is none; `nothing` says why where there is not even a reason."""
    seen = list(values)
    numbers = [value for value in seen if not isinstance(value, Missing)]
    return max(numbers) if numbers else next(iter(seen), Missing(nothing))


def startup_s(phases_s: Mapping[str, float]) -> float | None:
    """Give the time from starting the process to the first step, the proof left out: a training has none."""
    return sum(phases_s.get(name, 0.0) for name in START_PHASES) if phases_s else None
