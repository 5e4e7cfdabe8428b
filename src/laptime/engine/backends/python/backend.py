"""Plain Python: calls a user's own step as it is. That code decides which library computes, and on which device."""

from __future__ import annotations

import itertools
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter_ns  # taken now: a user's code comes later, and may replace it
from typing import Any

from laptime.engine.backends.arrays import seed_globals
from laptime.engine.backends.base import Exercises, Profiler
from laptime.engine.backends.steps import (
    CopiedSteps,
    StepBackend,
    StepRunner,
    StepTraining,
    SupplyRunner,
    call_for_steps,
    compare_with_float64,
    count_items,
    start_runner,
    supply_batches,
    take_steps,
)
from laptime.model.errors import LaneError, TrainingError
from laptime.model.hardware import StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun, Reference

KNOWN_LIBRARIES = (
    "numpy",
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "mxnet",
    "tinygrad",
    "cupy",
    "paddle",
    "numba",
    "mlx",
)
UNTRIED = "NVIDIA card, not tried"
NO_NVIDIA_DEVICE = "there is no NVIDIA card here: no /dev/nvidia0"
CARDS_HIDDEN = "CUDA_VISIBLE_DEVICES hides every card"
NOBODY_TELLS = Missing("no framework is asked")
UNKNOWN_FRAMEWORK = Missing("a python lane calls the step as it is, and does not know whose profiler would see into it")


class PythonBackend(StepBackend):
    name = "python"

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        return list_devices()

    def build(self, order: HeatOrder) -> PythonTraining:
        return PythonTraining(order)

    def exercises(self, device: Device) -> Exercises:
        raise LaneError(f"{self.name}/{device.name}: a plain function has no products of its own", "ask a framework")


def list_devices(nodes: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> tuple[Device, ...]:
    """Return the processor and the NVIDIA cards that have a device node and are not hidden, numbered as CUDA does."""
    there = len(list(nodes.glob("nvidia[0-9]*")))
    # How many cards CUDA shows: those named before the first invalid entry
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        shown = there
    else:
        names = [name.strip() for name in visible.split(",")]
        ends = [index for index, name in enumerate(names) if name in {"", "-1"}]
        shown = min(ends[0] if ends else len(names), there)
    features = ("malloc",) if platform.libc_ver()[0] == "glibc" else ()
    processor = Device("cpu", "cpu", "the processor", usable=True, features=features)
    cards = [Device(f"cuda:{index}", "cuda", UNTRIED, usable=True, memory_bytes=NOBODY_TELLS) for index in range(shown)]
    if not cards:
        cards = [Device("cuda", "cuda", "-", usable=False, reason=CARDS_HIDDEN if there else NO_NVIDIA_DEVICE)]
    return (processor, *cards)


def list_versions() -> dict[str, str]:
    """Return Python's version, then those of the frameworks that the user's code has imported so far."""
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in KNOWN_LIBRARIES}
    return {"python": platform.python_version(), **{name: str(version) for name, version in loaded.items() if version}}


class PlainSteps(CopiedSteps):
    """What the user's function returned. Only the user's code can move it to a device, or wait for it."""

    def __init__(self, order: HeatOrder) -> None:
        seed_globals(order.seed)
        own, training = call_for_steps(order, "python")
        super().__init__(own, training.state)
        device = order.lane.device
        if device.kind != "cpu" and self.own.fence is None:
            raise TrainingError(
                f"{self.own.name}: gives no fence, and on {device.name} a step may still be running when it returns",
                "give fence=, a function of the state that waits for the device",
            )

    def items_per_step(self) -> int:
        return count_items(self.leaves(next(self.own.batches())))

    def await_batch(self, _batch: Any) -> None:
        """Wait for the device with the user's fence, if there is one."""
        if self.own.fence is not None:
            self.own.fence(self._start)

    def compiled(self) -> Missing:
        return Missing("a python lane does not know what computes")

    def fence(self, state: Any, loss: Any) -> None:
        """Wait with the user's fence, and read the loss: it is available only when all earlier steps are done."""
        if self.own.fence is not None:
            self.own.fence(state)
        if loss is not None:
            self.number(loss)

    def supply(self, kind: str) -> Callable[[], Any]:
        return supply_batches(self.own, kind, lambda batch: batch)


class HostRunner(StepRunner):
    """Runs steps that are done when they return, and times each one."""

    def run_marked(self, steps: int) -> list[int]:
        step = self.step
        now = perf_counter_ns
        marks = [now()]
        for _ in range(steps):
            step()
            marks.append(now())
        return marks

    def step_ns(self, marks: Sequence[Any]) -> tuple[int, ...]:
        return tuple(after - before for before, after in itertools.pairwise(marks))


class PythonTraining(StepTraining):
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder) -> None:
        self._lane = order.lane
        self._steps = PlainSteps(order)
        self.data = self._steps.own.data
        self.items_per_step = self._steps.items_per_step()
        self.steps_per_lap = self._steps.own.steps_per_lap
        name = order.lane.device.name
        self.notes = () if name == "cpu" else (f"its code was told LAPTIME_DEVICE={name}; laptime does not place it",)

    def prove(self, precision: str) -> ProofRun:
        return take_steps(self._steps, precision)

    def reference(self) -> Reference:
        steps = self._steps
        return compare_with_float64(
            steps, partial(take_steps, steps, "fp32"), partial(take_steps, steps, "fp64", wide=True)
        )

    def start(self) -> StepRunner | SupplyRunner:
        """Return a runner. With the user's fence, a step may still run when it returns, so it is not timed alone."""
        runner = HostRunner if self._steps.own.fence is None else StepRunner
        kind = self._lane.settings.input
        return start_runner(self._steps, kind, self._steps.supply(kind), lambda batch: batch, runner)

    def profiler(self, _scratch: Path) -> Profiler | Missing:
        return UNKNOWN_FRAMEWORK

    def work(self) -> StepWork | Missing:
        return UNKNOWN_FRAMEWORK

    def device_memory_bytes(self) -> int | Missing:
        if self._lane.device.kind == "cpu":
            return Missing("the processor's memory is the process's own")
        return Missing("no framework is asked")


def open_room(_framework: str = "python") -> PythonBackend:
    return PythonBackend()
