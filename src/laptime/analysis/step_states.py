"""Step times that depend on the step's number, alike in several heats: a state of the training that costs time.

Numbers become denormal, sequences grow, a list gets longer. That is the lane's own doing, and no noise. Noise is not at
the same steps in every heat: a slow spell of the machine, a garbage collection. Single slow steps at the same numbers
(the end of a lap, a loader's bursts) are pauses, and a slow start is a warm-up: neither is a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, comb, sqrt

from laptime.model.protocol import LapResult
from laptime.model.record import LaneResult
from laptime.model.sample import MACHINE_SLOW, Heat
from laptime.model.script import TrainingLoop
from laptime.model.stats import median

SLOWER = 1.25  # times a step before; less may be a clock that falls
CLEAR = 1.1  # times the slower ones of the steps before
SERIES_MOST = 256  # of a series; more steps are taken together
STEPS_AROUND = 2  # steps on each side: their median leaves out single slow steps
FEWEST = 3  # steps before, and as many after
LASTS = 0.1  # of the steps: a shorter state at the end may be chance
RETURNS_SHARE = 0.15  # of the steps, for one that ends again
RETURNS_LEAST = 8  # steps
STATE_SLOW_SHARE = 0.9  # of the steps of a state are slow
NEAR_POINTS = 20  # points, within which the first step of a state is looked for
AGREE = 2 / 3  # of the heats that came as far
STATE_HEATS_LEAST = 2
TIMINGS_ENOUGH = 12  # of a heat, in which slow ones hardly meet by chance
CHANCE_MOST = 0.004

StepSeries = Mapping[int, float]  # by the number of a step: its time


@dataclass(frozen=True, slots=True)
class StateChange:
    """From step `step` on (up to `until`, where it ends again) a step takes `times_low` to `times_high` times as long.

    `share` is the part of all the time that this adds. It is alike in `agree` of the `heats` that came as far.
    """

    step: int
    until: int | None
    times_low: float
    times_high: float
    share: float
    agree: int
    heats: int

    @property
    def is_sure(self) -> bool:
        """Whether several heats show it: a single one may have met another process."""
        return self.agree >= STATE_HEATS_LEAST


def find_lane_state(lane: LaneResult) -> StateChange | None:
    """Return the state of a lane that costs time, if its heats show one."""
    heats = [result for result in lane.heats if result.heat.process.status == "ok"]
    if any(result.heat.burst is not None for result in heats):
        return None  # single steps take what a loader's workers make of them
    state = find_state([times_of(result.heat) for result in heats])
    return None if state is None or _may_be_chance(state, [result.heat for result in heats]) else state


def _may_be_chance(state: StateChange, heats: Sequence[Heat]) -> bool:
    """Whether a few slow windows that met in several heats may look like this state.

    A window's mean is one timing, however many steps it has. Of few timings, those of the state have to be the slowest
    of their heat, in more heats than chance would put them there.
    """
    chance = 1.0
    places = 0  # where a state may begin
    for heat in heats:
        timings = _timings_of(heat)
        places = max(places, len(timings))
        if len(timings) >= TIMINGS_ENOUGH:
            return False
        inside: list[float] = []
        others: list[float] = []
        for first, steps, ms in timings:
            middle = first + steps // 2
            is_of_it = state.step <= middle and (state.until is None or middle <= state.until)
            (inside if is_of_it else others).append(ms)
        if inside and others and min(inside) > max(others):
            chance /= comb(len(timings), len(inside))
    return chance * places > CHANCE_MOST


def times_of(heat: Heat) -> dict[int, float]:
    """Return the milliseconds of each step, by its number; of one that was not timed alone, its window's mean."""
    return {number: ms for first, steps, ms in _timings_of(heat) for number in range(first, first + steps)}


def _timings_of(heat: Heat) -> list[tuple[int, int, float]]:
    """Return what was timed: the first step of each timing, how many it has, and the milliseconds of one.

    Windows that something disturbed are left out if they are few: what disturbs all of a heat is in all its steps.
    Those that only were slow are not left out: that is what is looked for.
    """
    # The very first step compiles and allocates.
    timings = [(number, 1, ns / 1e6) for number, ns in enumerate(heat.early_ns, 1) if number > 1]
    quiet = [window for window in heat.windows if window.flag is None or window.flag.startswith(MACHINE_SLOW)]
    for window in quiet if 2 * len(quiet) > len(heat.windows) else heat.windows:
        if window.first_step is not None and not (window.noise is not None and window.noise.halted):
            single = enumerate(window.step_ns[: window.steps], window.first_step)
            mean_ms = (window.end_ns - window.start_ns) / window.steps / 1e6
            timings += [(number, 1, ns / 1e6) for number, ns in single] or [(window.first_step, window.steps, mean_ms)]
    return timings


