"""Measures what a device can do at most: products in each precision, and a copy in its memory, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TypeVar

from laptime import wire
from laptime.backends.base import Backend
from laptime.backends.exercise import Exercise, Exercises
from laptime.heat.loop import Line
from laptime.model.limits import COPY, Peak, PeakOrder
from laptime.model.memory import is_memory, refusal_words
from laptime.model.missing import Missing

WINDOW_NS = 50_000_000
WARM_NS = 100_000_000  # a card that was idle takes its clocks up within this
WINDOWS = 5
LONGEST_S = 0.1
TRIAL_PART, TRIAL_TIMES = 4, 3
LEFT_BEHIND = 0.75
ROWS_LEAST = 256
COPIED_LEAST = 64 << 20
FREE_PART = 8  # source and copy, and what a framework starts before it was waited for

Clock = Callable[[], int]
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which a limit can be shown, at a size that may have to be smaller; work grows with its `power`."""

    make: Callable[[int], Exercise]
    size: int
    least: int
    power: int
    words: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Trial:
    """A way that was tried at a small size, and the work a second that it showed there."""

    way: Way
    work: float
    rate: float

    def fitting(self) -> int:
        """Give the largest size at which one time does not take too long: an emulated precision can take minutes."""
        size, work = self.way.size, self.work
        while work / self.rate > LONGEST_S and size // 2 >= self.way.least:
            size, work = size // 2, work / 2**self.way.power
        return size


def run_gauge(backend: Backend, order: PeakOrder, line: Line) -> None:
    """Measure every limit of the order, and tell each as it is known: one that fails harms no other."""
    exercises = backend.exercises(order.device)
    for limit in order.limits:
        line.say(wire.Phase(limit, backend.clock()))
        try:
            peak = find_peak(backend.clock, exercises, order, limit)
        except Exception as error:  # noqa: BLE001  whatever a framework raises is the reason
            line.say(wire.Rated(limit, None, _words(error)))
        else:
            line.say(wire.Rated(limit, peak))
    line.say(wire.Gauged())


def find_peak(clock: Clock, exercises: Exercises, order: PeakOrder, limit: str) -> Peak:
    """Try each way, and measure those that are not left far behind: the fastest is the device's."""
    ways = _copies(exercises, order) if limit == COPY else _products(exercises, order, limit)
    trials, failed = _each(partial(_try, clock), ways)
    most = max((trial.rate for trial in trials), default=0.0)
    peaks, failed_later = _each(
        partial(_measure, clock, exercises.by), [trial for trial in trials if trial.rate > LEFT_BEHIND * most]
    )
    if not peaks:
        raise [*failed_later, *failed][0]
    return max(peaks, key=lambda peak: peak.best_per_s)


def _products(exercises: Exercises, order: PeakOrder, precision: str) -> list[Way]:
    return [
        Way(partial(exercises.product, precision, way), order.rows, ROWS_LEAST, 3, f"{way} of {{:,}} rows".format)
        for way in exercises.products
    ]


def _copies(exercises: Exercises, order: PeakOrder) -> list[Way]:
    free = exercises.free_bytes
    most = order.copied_bytes if isinstance(free, Missing) else min(order.copied_bytes, free // FREE_PART)
    return [
        Way(partial(exercises.copy, way), most, COPIED_LEAST, 1, partial(_megabytes, way)) for way in exercises.copies
    ]


def _megabytes(way: str, size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f} MB {way}"


def _each(do: Callable[[A], B], given: Sequence[A]) -> tuple[list[B], list[Exception]]:
    """Do it with each, and give what came of it beside what failed: another way may do."""
    done: list[B] = []
    failed: list[Exception] = []
    for each in given:
        try:
            done.append(do(each))
        except Exception as error:  # noqa: BLE001  whatever a framework raises
            failed.append(error)
    return done, failed


def _try(clock: Clock, way: Way) -> Trial:
    size = max(1, way.size // TRIAL_PART)
    exercise = way.make(size)
    _time(clock, exercise, 1)  # with whatever compiling it takes
    spent_ns, least_ns = 0, math.inf
    for _ in range(TRIAL_TIMES):
        took_ns = _time(clock, exercise, 1)
        spent_ns, least_ns = spent_ns + took_ns, min(least_ns, took_ns)
        if spent_ns > WINDOW_NS:
            break
    return Trial(way, exercise.work * (way.size / size) ** way.power, exercise.work / max(least_ns, 1) * 1e9)


def _measure(clock: Clock, by: str, trial: Trial) -> Peak:
    """Measure at the size that fits; where memory is refused, at half of it, and so on."""
    size = trial.fitting()
    while True:
        try:
            rates = measure_rates(clock, trial.way.make(size))
            return Peak(max(rates), median(rates), by, trial.way.words(size))
        except Exception as error:
            if not is_memory(error) or size // 2 < trial.way.least:
                raise
        size //= 2


def measure_rates(clock: Clock, exercise: Exercise) -> tuple[float, ...]:
    """Give the work a second in each window; windows are fenced at both ends, and open when the device is warm."""
    _time(clock, exercise, 1)  # with whatever compiling it takes
    times, warm_ns = 1, 0
    rates: list[float] = []
    while len(rates) < WINDOWS:
        took_ns = _time(clock, exercise, times)
        if took_ns < WINDOW_NS:
            more = 1.2 * WINDOW_NS / max(took_ns, WINDOW_NS / 100)
            times = math.ceil(times * more)
        elif warm_ns < WARM_NS:
            warm_ns += took_ns
        else:
            rates.append(exercise.work * times / took_ns * 1e9)
    return tuple(rates)


def _time(clock: Clock, exercise: Exercise, times: int) -> int:
    exercise.fence()
    start_ns = clock()
    for _ in range(times):
        exercise.once()
    exercise.fence()
    return clock() - start_ns


def _words(error: Exception) -> str:
    if is_memory(error):
        return f"out of memory: {refusal_words(error).rstrip('.')}"
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
