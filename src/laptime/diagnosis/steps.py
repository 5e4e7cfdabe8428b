"""What the times of single steps and windows tell by themselves: long steps at even distances, a slow beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from laptime.analysis.heats import mean_step_ms, steady_windows, step_ms
from laptime.model.record import HeatResult, LaneResult
from laptime.model.sample import Window
from laptime.stats import median

LONG = 2.0  # usual steps that a long one takes at least; and a mean step, where most take next to nothing
NEIGHBOURS = 2  # a pause may fall into two steps that follow each other: it is one
APART_LEAST = 5  # steps; nearer to each other they are the beat of a loader's workers, as up to a burst of theirs
DISTANCES_LEAST = 3  # two may be alike by chance
EVEN_SHARE = 0.7  # of all distances are alike
EVEN = 0.1


@dataclass(frozen=True, slots=True)
class Pauses:
    """Steps that take far longer than the others, at even distances: what is done at a lap's end, or every so often.

    `share` is what they take beyond a usual step, of all the time; `every` how many steps lie from one to the next,
    and `pause_ms` how long one is.
    """

    share: float
    every: float
    pause_ms: float
    count: int


def find_pauses(lane: LaneResult) -> Pauses | None:
    """Find the even ones: what comes by chance is noise, and a loader's beat is nearer."""
    series = [steps for heat in finished(lane) for steps in runs_ns(heat)]
    if not series:
        return None
    usual = median([step for steps in series for step in steps])
    least = max(LONG * usual, sum(map(sum, series)) / sum(map(len, series)))
    places = [_places(steps, least) for steps in series]
    distances = [after - before for heat in places for before, after in pairwise(heat)]
    if len(distances) < DISTANCES_LEAST:
        return None
    every = median(distances)
    alike = sum(abs(each - every) <= max(1.0, EVEN * every) for each in distances)
    if (
        every < APART_LEAST
        or any(every <= (heat.burst or 0) for heat in finished(lane))
        or alike < EVEN_SHARE * len(distances)
    ):
        return None
    beyond = sum(step - usual for steps in series for step in steps if step > least)
    count = sum(map(len, places))
    return Pauses(beyond / sum(map(sum, series)), every, beyond / count / 1e6, count)


def long_share(lane: LaneResult) -> float | None:
    """Give the share of the time that all long steps take beyond a usual one, even or not."""
    steps = [step for heat in finished(lane) for step in steps_ns(heat)]
    if not steps:
        return None
    usual = median(steps)
    return sum(step - usual for step in steps if step > LONG * usual) / sum(steps)


def steps_ns(heat: HeatResult) -> tuple[int, ...]:
    """Give all steps from the first window that counts on, one after another; nothing where they were not timed."""
    return tuple(chain.from_iterable(runs_ns(heat)))


def runs_ns(heat: HeatResult) -> list[tuple[int, ...]]:
    """Give the same in runs within which no step is missing: of a window of thousands only the beginning is there."""
    runs: list[tuple[int, ...]] = []
    joins = False
    for window in heat.windows[heat.steady_from :]:
        if joins:
            runs[-1] += window.step_ns
        elif window.step_ns:
            runs.append(window.step_ns)
        joins = bool(runs) and len(window.step_ns) == window.steps
    return runs


def mean_ms(lane: LaneResult) -> float | None:
    """Give the mean step, which has the long ones in it; a median of windows may leave them out."""
    means = [mean_step_ms(heat) for heat in finished(lane)]
    return median(means) if means else None


def slow_starts(lane: LaneResult) -> list[float]:
    """Give for each heat how many times as long a step took in its first window as in those that count.

    It is each window's middle step: whether a pause at a lap's end fell into the first one is chance.
    """
    heats = [heat for heat in finished(lane) if heat.step_ms]
    told = [(_usual_ms(heat, heat.windows[:1]), _usual_ms(heat, steady_windows(heat))) for heat in heats]
    return [first / later for first, later in told if later > 0]


def _usual_ms(heat: HeatResult, windows: tuple[Window, ...]) -> float:
    """Give the windows' middle step; of one that a loader gives in bursts the middle is no step at all."""
    if heat.burst is not None:
        return median([*map(step_ms, windows)])
    return median([median(window.step_ns) / 1e6 if window.step_ns else step_ms(window) for window in windows])


def windows_apart(lane: LaneResult, is_disturbed: Callable[[Window], bool | None]) -> list[float]:
    """Give for each heat how many times as long a step takes in disturbed windows as in its quiet ones.

    A heat that has windows of one kind only tells nothing. A disturbance changes the level, so those before the level
    that counts are looked at, too, unless the heat was warming up there.
    """
    told = []
    for heat in finished(lane):
        sides: dict[bool, list[float]] = {True: [], False: []}
        for window in heat.windows[heat.steady_from if heat.steady == "warm-up" else 0 :]:
            side = is_disturbed(window)
            if side is not None:
                sides[side].append(step_ms(window))
        if sides[True] and sides[False]:
            told.append(median(sides[True]) / median(sides[False]))
    return told


def others_cores(lane: LaneResult) -> float | None:
    """Give how many cores other processes took in the middle one of all windows that count."""
    told = [other for heat in finished(lane) for other in map(others_in, steady_windows(heat)) if other is not None]
    return median(told) if told else None


def others_in(window: Window) -> float | None:
    other = window.noise.other_cores if window.noise is not None else None
    return other if isinstance(other, float | int) else None


def finished(lane: LaneResult) -> list[HeatResult]:
    return [heat for heat in lane.heats if heat.status == "ok" and heat.windows]


def _places(steps: Sequence[int], least: float) -> list[int]:
    """Give where long steps are, those that follow each other once."""
    places: list[int] = []
    for place in _long(steps, least):
        if not places or place - places[-1] >= NEIGHBOURS:
            places.append(place)
    return places


def _long(steps: Sequence[int], least: float) -> Iterable[int]:
    return (place for place, step in enumerate(steps) if step > least)