def find_loop_state(loop: TrainingLoop) -> StateChange | None:
    """Return the state of a watched training that costs time. It is seen once, so that it is not sure."""
    first = 1
    times: dict[int, float] = {}
    for window in loop.windows:
        times[first] = window.wall_ns / window.iterations / 1e6
        first += window.iterations
    return find_state([times])


def loss_around(loop: TrainingLoop, state: StateChange) -> tuple[float, float] | None:
    """Return the usual loss of a watched training before a state, and the usual one from there on."""
    first = 1
    begins_ns = 0
    for window in loop.windows:
        if first <= state.step:
            begins_ns = window.start_ns
        first += window.iterations
    before = [value for at, value in loop.losses if at < begins_ns]
    after = [value for at, value in loop.losses if at >= begins_ns]
    return (median(before), median(after)) if before and after else None


def find_slow_laps(trainings: Sequence[Sequence[LapResult]]) -> StateChange | None:
    """Return the lap from which on steps are slow, in the trainings of one lane.

    The laps are few, so each later one has to be slower. A first lap has the first step in it, and is no faster for it.
    """
    steps_ms = [[1e3 * lap.train_s / max(lap.steps, 1) for lap in laps] for laps in trainings if len(laps) > 1]
    for first in range(1, min(map(len, steps_ms), default=0)):
        ratios = [[step_ms / median(laps[:first]) for step_ms in laps[first:]] for laps in steps_ms]
        if all(min(ratio) >= SLOWER for ratio in ratios):
            low = median([min(ratio) for ratio in ratios])
            high = median([max(ratio) for ratio in ratios])
            lost = median([(sum(ratio) - len(ratio)) / (first + sum(ratio)) for ratio in ratios])
            return StateChange(first + 1, None, low, high, lost, agree=len(ratios), heats=len(ratios))
    return None


