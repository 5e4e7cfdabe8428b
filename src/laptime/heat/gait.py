"""How a training's steps come, learnt from a few of them before its windows: how long they take, and in what bursts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from laptime.backends.base import Runner
from laptime.heat.stepping import time_steps
from laptime.model.plan import Pace

FAIR_PART = 0.25  # of a window, until which steps are counted before it is known how many make one
ESTIMATE_MOST = 1 << 16
WHOLE_LAPS = 4  # windows of whole laps, or of all that a loader had ready, that have to fit into the measuring time
STRIDES_LEAST = 3  # of which one has waited, where batches come three at a time
QUICKER = 2 / 3  # of a mean step, at most, is what a step of the quicker half takes where batches come in bursts
SHORTER = 0.1  # of a stride, by which a window may be; in one much shorter it cannot be told what others took
MANY_BURSTS = 10  # in a window that is long enough without: whether one more falls into it matters little


@dataclass(frozen=True, slots=True)
class Gait:
    """How long a step takes, and what a window of them has to hold.

    `ready` is how many batches the loader may hold ready. Workers that began together end together: it then waits for
    the first of them and gets the others for nothing, so that single steps take next to nothing or far too long.
    Where that was seen, `bursts`, a window holds all that may come at once, however long that takes.
    """

    pace: Pace
    stride: int
    step_ns: float
    lap: int | None = None
    ready: int = 0
    bursts: bool = False

    @property
    def burst(self) -> int | None:
        """Give how many steps may come at once, where they were seen to."""
        return self.least if self.bursts and self._fitting < MANY_BURSTS * self.least else None

    @property
    def least(self) -> int:
        """Give the steps that a window has to hold, if it can."""
        whole = math.ceil(self.ready / self.stride) * self.stride
        return max(whole, self.stride) if self.bursts or self._is_short(whole) else self.stride

    @property
    def window_steps(self) -> int:
        """Give how many steps make a window: as many of the framework's own strides as fit, one at least.

        Where laps are short they are whole laps, so that each window holds as many lap ends as the others.
        """
        steps = max(self._fitting, self.least)
        if not self.lap or self.lap % self.stride:
            return steps
        laps = math.ceil(steps / self.lap) * self.lap
        return laps if self._is_short(laps) else steps

    @property
    def _fitting(self) -> int:
        strides = self.pace.window_s * 1e9 / max(self.step_ns, 1) / self.stride
        return max(1, math.ceil(strides - SHORTER)) * self.stride

    def after(self, step_ns: float) -> Gait:
        """Give the same with a better estimate."""
        return replace(self, step_ns=step_ns)

    def _is_short(self, steps: int) -> bool:
        return steps * self.step_ns <= longest_ns(self.pace)


def find_gait(clock: Callable[[], int], runner: Runner, pace: Pace, lap: int | None) -> Gait:
    """Time single strides where a loader may hand over several batches at once, then as many as fill a fair part.

    What was ready has been used up before. What looks like a burst has to come again: a disturbance does not. One step
    alone may take a thousandth of the mean, as in a loader that works at a lap's end only; so a lap is timed whole, if
    it is short.
    """
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
    return Gait(pace, runner.stride, spent_ns / steps, lap, runner.ready_batches, bursts)


def longest_ns(pace: Pace) -> float:
    """Give how long a window may be that is to hold whole laps."""
    return pace.measure_s * 1e9 / WHOLE_LAPS


def come_in_bursts(strides: Sequence[int]) -> bool:
    """Tell whether the quicker half of them take far less than their part of the time."""
    quicker = sorted(strides)[: len(strides) // 2]
    return bool(quicker) and sum(quicker) / len(quicker) < QUICKER * sum(strides) / len(strides)


def _time_strides(clock: Callable[[], int], runner: Runner, pace: Pace) -> list[int]:
    """Time one stride after the other, until as many were taken as may come at once, or the measuring time is full."""
    strides: list[int] = []
    while len(strides) * runner.stride < runner.ready_batches:
        strides.append(time_steps(clock, runner, runner.stride))
        if sum(strides) > pace.measure_s * 1e9 and len(strides) >= STRIDES_LEAST:
            break
    return strides
