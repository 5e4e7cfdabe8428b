"""Plain Python: calls a user's own step as it is. What it computes with, and where, is the affair of its own code."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from laptime.backends.base import Learner, Predictor, Profiler
from laptime.backends.exercise import Exercises
from laptime.backends.python.devices import list_devices, list_versions
from laptime.backends.python.stepping import HostRunner, PlainSteps
from laptime.backends.steps import NOT_TRAINED_WHOLE, StepRunner, SupplyRunner, start_runner
from laptime.backends.steps_proof import hold_against_float64, take_steps
from laptime.errors import LaneError
from laptime.model.limits import StepWork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference

UNKNOWN_FRAMEWORK = Missing("a python lane calls the step as it is, and does not know whose profiler would see into it")


class PythonTraining:
    """One lane's training, to be proven and run."""

    parameters = 0  # a state holds weights and what an optimizer keeps of them, and does not say which is which

    def __init__(self, order: HeatOrder) -> None:
        self._lane = order.lane
        self._steps = PlainSteps(order)
        self.items_per_step = self._steps.items_per_step()
        self.steps_per_lap = self._steps.own.steps_per_lap
        name = order.lane.device.name
        self.notes = () if name == "cpu" else (f"its code was told LAPTIME_DEVICE={name}; laptime does not place it",)

    def prove(self, precision: str) -> ProofRun:
        return take_steps(self._steps, precision)

    def reference(self) -> Reference:
        steps = self._steps
        return hold_against_float64(
            steps, partial(take_steps, steps, "fp32"), partial(take_steps, steps, "fp64", wide=True)
        )

    def start(self) -> StepRunner | SupplyRunner:
        """With a fence to wait at, a step may not be done when it returns."""
        runner = HostRunner if self._steps.own.fence is None else StepRunner
        kind = self._lane.settings.input
        return start_runner(self._steps, kind, self._steps.supply(kind), lambda batch: batch, runner)

    def learn(self) -> Learner:
        raise LaneError(NOT_TRAINED_WHOLE, "leave --full out")

    def profiler(self, _scratch: Path) -> Profiler | Missing:
        return UNKNOWN_FRAMEWORK

    def work(self) -> StepWork | Missing:
        return UNKNOWN_FRAMEWORK

    def device_memory_bytes(self) -> int | Missing:
        if self._lane.device.kind == "cpu":
            return Missing("the processor's memory is the process's own")
        return Missing("no framework is asked")


class PythonBackend:
    name = "python"

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        return list_devices()

    def warm_up(self) -> None:
        """What a training will need is imported by the user's own file."""

    def build(self, order: HeatOrder) -> PythonTraining:
        return PythonTraining(order)

    def predict(self, order: HeatOrder) -> Predictor:
        raise LaneError(f"{order.lane.framework}: a step of your own gives no answers to be timed", "leave --infer out")

    def exercises(self, device: Device) -> Exercises:
        raise LaneError(f"{self.name}/{device.name}: a plain function has no products of its own", "ask a framework")

    def clock(self) -> int:
        return time.perf_counter_ns()


def open_room(_framework: str = "python") -> PythonBackend:
    return PythonBackend()