def find_state(heats: Sequence[StepSeries]) -> StateChange | None:
    """Find steps from which on all heats are slower. One heat alone is believed, but the state is not sure then."""
    heats = [heat for heat in heats if heat]
    steps, times = _together(heats)
    # The series; a long one in parts, each as its first step and the median of its times
    size = max(1, ceil(len(steps) / SERIES_MOST))
    points = [(steps[at], median(times[at : at + size])) for at in range(0, len(steps), size)]
    smooth = _smooth([time for _, time in points])
    place = _find_run(smooth)
    if place is None:
        return None
    first, last, base = place
    ratios = sorted(time / base for time in smooth[first : last + 1])
    low = ratios[len(ratios) // 10]
    high = ratios[(9 * (len(ratios) - 1)) // 10]
    begins = _refine(steps, times, points, first, base * max(SLOWER, sqrt(low)))
    ends = points[last + 1][0] if last + 1 < len(points) else None
    inside = [time for step, time in zip(steps, times, strict=True) if step >= begins and (ends is None or step < ends)]
    agree = came = 0
    for heat in heats:
        before = [time for step, time in heat.items() if step < begins]
        within = [time for step, time in heat.items() if begins <= step and (ends is None or step < ends)]
        if min(len(before), len(within)) >= FEWEST:  # it came as far
            came += 1
            agree += median(within) >= SLOWER * median(before)
    if agree < min(STATE_HEATS_LEAST, len(heats)) or agree < AGREE * came:
        return None
    lost = sum(max(0.0, time - base) for time in inside)
    return StateChange(
        step=begins,
        until=None if ends is None else ends - 1,
        times_low=low,
        times_high=high,
        share=lost / sum(times),
        agree=agree,
        heats=came,
    )


def ratio_within(change: StateChange, heats: Sequence[StepSeries], others: Sequence[StepSeries]) -> float | None:
    """Return how many times as long the steps of the state take in these heats as the same steps in others."""
    mine, theirs = (dict(zip(*_together(sequence), strict=True)) for sequence in (heats, others))
    common = [
        step
        for step in mine.keys() & theirs.keys()
        if change.step <= step and (change.until is None or step <= change.until)
    ]
    if len(common) < FEWEST:
        return None
    return sum(mine[step] for step in common) / sum(theirs[step] for step in common)


def ratios_within(change: StateChange, lane: LaneResult, other: LaneResult) -> list[float]:
    """Return the same for each round in which both lanes timed steps of the state."""
    theirs = {heat.heat.round: heat.heat for heat in other.heats if heat.heat.process.status == "ok"}
    ours = (heat.heat for heat in lane.heats)
    mine = [heat for heat in ours if heat.process.status == "ok" and heat.round in theirs]
    ratios = (ratio_within(change, [times_of(heat)], [times_of(theirs[heat.round])]) for heat in mine)
    return [ratio for ratio in ratios if ratio is not None]


def _together(heats: Sequence[StepSeries]) -> tuple[list[int], list[float]]:
    """Return the steps that enough heats took, each with the median of its times; of two the lower one."""
    needed = min(STATE_HEATS_LEAST, len(heats))
    steps = sorted(set().union(*heats)) if heats else []
    found = [(step, sorted(heat[step] for heat in heats if step in heat)) for step in steps]
    kept = [(step, times[(len(times) - 1) // 2]) for step, times in found if len(times) >= needed]
    return [step for step, _ in kept], [time for _, time in kept]


def _smooth(times: Sequence[float]) -> list[float]:
    """Return the median around each time, with as many times before as after it."""
    smooth = []
    for at in range(len(times)):
        side = min(STEPS_AROUND, at, len(times) - 1 - at)
        smooth.append(median(times[at - side : at + side + 1]))
    return smooth


def _find_run(times: Sequence[float]) -> tuple[int, int, float] | None:
    """Return the first and last place of a slow run, and the level before it.

    The level is the lowest so far, so that a slow start is none, and a ramp counts from where it begins.
    """
    wide = max(FEWEST, len(times) // 10)
    lowest = float("inf")
    base = 0
    bases: list[int] = []
    slow: list[bool] = []
    for at, time in enumerate(times):
        slow.append(time >= SLOWER * lowest)
        bases.append(base)
        level = median(times[at - wide + 1 : at + 1]) if at + 1 >= wide else float("inf")
        if level < lowest:
            lowest = level
            base = at - wide + 1
    place = _lasting(slow) or _returning(slow)
    if place is None or place[0] - bases[place[0]] < FEWEST:
        return None
    first, last = place
    before = sorted(times[bases[first] : first])
    after = times[first : last + 1]
    high = before[int(0.8 * (len(before) - 1))]
    if median(after) < max(SLOWER * median(before), CLEAR * high):
        return None
    return first, last, median(before)


def _lasting(slow: Sequence[bool]) -> tuple[int, int] | None:
    """Return the run that begins earliest and lasts to the end."""
    least = max(FEWEST, ceil(LASTS * len(slow)))
    slow_steps = 0
    first = None
    for at in range(len(slow) - 1, -1, -1):
        slow_steps += slow[at]
        # It begins with slow steps: one alone before a fast stretch does not count.
        if (
            slow[at]
            and all(slow[at : at + FEWEST])
            and slow_steps >= STATE_SLOW_SHARE * (len(slow) - at)
            and len(slow) - at >= least
        ):
            first = at
    return None if first is None else (first, len(slow) - 1)


def _returning(slow: Sequence[bool]) -> tuple[int, int] | None:
    """Return the one run of slow steps. Several are a rhythm: of laps, or of a loader."""
    runs: list[tuple[int, int]] = []
    at = 0
    for is_slow, run in groupby(slow):
        length = len(list(run))
        if is_slow:
            runs.append((at, at + length - 1))
        at += length
    if len(runs) != 1:
        return None
    first, last = runs[0]
    return runs[0] if last - first + 1 >= max(RETURNS_LEAST, RETURNS_SHARE * len(slow)) else None


def _refine(
    steps: Sequence[int], times: Sequence[float], points: Sequence[tuple[int, float]], first: int, least: float
) -> int:
    """Return the step from which on nearly all that follow take at least this long, near the first point of a run."""
    size = ceil(len(steps) / len(points))
    near = slice(max(0, first - 1) * size, (first + NEAR_POINTS) * size)
    slow = [time >= least for time in _smooth(times[near])]
    for at, step in enumerate(steps[near]):
        if slow[at] and sum(slow[at:]) >= STATE_SLOW_SHARE * (len(slow) - at):
            return step
    return points[first][0]
