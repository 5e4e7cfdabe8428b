"""JAX: runs a user's own step function on the order's device. JAX has no training loop and no model of its own."""

from __future__ import annotations

from pathlib import Path

from laptime.backends.jax.devices import JaxExercises, find_device, list_cards, list_versions, peak_bytes
from laptime.backends.jax.profiling import JaxProfiler, open_profiler
from laptime.backends.jax.steps import UserSteps, prove, refer
from laptime.backends.steps import StepBackend, StepRunner, StepTraining, SupplyRunner, start_runner
from laptime.model.limits import StepWork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference

import jax  # isort: skip  devices.py, imported above, limits the memory of a card that JAX takes


class JaxTraining(StepTraining):
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder) -> None:
        self._order = order
        self._steps = UserSteps(order)
        self.data = self._steps.own.data
        self.items_per_step = self._steps.items_per_step()
        self.steps_per_lap = self._steps.timed.steps_per_lap

    def prove(self, precision: str) -> ProofRun:
        return prove(self._steps, precision)

    def reference(self) -> Reference:
        return refer(self._steps)

    def start(self) -> StepRunner | SupplyRunner:
        self._steps.restore_precision()
        kind = self._order.lane.settings.input
        return start_runner(self._steps, kind, self._steps.supply(kind), self._steps.place, StepRunner)

    def profiler(self, scratch: Path) -> JaxProfiler | Missing:
        return open_profiler(self._order.lane.device.name, scratch)

    def work(self) -> StepWork | Missing:
        return Missing("it is counted in PyTorch's own lanes only")

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._order.lane.device.name)


class JaxBackend(StepBackend):
    name = "jax"

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        return (Device("cpu", "cpu", "the processor", usable=True, features=("malloc",)), *list_cards())

    def build(self, order: HeatOrder) -> JaxTraining:
        jax.config.update("jax_default_device", find_device(order.lane.device.name))
        return JaxTraining(order)

    def exercises(self, device: Device) -> JaxExercises:
        return JaxExercises(device)


def open_room(_framework: str = "jax") -> JaxBackend:
    return JaxBackend()
