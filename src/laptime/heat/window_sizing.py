"""How many steps make a window, found from the first steps; and the steps that are not timed before one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from laptime.backends.base import Runner
from laptime.heat.step_breakdown import Clock
from laptime.model.plan import Pace

FAIR_PART = 0.25  # of a window: the estimate of a step times at least this much
ESTIMATE_MOST = 1 << 16
WHOLE_LAPS = 4  # this many windows of whole laps, or of all batches a loader had ready, must fit in the measuring time
STRIDES_LEAST = 3  # where batches come three at a time, one of these has waited
FASTER = 2 / 3  # of a mean step: batches come in bursts if the faster half of the steps takes less than this
SHORTER = 0.1  # of a stride: a window may be this much short; a much shorter one cannot show other processes' load
MANY_BURSTS = 10  # a window with this many bursts needs no extra length: one burst more or less changes little
RUN_DOWN_MOST_S = 30.0
LONG_STEP = 2  # times the warm-up of a turn: of a step this long, the first of a turn is hardly slower than the next


@dataclass(frozen=True, slots=True)
class WindowSizing:
    """How long a step takes, and how many steps a window must hold.

    `ready` is how many batches the loader may hold ready. Workers that start together finish together: the loader waits
    for the first batch and then has the others at once, so single steps take almost no time or far too long. Where this
    was seen (`bursts`), a window holds all batches that may come at once, however long that takes.
    """

    pace: Pace
    stride: int
    step_ns: float
    lap: int | None = None
    ready: int = 0
    bursts: bool = False

    @property
    def burst(self) -> int | None:
        """Return how many steps may come at once, where bursts were seen and windows are short enough to matter."""
        return self.least if self.bursts and self._fitting < MANY_BURSTS * self.least else None

    @property
    def least(self) -> int:
        """Return the steps that a window must hold, if it can."""
        whole = math.ceil(self.ready / self.stride) * self.stride
        return max(whole, self.stride) if self.bursts or self._is_short(whole) else self.stride

    @property
    def window_steps(self) -> int:
        """Return how many steps make a window: as many strides of the framework as fit, at least one."""
        steps = max(self._fitting, self.least)
        return math.ceil(steps / self.unit) * self.unit

    @property
    def unit(self) -> int:
        """Return the steps of which a window holds a multiple.

        Where laps are short it is a lap, so that every window holds equally many ends of laps.
        """
        if not self.lap or self.lap % self.stride:
            return self.stride
        laps = math.ceil(max(self._fitting, self.least) / self.lap) * self.lap
        return self.lap if self._is_short(laps) else self.stride

    @property
    def _fitting(self) -> int:
        strides = self.pace.window_s * 1e9 / max(self.step_ns, 1) / self.stride
        return max(1, math.ceil(strides - SHORTER)) * self.stride

    def with_step(self, step_ns: float) -> WindowSizing:
        """Return the same sizing with a better estimate."""
        return replace(self, step_ns=step_ns)

    def _is_short(self, steps: int) -> bool:
        return steps * self.step_ns <= longest_ns(self.pace)


def size_windows(clock: Clock, runner: Runner, pace: Pace, lap: int | None) -> WindowSizing:
    """Return the window sizing: time single strides if a loader may deliver several batches at once, then longer runs.

    Batches that were ready are used up before. What looks like a burst must come again: a disturbance does not. One
    step alone may take a thousandth of the mean, for example when a loader works only at the end of a lap, so a short
    lap is timed whole.
    """
    if pace.known_step_ns is not None:
        return WindowSizing(pace, runner.stride, pace.known_step_ns, lap, runner.ready_batches)
    strides = _time_strides(clock, runner, pace)
    bursts = come_in_bursts(strides)
    if bursts:
        again = _time_strides(clock, runner, pace)
        strides, bursts = strides + again, come_in_bursts(again)
    steps, spent_ns = len(strides) * runner.stride, sum(strides)
    while spent_ns < FAIR_PART * pace.window_s * 1e9 and steps < ESTIMATE_MOST:
        steps = 2 * steps or runner.stride
        spent_ns = time_steps(clock, runner, steps)
    if lap and lap % runner.stride == 0 and steps < lap and lap * spent_ns / steps <= 2 * longest_ns(pace):
        steps, spent_ns = lap, time_steps(clock, runner, lap)
    return WindowSizing(pace, runner.stride, spent_ns / steps, lap, runner.ready_batches, bursts)


def longest_ns(pace: Pace) -> float:
    """Return how long a window of whole laps may be."""
    return pace.measure_s * 1e9 / WHOLE_LAPS


def come_in_bursts(strides: Sequence[int]) -> bool:
    """Whether the faster half of the strides takes far less than its share of the time."""
    faster = sorted(strides)[: len(strides) // 2]
    return bool(faster) and sum(faster) / len(faster) < FASTER * sum(strides) / len(strides)


def _time_strides(clock: Clock, runner: Runner, pace: Pace) -> list[int]:
    """Time single strides until they cover the batches that may come at once, or until the measuring time is full."""
    strides: list[int] = []
    while len(strides) * runner.stride < runner.ready_batches:
        strides.append(time_steps(clock, runner, runner.stride))
        if sum(strides) > pace.measure_s * 1e9 and len(strides) >= STRIDES_LEAST:
            break
    return strides


def time_steps(clock: Clock, runner: Runner, steps: int) -> int:
    """Time some steps between two fences, without marks between them."""
    runner.fence()
    start_ns, outside_ns = clock(), runner.outside_ns
    runner.run(steps)
    runner.fence()
    return clock() - start_ns - (runner.outside_ns - outside_ns)


def run_down(clock: Clock, runner: Runner) -> tuple[str, ...]:
    """Use up the batches a loader prepared during a pause, which would make a window look faster than it is.

    Steps so slow that this takes half a minute give their loader time to prepare more. The rest then stays, and a note
    reports it.
    """
    left, began_ns = runner.ready_batches, clock()
    while left > 0:
        runner.run(runner.stride)
        runner.fence()
        left -= runner.stride
        if left > 0 and clock() - began_ns > RUN_DOWN_MOST_S * 1e9:
            return (f"up to {left} batches that its loader had ready were not used up before the windows opened",)
    return ()


def warm_steps(sizing: WindowSizing, warm_s: float) -> int:
    """Return how many steps of a turn are not timed: after a pause, caches are cold and a card's clock is low.

    Of a long step, the first of a turn is hardly slower than the next: then all are timed.
    """
    stride_s = sizing.stride * sizing.step_ns / 1e9
    return 0 if stride_s >= LONG_STEP * warm_s else math.ceil(warm_s / stride_s) * sizing.stride
