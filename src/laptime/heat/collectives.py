"""Profile some steps of the first rank, after a heat's windows, to see how long collectives were in progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from laptime.backends.base import Runner
from laptime.backends.shared import ExchangeProfiler
from laptime.heat.step_breakdown import Clock
from laptime.heat.window_sizing import run_down, time_steps
from laptime.model.missing import Missing
from laptime.model.ranks import Collectives

WATCH_NS = 0.4e9
STEPS_MOST = 8
T = TypeVar("T")


def watch_collectives(clock: Clock, runner: Runner, profiler: ExchangeProfiler | Missing) -> Collectives | Missing:
    """Step with all ranks, and return what the profiler of this one saw.

    A failure of the profiler is no failure of the heat. A failure of a step is: other ranks may be waiting in it.
    """
    if isinstance(profiler, Missing):
        return profiler
    run_down(clock, runner)
    steps = runner.stride
    took_ns = _watch(clock, runner, profiler, steps)
    if isinstance(took_ns, Missing):
        return took_ns
    if took_ns < WATCH_NS:  # The first start of a profiler loads its libraries, and its first steps differ.
        strides = min(STEPS_MOST // runner.stride, int(WATCH_NS / max(took_ns, 1)))
        steps *= max(1, strides)
        took_ns = _watch(clock, runner, profiler, steps)
    if isinstance(took_ns, Missing):
        return took_ns
    if isinstance(found := _tried(profiler.collectives), Missing):
        return found
    return Collectives(profiler.by, steps, took_ns / steps, found.in_progress_ns / steps, found.exposed_ns / steps)


def _watch(clock: Clock, runner: Runner, profiler: ExchangeProfiler, steps: int) -> int | Missing:
    runner.fence()
    if isinstance(failed := _tried(profiler.start), Missing):
        return failed
    took_ns = time_steps(clock, runner, steps)
    failed = _tried(profiler.stop)
    return failed if isinstance(failed, Missing) else took_ns


def _tried(do: Callable[[], T]) -> T | Missing:
    try:
        return do()
    except Exception as error:  # noqa: BLE001  whatever a framework raises
        return Missing(f"profiling ended in {type(error).__name__}: {error}")
