"""Measures what a device can do at most: products in each precision, and a copy in its memory, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median

from laptime import wire
from laptime.backends.base import Backend
from laptime.backends.exercise import Exercise, Exercises
from laptime.errors import LaneError
from laptime.heat.loop import Line
from laptime.model.limits import COPY, Peak, PeakOrder
from laptime.model.memory import is_memory, refusal_words
from laptime.model.missing import Missing

WINDOW_NS = 50_000_000
WARM_NS = 100_000_000  # a card that was idle takes its clocks up within this
WINDOWS = 5
LONGEST_NS = 200_000_000
TRIAL_PART = 8
ROWS_LEAST = 256
COPIED_LEAST = 64 << 20
FREE_PART = 8  # source and copy, and what a framework starts before it was waited for

Clock = Callable[[], int]


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
    if limit == COPY:
        return _copy(clock, exercises, order.copied_bytes)
    found: list[Peak] = []
    failed: list[Exception] = []
    for way in exercises.ways:
        try:
            found.append(_product(clock, exercises, limit, order.rows, way))
        except Exception as error:  # noqa: BLE001  another way may do
            failed.append(error)
    if not found:
        raise failed[0] if failed else LaneError(f"{exercises.by} has no product")
    return max(found, key=lambda peak: peak.best_per_s)


def _product(clock: Clock, exercises: Exercises, precision: str, rows: int, way: str) -> Peak:
    def make(fewer: int) -> Exercise:
        return exercises.product(precision, fewer, way)

    fitting = _fitting_rows(clock, make, rows)
    taken, rates = _rates_in_room(clock, make, fitting, ROWS_LEAST)
    return Peak(max(rates), median(rates), exercises.by, f"{way} of {taken:,} rows")


def _copy(clock: Clock, exercises: Exercises, size_bytes: int) -> Peak:
    free = exercises.free_bytes
    most = size_bytes if isinstance(free, Missing) else min(size_bytes, free // FREE_PART)
    taken, rates = _rates_in_room(clock, exercises.copy, most, COPIED_LEAST)
    return Peak(max(rates), median(rates), exercises.by, f"copy of {taken / 1e6:,.0f} MB")


def _fitting_rows(clock: Clock, make: Callable[[int], Exercise], rows: int) -> int:
    """Try an eighth of the rows first: a precision that is emulated can take a thousand times as long."""
    trial = max(1, rows // TRIAL_PART)
    exercise = make(trial)
    _time(clock, exercise, 1)  # with whatever compiling it takes
    whole_ns = _time(clock, exercise, 1) * (rows / trial) ** 3
    while whole_ns > LONGEST_NS and rows // 2 >= ROWS_LEAST:
        rows, whole_ns = rows // 2, whole_ns / 8
    return rows


def _rates_in_room(
    clock: Clock, make: Callable[[int], Exercise], size: int, least: int
) -> tuple[int, tuple[float, ...]]:
    """Give the rates, and the size at which memory was not refused: half as much each time it was."""
    while True:
        try:
            return size, measure_rates(clock, make(size))
        except Exception as error:
            if not is_memory(error) or size // 2 < least:
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
