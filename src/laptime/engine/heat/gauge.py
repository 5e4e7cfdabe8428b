"""Measures the limits of a device: products in each precision, and a copy in its memory, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TypeVar

from laptime.engine import wire
from laptime.engine.backends.base import Backend, Exercise, Exercises
from laptime.engine.heat.loop import ParentLine
from laptime.engine.heat.work import Clock
from laptime.model.hardware import COPY_EXERCISE, Peak, PeakOrder
from laptime.model.quantities import Missing
from laptime.model.symptoms import is_memory_error, refusal_words

WINDOW_NS = 50_000_000
WARM_NS = 100_000_000  # an idle card raises its clocks within this time
WINDOWS = 5
LONGEST_S = 0.1
TRIAL_PART, TRIAL_TIMES = 4, 3
LEFT_BEHIND = 0.75
ROWS_LEAST = 256
COPIED_LEAST = 64 << 20
FREE_PART = 8  # room for source and copy, and for work that a framework starts before an earlier one is done

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class PeakMethod:
    """One method that can reach a limit. Its size may have to shrink; its work grows with the size to the `power`."""

    make: Callable[[int], Exercise]
    size: int
    least: int
    power: int
    words: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class TriedMethod:
    """A method that was tried at a small size: its work at full size, and the work per second that it reached."""

    method: PeakMethod
    work: float
    rate: float

    def fitting(self) -> int:
        """Return the largest size that runs in at most `LONGEST_S`: an emulated precision can take minutes."""
        size = self.method.size
        work = self.work
        while work / self.rate > LONGEST_S and size // 2 >= self.method.least:
            size //= 2
            work /= 2**self.method.power
        return size


def run_gauge(backend: Backend, order: PeakOrder, line: ParentLine) -> None:
    """Measure every limit of the order and report each when it is known: a failed one does not stop the others."""
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
    """Try each method, then measure those that are not far slower; return the peak of the fastest."""
    if limit == COPY_EXERCISE:
        free_bytes = exercises.free_bytes
        most_bytes = order.copied_bytes
        if not isinstance(free_bytes, Missing):
            most_bytes = min(most_bytes, free_bytes // FREE_PART)
        methods = [
            PeakMethod(partial(exercises.copy, name), most_bytes, COPIED_LEAST, 1, partial(_megabytes, name))
            for name in exercises.copies
        ]
    else:  # a product in the precision of this name; its work grows with the cube of its rows
        methods = [
            PeakMethod(
                partial(exercises.product, limit, name), order.rows, ROWS_LEAST, 3, f"{name} of {{:,}} rows".format
            )
            for name in exercises.products
        ]
    tried, failed = _each(partial(_try, clock), methods)
    most = max((method.rate for method in tried), default=0.0)
    peaks, failed_later = _each(
        partial(_measure, clock, exercises.by), [method for method in tried if method.rate > LEFT_BEHIND * most]
    )
    if not peaks:
        raise [*failed_later, *failed][0]
    return max(peaks, key=lambda peak: peak.best_per_s)


def _megabytes(method: str, size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f} MB {method}"


def _each(do: Callable[[A], B], given: Sequence[A]) -> tuple[list[B], list[Exception]]:
    """Call `do` on each method; return the results and the errors, since another method may work."""
    done: list[B] = []
    failed: list[Exception] = []
    for method in given:
        try:
            done.append(do(method))
        except Exception as error:  # noqa: BLE001  whatever a framework raises
            failed.append(error)
    return done, failed


def _try(clock: Clock, method: PeakMethod) -> TriedMethod:
    size = max(1, method.size // TRIAL_PART)
    exercise = method.make(size)
    _time(clock, exercise, 1)  # includes any compiling
    spent_ns = 0
    least_ns = math.inf
    for _ in range(TRIAL_TIMES):
        took_ns = _time(clock, exercise, 1)
        spent_ns += took_ns
        least_ns = min(least_ns, took_ns)
        if spent_ns > WINDOW_NS:
            break
    whole_work = exercise.work * (method.size / size) ** method.power
    return TriedMethod(method, whole_work, exercise.work / max(least_ns, 1) * 1e9)


def _measure(clock: Clock, by: str, tried: TriedMethod) -> Peak:
    """Measure at the size that fits; where memory is refused, halve the size and try again."""
    size = tried.fitting()
    while True:
        try:
            rates = measure_rates(clock, tried.method.make(size))
            return Peak(max(rates), median(rates), by, tried.method.words(size))
        except Exception as error:
            if not is_memory_error(error) or size // 2 < tried.method.least:
                raise
        size //= 2


def measure_rates(clock: Clock, exercise: Exercise) -> tuple[float, ...]:
    """Return the work per second in each window. Windows are fenced at both ends and start when the device is warm."""
    _time(clock, exercise, 1)  # includes any compiling
    times = 1
    warm_ns = 0
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
    if is_memory_error(error):
        return f"out of memory: {refusal_words(error).rstrip('.')}"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
