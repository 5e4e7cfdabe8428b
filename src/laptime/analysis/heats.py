"""One heat's windows -> its class, those that count, and the mean step of these; two heats -> their ratio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log
from statistics import variance

from laptime.model.missing import Missing
from laptime.model.record import Estimate, HeatResult, LaneResult, SameSteps
from laptime.model.sample import Heat, Window
from laptime.stats import Interval, find_steady, log_mean_interval, median

QUIET_LEAST = 3
DRIFT_ERRORS = 3.0  # standard errors
DRIFTS = 0.05  # a lane's steps change with their number if the later half takes this much longer, or less
DUETS_LEAST = 2


def summarise_heat(heat: Heat, counted: tuple[int, ...] | None = None) -> HeatResult:
    """Return a heat with what its windows show. `counted` are those that count next to the heats of other lanes."""
    counts = _counted_alone(heat) if counted is None else counted
    usable = [heat.windows[place] for place in counts]
    return HeatResult(
        heat,
        steady=find_steady([step_ms(window) for window in quiet_windows(heat.windows)]).kind,
        steady_from=counts[0] if counts else 0,
        step_ms=mean_step_ms(usable) if usable and heat.process.status == "ok" else None,
        counted=counts,
    )


def _counted_alone(heat: Heat) -> tuple[int, ...]:
    """Return the windows that count in a heat that no other lane was timed with: the quiet ones of its steady part."""
    quiet = quiet_windows(heat.windows)
    start = find_steady([step_ms(window) for window in quiet]).start
    return tuple(heat.windows.index(window) for window in quiet[start:])


def quiet_windows(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    """Leave out disturbed windows, if enough undisturbed ones are left.

    Otherwise keep all windows except those in which the heat was halted, whose time means nothing.
    """
    quiet = tuple(window for window in windows if window.flag is None)
    if len(quiet) >= QUIET_LEAST:
        return quiet
    return tuple(window for window in windows if window.noise is None or window.noise.halted is None) or windows


def steady_windows(result: HeatResult) -> tuple[Window, ...]:
    """Return the windows that count. A record from before these were kept has the first of them."""
    if result.counted is not None:
        return tuple(result.heat.windows[place] for place in result.counted)
    start_ns = result.heat.windows[result.steady_from].start_ns if result.heat.windows else 0
    return tuple(window for window in quiet_windows(result.heat.windows) if window.start_ns >= start_ns)


def step_ms(window: Window) -> float:
    """Return a window's mean step, from fence to fence, so that it includes everything."""
    return (window.end_ns - window.start_ns) / window.steps / 1e6


def pairs_of_heats(heats: Sequence[HeatResult], others: Sequence[HeatResult]) -> list[tuple[HeatResult, HeatResult]]:
    """Return the heats that both lanes finished in the same round: those that took turns, if there are at least two.

    Two heats one after another differ by what the machine did meanwhile.
    """
    theirs = {result.heat.round: result for result in others if result.step_ms is not None}
    ours = [result for result in heats if result.step_ms is not None and result.heat.round in theirs]
    pairs = [(result, theirs[result.heat.round]) for result in sorted(ours, key=lambda each: each.heat.round)]
    duets = [pair for pair in pairs if took_turns(*pair)]
    return duets if len(duets) >= DUETS_LEAST else pairs


def took_turns(heat: HeatResult, other: HeatResult) -> bool:
    """Whether two heats of a round were alive at once and took turns."""
    return all(each.heat.windows and each.heat.windows[0].turn is not None for each in (heat, other))


def step_ratio(heat: HeatResult, reference: HeatResult) -> float:
    """Return how many times as long a step of the reference takes as one of the heat.

    Where they took turns, both count the same turns: these met the same state of the machine, and held the same steps.
    """
    assert heat.step_ms is not None
    assert reference.step_ms is not None
    return reference.step_ms / heat.step_ms


def compare_steps(pairs: Sequence[tuple[HeatResult, HeatResult]]) -> SameSteps:
    """Return whether the heats of all pairs count the same steps or, where not, whether the number matters.

    A card takes 300 steps while a processor takes one. Then the time of its steps must not depend on their number.
    """
    heats = [heat for pair in pairs for heat in pair]
    if any(window.first_step is None for heat in heats for window in steady_windows(heat)):
        return "not known"
    if all(counted_steps(one) == counted_steps(other) for one, other in pairs):
        return "same"
    return "other" if any(_drifts([*map(_drift_of, side)]) for side in zip(*pairs, strict=True)) else "alike"


