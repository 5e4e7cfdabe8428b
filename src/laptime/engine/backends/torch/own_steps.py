"""A user's own step on a torch lane: laptime copies and places its state and its batches, and calls it as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn, optim

from laptime.engine.backends.arrays import list_arrays, rebuild
from laptime.engine.backends.base import Runner
from laptime.engine.backends.steps import (
    CopiedSteps,
    OwnSteps,
    StepTraining,
    compare_with_float64,
    make_own_steps,
    take_steps,
)
from laptime.engine.backends.torch.batches import mapped, move_leaf
from laptime.engine.backends.torch.counting import count_work
from laptime.engine.backends.torch.devices import DeviceClock, LanePrecision, peak_bytes, set_precision, set_up
from laptime.engine.backends.torch.inputs import find_data_place, open_source
from laptime.engine.backends.torch.profiling import TorchProfiler
from laptime.engine.backends.torch.random_numbers import draws_left_to_kernels
from laptime.engine.backends.torch.recipe import OwnData, StepBatch
from laptime.engine.backends.torch.runners import STALE, DeferredRunner, EagerRunner, TorchCopyRunner, TorchLoaderRunner
from laptime.engine.backends.torch.symptoms import count_compiled
from laptime.model.errors import LaneError, TrainingError
from laptime.model.hardware import StepWork
from laptime.model.plan import HeatOrder
from laptime.model.process import NO_TRAINING
from laptime.model.quantities import Missing
from laptime.model.sample import LateStep, ProofRun, Reference


class TorchSteps(CopiedSteps):
    """The steps of a proof: each is called on a batch of the host, with a copy of the state on the device."""

    def __init__(self, own: OwnSteps, state: Any, device: torch.device) -> None:
        @wraps(own.step, (), ())
        def step(held: Any, batch: StepBatch) -> Any:
            if device.type != "cpu":
                batch = mapped(
                    batch, lambda tensor: tensor.to(device), lambda leaf: move_leaf(leaf, device), moves=True
                )
            return own.step(held, batch)

        super().__init__(replace(own, step=step), state)
        self._device = device

    def fresh_state(self, *, wide: bool = False) -> Any:
        state = super().fresh_state(wide=wide)
        if self._device.type == "cpu":
            return state
        # What holds the same tensors, such as an optimizer, still does on the device.
        return rebuild(state, lambda leaf: _leaf_placed(leaf, self._device), {})

    def fence(self, state: Any, loss: Any) -> None:
        """Wait for the state and the loss; in a proof, each loss is read."""

    def await_batch(self, batch: Any) -> None:
        """Wait for a batch; in a proof, each loss is read."""

    def compiled(self) -> int:
        return count_compiled()


class OwnStepper:
    """A user's step and its state. It is called on a batch in its place, and returns the loss, as a `Stepper` does."""

    is_eager = counts_updates = True

    def __init__(
        self, own: OwnSteps, state: Any, take_late_step: Callable[[], LateStep | None], precision: str
    ) -> None:
        self._take = own.take
        self.state = state
        self.take_late_step = take_late_step
        self.precision = precision

    def __call__(self, batch: StepBatch) -> Any:
        self.state, loss = self._take(self.state, batch)
        return loss

    def as_timed(self) -> OwnStepper:
        return self

    def held(self) -> Any:
        return self.state

    def hold(self, state: Any) -> None:
        self.state = state

    @property
    def network(self) -> nn.Module:
        """Return all models in the state as one, to be looked into."""
        return nn.ModuleList(_held(self.state, nn.Module))

    @property
    def optimizer(self) -> Any:
        """Return what all optimizers in the state keep, to be looked into."""
        held = _held(self.state, optim.Optimizer)
        groups = [group for optimizer in held for group in optimizer.param_groups]
        states = dict(enumerate(optimizer.state for optimizer in held))
        return SimpleNamespace(state=states, param_groups=groups)


class StepClock(DeviceClock):
    """A device's clock whose fence waits as the user's own fence does, too: then no step is timed alone."""

    def __init__(self, device: torch.device, wait: Callable[[], object]) -> None:
        super().__init__(device)
        self._wait = wait

    def fence(self) -> None:
        self._wait()
        super().fence()

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:  # noqa: ARG002  a step may not be done yet
        return ()


