"""Changes that make a training seem faster: planted, to be found out by `laptime verdict`."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from two_trainings import before

import laptime

CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns")


def halve(name: str) -> None:
    """Let a clock run at half its speed from now on, for all who ask the module."""
    real = getattr(time, name)
    began = real()
    setattr(time, name, lambda: began + type(began)((real() - began) / 2))


def half_clock() -> laptime.Training:
    """Every clock of the module `time` runs at half its speed, so that a step seems to take half as long."""
    for name in CLOCKS:
        halve(name)
    return before()


def trains_no_more() -> laptime.Training:
    """It trains until it was proven, and then returns what it was given: its step counts its calls."""
    honest, calls = before(), [0]

    def step(kernel, rows):
        calls[0] += 1
        return honest.step(kernel, rows) if calls[0] <= 60 else (kernel, 1.0)

    return laptime.Training(step=step, state=honest.state, data=honest.data)