def counted_steps(heat: HeatResult) -> tuple[int, int] | None:
    """Return the first and the last step that count; None where none do."""
    steps = [steps_of(window) for window in steady_windows(heat)]
    return (steps[0].start, steps[-1].stop - 1) if steps and steps[0] else None


def _drifts(logs: Sequence[float]) -> bool:
    """Whether the steps of a lane change with their number, by more than its heats differ by chance."""
    mean = sum(logs) / len(logs)
    error = (variance(logs) / len(logs)) ** 0.5 if len(logs) > 1 else DRIFTS
    return abs(mean) > max(DRIFTS, DRIFT_ERRORS * error)


def _drift_of(heat: HeatResult) -> float:
    """Return the logarithm of how many times as long the later half of a heat's steps takes."""
    windows = steady_windows(heat)
    half = len(windows) // 2
    return log(mean_step_ms(windows[half:]) / mean_step_ms(windows[:half])) if half else 0.0


def noise_of_ratio(heat: HeatResult, reference: HeatResult) -> float:
    """Return the variance of the logarithm of their ratio, by how much the ratios of single turns differ; 0 without."""
    ours, theirs = windows_by_turn(heat), windows_by_turn(reference)
    logs = [log(step_ms(theirs[each]) / step_ms(ours[each])) for each in sorted(ours.keys() & theirs.keys())]
    return variance(logs) / len(logs) if len(logs) >= QUIET_LEAST else 0.0


def windows_by_turn(heat: HeatResult) -> dict[int, Window]:
    """Return the windows that count, by the turns in which they were run."""
    return {window.turn: window for window in steady_windows(heat) if window.turn is not None}


def steps_of(window: Window) -> range:
    """Return the numbers of a window's steps. A record from before these were noted has none."""
    return range(0) if window.first_step is None else range(window.first_step, window.first_step + window.steps)


def mean_step_ms(windows: Sequence[Window]) -> float:
    """Return the mean step of some windows in milliseconds, each window weighted by its steps."""
    return sum(window.end_ns - window.start_ns for window in windows) / sum(window.steps for window in windows) / 1e6


# One figure across the heats or trainings of a lane: with its interval, or with the reason why it has none.

ALPHA = 0.05
START_PHASES = ("start", "import", "build")
ONE_ROUND = Missing("one round alone gives no interval")
ONE_HEAT = Missing("one heat alone gives no interval")
ONE_TRAINING = Missing("one training of each gives no interval")
NOT_ASKED_OF_FIGURE = Missing("not asked of this figure")


def estimate(
    values: Sequence[float], *, p95: float | Missing = NOT_ASKED_OF_FIGURE, alone: Missing = ONE_HEAT
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


# Memory that lanes held at some batches -> what one would hold at another.

GROWS = 1.2  # times the memory at half of the batch or less: one that grows less says nothing of larger batches
LARGEST_BATCH = 1_000_000
HeldBefore = Callable[[int], int]
"""Returns what the shapes of a network hold at a batch."""


def memory_of(lane: LaneResult) -> int | Missing:
    """Return the most memory that a lane held where it computes: on a processor, that of its process."""
    return lane.peak_memory_bytes if lane.device.kind == "cpu" else lane.device_memory_bytes


def estimate_memory(batch: int, peaks: Mapping[int, int], shapes: HeldBefore | Missing) -> int | Missing:
    """Return what a lane would hold: the peak at the nearest batch that ran, and how much more the shapes hold.

    Where the shapes are not known, it is on the line through the peaks of the two largest batches.
    """
    if isinstance(shapes, Missing):
        return _on_line(batch, peaks)
    if not peaks:
        return Missing("no batch of this lane has run")
    near = min(peaks, key=lambda each: abs(each - batch))
    return max(0, peaks[near] + shapes(batch) - shapes(near))


def _on_line(batch: int, peaks: Mapping[int, int]) -> int | Missing:
    if len(peaks) < 2:
        return Missing("fewer than two batches of this lane have run")
    small, large = sorted(peaks)[-2:]
    if peaks[large] < GROWS * peaks[small]:
        return Missing(f"its memory hardly grows from batch {small:,} to {large:,}")
    return round(peaks[large] + (peaks[large] - peaks[small]) * (batch - large) / (large - small))


def find_largest_batch(room_bytes: int, estimate: Callable[[int], int | Missing]) -> int | None:
    """Return the largest batch that fits by its estimate; None if there are no estimates, or not even one item fits."""
    fits, fails = 0, LARGEST_BATCH
    while fails - fits > 1:
        batch = (fits + fails) // 2
        needed = estimate(batch)
        if isinstance(needed, Missing):
            return None
        fits, fails = (batch, fails) if needed <= room_bytes else (fits, batch)
    return fits or None