class TorchStepTraining(StepTraining):
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder, data: OwnData) -> None:
        self._data = data
        self._seed = order.seed
        self._settings = order.lane.settings
        self.data = data.training.data
        self._device = torch.device(order.lane.device.name)
        # Only the step's own code can set these; the plan refuses them too, where it sees that there is a step.
        for what, value, usual in (
            ("precision", self._settings.precision, {"fp32", "tf32"}),
            ("execution", self._settings.execution, {"eager"}),
        ):
            if value not in usual:
                raise LaneError(f"{value}: a step of your own has the {what} that its code gives it", "set it there")
        _refuse_others(data.name, data.training.state)
        self._own = make_own_steps(order, data.training)
        self._steps = TorchSteps(self._own, data.training.state, self._device)
        self._precision = LanePrecision(self._settings, is_own=True)
        self.parameters = _count_parameters(data.training.state)
        joined = self._settings.joined or 1
        self.items_per_step = data.count_items() * joined
        self.steps_per_lap = None if data.steps_per_lap is None else max(1, data.steps_per_lap // joined)
        self.notes = self._precision.notes(order.lane.device)
        if self._settings.reads == "deferred":
            self.notes += (STALE,)
        named = [
            word for word in (self._settings.layout, self._settings.optimizer) if word in {"channels_last", "fused"}
        ]
        if named:
            self.notes += (f"{' and '.join(named)}: up to the code of a step of your own, and not set here",)

    def prove(self, precision: str) -> ProofRun:
        set_precision(precision)
        with draws_left_to_kernels():
            return take_steps(self._steps, precision)

    def reference(self) -> Reference:
        set_precision("fp32")
        steps = self._steps
        with draws_left_to_kernels():
            return compare_with_float64(
                steps, partial(take_steps, steps, "fp32"), partial(take_steps, steps, "fp64", wide=True)
            )

    def start(self) -> Runner:
        set_up(self._settings, self._precision, self._seed)
        source = open_source(self._data, self._settings, self._device, self._seed)
        if self._settings.input in NO_TRAINING:
            alone = TorchLoaderRunner if self._settings.input == "only" else TorchCopyRunner
            return alone(source, DeviceClock(self._device))
        stepper = self._stepper()
        wait = self._own.fence
        clock = DeviceClock(self._device) if wait is None else StepClock(self._device, lambda: wait(stepper.state))
        runner = DeferredRunner if self._settings.reads == "deferred" else EagerRunner
        made = runner(stepper, source, clock, None)
        if self._data.laps is not None:
            made.place = partial(find_data_place, self._data, self._settings, self._device, self._seed)
        return made

    def profiler(self, _scratch: Path) -> TorchProfiler:
        return TorchProfiler(self._device)

    def work(self) -> StepWork | Missing:
        """Count a step, operator by operator."""
        if self._settings.input in NO_TRAINING:
            return Missing("the loader or the copy alone computes no step")
        source = open_source(self._data, replace(self._settings, input="published"), self._device, self._seed)
        try:
            return replace(count_work(self._stepper(), source), items=self.items_per_step)
        finally:
            source.close()

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._device)

    def _stepper(self) -> OwnStepper:
        return OwnStepper(self._own, self._steps.fresh_state(), self._take_late_step, self._settings.precision)

    def _take_late_step(self) -> LateStep | None:
        """Take the proof's first step with the code that was timed: it may count its calls."""
        with draws_left_to_kernels():
            run = take_steps(self._steps, "fp32", most=1)
        return None if run.problem else LateStep("fp32", run.losses[0], run.moves)


def _refuse_others(name: str, state: Any) -> None:
    """Refuse a state of another library's arrays: its step would be timed under PyTorch's name."""
    if any(_held(state, kind) for kind in (nn.Module, Tensor)):
        return
    for array in list_arrays(state):
        says = f"{name}: its state holds {type(array).__name__}, and nothing of PyTorch's"
        raise TrainingError(says, "race it on jax or python lanes; or put its model and optimizer into the state")


def _leaf_placed(leaf: Any, device: torch.device) -> Any:
    if isinstance(leaf, Tensor):
        leaf.data = leaf.data.to(device)
        return leaf
    if isinstance(leaf, optim.Optimizer):
        for kept in leaf.state.values():
            kept.update({key: value.to(device) for key, value in kept.items() if isinstance(value, Tensor)})
        return leaf
    return move_leaf(leaf, device)


def _held(state: Any, kind: type) -> list[Any]:
    """Return all objects of a kind in a state."""
    found: dict[int, Any] = {}

    def look(leaf: Any) -> Any:
        if isinstance(leaf, kind):
            found[id(leaf)] = leaf
        return leaf

    rebuild(state, look, {})
    return list(found.values())


def _count_parameters(state: Any) -> int:
    """Count the numbers that the state's models and tensors have to be trained."""
    loose: Iterator[Any] = (tensor for tensor in _held(state, Tensor) if tensor.requires_grad)
    weights = {id(parameter): parameter for module in _held(state, nn.Module) for parameter in module.parameters()}
    weights |= {id(tensor): tensor for tensor in loose}
    return sum(weight.numel() for weight in weights.values() if weight.requires_grad)
