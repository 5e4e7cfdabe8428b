"""PyTorch: builds the order's training, and steps and fences it."""

from __future__ import annotations

import importlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter_ns  # taken now: a user's code comes later, and may replace it
from typing import Any

import torch
from torch import Tensor

from laptime.engine.backends.base import NO_JUDGE, Exercise, Learner, LossJudge, Runner, StepwiseRunner
from laptime.engine.backends.torch.counting import count_work
from laptime.engine.backends.torch.devices import (
    DeviceClock,
    LanePrecision,
    TorchExercises,
    list_devices,
    list_versions,
    peak_bytes,
    set_up,
    take_device,
)
from laptime.engine.backends.torch.inputs import BatchSource, find_data_place, open_source
from laptime.engine.backends.torch.judging import TorchLossJudge, as_arrays, as_tensors
from laptime.engine.backends.torch.own_steps import TorchStepTraining
from laptime.engine.backends.torch.predictor import TorchPredictor
from laptime.engine.backends.torch.profiling import COMPILED_HIDES_OPERATORS, TorchExchangeProfiler, TorchProfiler
from laptime.engine.backends.torch.proof import prove, refer, rewind, take_late_step
from laptime.engine.backends.torch.ranks import Ranks
from laptime.engine.backends.torch.recipe import OwnRecipe, StepBatch, TorchRecipe, open_recipe, speed_up_dropout
from laptime.engine.backends.torch.runners import (
    STALE,
    CapturedStep,
    DeferredRunner,
    EagerRunner,
    GraphRunner,
    TorchCopyRunner,
    TorchLoaderRunner,
)
from laptime.engine.backends.torch.stepping import RunningScore, Stepper, TorchEvaluator, uses_word_dropout
from laptime.engine.backends.torch.symptoms import take_census
from laptime.model.errors import LaneError
from laptime.model.hardware import StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder
from laptime.model.process import NO_TRAINING, Settings
from laptime.model.protocol import Score
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun, Reference
from laptime.model.symptoms import DenormalCensus


class TorchTraining:
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder, recipe: TorchRecipe | None = None) -> None:
        self._settings: Settings = order.lane.settings
        self._seed = order.seed
        self._replays = order.replays
        self._device = torch.device(order.lane.device.name)
        opened = recipe or open_recipe(order)
        assert isinstance(opened, TorchRecipe)  # a step of your own has a training of its own
        self._recipe = opened
        self._group = self._recipe.group
        # From here on, the settings are those of this process alone: its part of the batch as written.
        if isinstance(self._recipe, OwnRecipe):
            written = self._recipe.count_items() * (self._settings.joined or 1)
            mine = self._group.batch(written)
            if mine > written:
                self._settings = replace(self._settings, joined=mine // self._recipe.count_items())
        else:
            written = self._settings.batch or self._recipe.workload.batch
            mine = self._group.batch(written)
            if mine != written:
                self._settings = replace(self._settings, batch=mine)
        self._precision = LanePrecision(self._settings, is_own=isinstance(self._recipe, OwnRecipe))
        self.data = self._recipe.training.data if isinstance(self._recipe, OwnRecipe) else None
        network = self._recipe.network()
        self.parameters = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
        self.items_per_step = mine * self._group.of
        self.steps_per_lap = self._recipe.steps_per_lap
        if self.steps_per_lap is not None:
            larger = self.items_per_step / written
            self.steps_per_lap = max(1, round(self.steps_per_lap / (self._settings.joined or 1) / larger))
        stale = (STALE,) if self._settings.reads == "deferred" else ()
        self.notes = (*self._recipe.notes, *self._precision.notes(order.lane.device), *stale)
        if uses_word_dropout(self._settings, self._device) and speed_up_dropout(network):
            self.notes = (*self.notes, "dropout draws its masks from 16-bit random numbers")

    def prove(self, precision: str) -> ProofRun:
        return prove(self._recipe, self._settings, precision, self._device)

    def reference(self) -> Reference:
        return refer(self._recipe)

    def start(self) -> Runner:
        set_up(self._settings, self._precision, self._seed)
        device_clock = DeviceClock(self._device)
        source = open_source(self._recipe, self._settings, self._device, self._seed)
        if self._settings.input in NO_TRAINING:
            alone = TorchLoaderRunner if self._settings.input == "only" else TorchCopyRunner
            return alone(source, device_clock)
        stepper = Stepper(self._recipe, self._settings, self._device, self._recipe.rate(self._settings))
        if isinstance(self._recipe, OwnRecipe):
            stepper.take_late_step = partial(take_late_step, self._recipe, stepper, self._settings, self._device)
        runner: type[EagerRunner | GraphRunner] = EagerRunner
        if self._settings.reads == "deferred":
            runner = DeferredRunner
        elif self._settings.is_captured:
            runner = GraphRunner
        evaluator = None
        if self._group.is_whole:
            evaluator = TorchEvaluator(self._recipe, stepper.network, self._settings, self._device)
        made = runner(stepper, source, device_clock, evaluator)
        if self._replays and isinstance(made, EagerRunner) and self._group.of == 1:
            made.place = partial(find_data_place, self._recipe, self._settings, self._device, self._seed)
        return made

    def learn(self) -> Learner:
        set_up(self._settings, self._precision, self._seed)
        return TorchLearner(self._recipe, self._settings, self._device, self._seed)

    def profiler(self, _scratch: Path) -> TorchProfiler:
        return TorchProfiler(self._device)

    def work(self) -> StepWork | Missing:
        """Count a step of the lane's network, precision and layout, operator by operator, not compiled.

        Two batches are enough, so none are cached.
        """
        if self._settings.input in NO_TRAINING:
            return Missing("the loader or the copy alone computes no step")
        source = open_source(self._recipe, replace(self._settings, input="published"), self._device, self._seed)
        settings = replace(self._settings, execution="eager")
        try:
            stepper = Stepper(self._recipe, settings, self._device, self._recipe.rate(settings))
            return replace(count_work(stepper, source), items=self.items_per_step)
        finally:
            source.close()

    def exchange(self, size_bytes: int) -> Exercise:
        assert isinstance(self._group, Ranks)
        return self._group.exchange(size_bytes)

    def exchange_profiler(self) -> TorchExchangeProfiler | Missing:
        if self._device.type == "cpu" and self._settings.execution == "compile":
            return COMPILED_HIDES_OPERATORS
        return TorchExchangeProfiler(self._device)

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._device)


class TorchBackend:
    name = "torch"

    def warm_up(self) -> None:
        """Import PyTorch's compiler: making the first optimizer imports it in any case."""
        importlib.import_module("torch._dynamo")

    def versions(self) -> dict[str, str]:
        return list_versions()

    def devices(self) -> tuple[Device, ...]:
        return list_devices()

    def build(self, order: HeatOrder) -> TorchTraining | TorchStepTraining:
        take_device(order)
        recipe = open_recipe(order)
        return TorchTraining(order, recipe) if isinstance(recipe, TorchRecipe) else TorchStepTraining(order, recipe)

    def predict(self, order: HeatOrder) -> TorchPredictor:
        take_device(order)
        return TorchPredictor(order)

    def judge(self, order: HeatOrder, batches: int | None = None) -> LossJudge | Missing:
        take_device(order)
        recipe = open_recipe(order)
        if not isinstance(recipe, OwnRecipe):
            return NO_JUDGE
        set_up(order.lane.settings, LanePrecision(Settings(), is_own=True), order.seed)
        return TorchLossJudge(recipe, order, batches)

    def exercises(self, device: Device) -> TorchExercises:
        if device.kind == "cuda":
            torch.cuda.set_device(device.name)
        return TorchExercises(device)

    def clock(self) -> int:
        return perf_counter_ns()


def open_room(_framework: str = "torch") -> TorchBackend:
    return TorchBackend()


# A whole training in PyTorch: the same step as in a heat, with a running score, and a state to resume from.


class TorchLearner(StepwiseRunner):
    """One lane's training, from its first step to its last."""

    def __init__(self, recipe: TorchRecipe, settings: Settings, device: torch.device, seed: int) -> None:
        if settings.input in NO_TRAINING:
            raise LaneError(f"input={settings.input} trains nothing", "name another input for a whole training")
        self._recipe = recipe
        self._settings = settings
        self._device = device
        self._seed = seed
        self._account = RunningScore(device)
        self._stepper = Stepper(recipe, settings, device, recipe.rate(settings), look=self._account)
        self.evaluator = TorchEvaluator(recipe, self._stepper.network, settings, device)
        self.fence = DeviceClock(device).fence
        self._source: BatchSource | None = None
        self._graph: CapturedStep | None = None
        self._waiting: list[StepBatch] = []

    def begin(self, steps_done: int, state: Any | None) -> None:
        self._source = open_source(self._recipe, self._settings, self._device, self._seed, first=steps_done)
        if self._settings.is_captured:
            # The warm-up is undone, and the first batch is then trained on like any other.
            example = self._next_batch()
            self._waiting.append(example)
            start = [tensor.detach().clone() for tensor in self._stepper.network.state_dict().values()]
            scaler = self._stepper.scaler
            scale = scaler.state_dict() if scaler is not None else {}
            self._graph = CapturedStep(self._stepper, example)
            self._graph.capture()
            rewind(self._stepper, start)
            if scaler is not None:
                scaler.load_state_dict(scale)
            torch.manual_seed(self._seed)
        if state is not None:
            restore_state(self._stepper, self._device, state, in_place=self._graph is not None)
        self.reset_score()

    def step(self) -> None:
        batch = self._next_batch()
        self._account.note(self._recipe.split(batch)[1])
        if self._graph is None:
            self._stepper(batch)
        else:
            self._graph.feed(batch)
            self._graph.replay()

    def score(self) -> Score:
        return self._account.score()

    def reset_score(self) -> None:
        self._account.clear()

    def state(self) -> Any:
        return take_state(self._stepper, self._device)

    def census(self) -> DenormalCensus:
        return take_census(self._stepper, self.step)

    def close(self) -> tuple[str, ...]:
        if self._source is None:
            return ()
        self._source.close()
        return self._source.notes()

    def _next_batch(self) -> StepBatch:
        assert self._source is not None
        return self._waiting.pop() if self._waiting else self._source()


def take_state(stepper: Stepper, device: torch.device) -> dict[str, Any]:
    """Return weights, buffers, the states of optimizer and loss scaler, and the state of the random generators."""
    # Dropout draws from PyTorch's CPU generator, or from that of the accelerator.
    random = {"cpu": torch.get_rng_state()}
    if device.type in {"cuda", "xpu", "mps"}:
        module: Any = getattr(torch, device.type)
        random["device"] = module.get_rng_state() if device.type == "mps" else module.get_rng_state(device)
    return {
        "network": as_arrays(dict(stepper.network.state_dict())),
        "optimizer": as_arrays(stepper.optimizer.state_dict()),
        "scaler": as_arrays(stepper.scaler.state_dict()) if stepper.scaler is not None else None,
        "random": as_arrays(random),
    }


@torch.no_grad()
def restore_state(stepper: Stepper, device: torch.device, held: dict[str, Any], *, in_place: bool) -> None:
    """Restore a training to `held`; a captured graph needs it `in_place`, at the addresses that it knows."""
    own = stepper.network.state_dict()
    saved = as_tensors(held["network"])
    if {name: tensor.shape for name, tensor in own.items()} != {name: tensor.shape for name, tensor in saved.items()}:
        raise LaneError("the checkpoint is of another network: its arrays have other names or shapes")
    for name, tensor in own.items():
        tensor.copy_(saved[name])
    optimizer = as_tensors(held["optimizer"])
    parameters = [parameter for group in stepper.optimizer.param_groups for parameter in group["params"]]
    if in_place:
        for number, state in optimizer["state"].items():
            kept = stepper.optimizer.state[parameters[number]]
            for key, value in state.items():
                if isinstance(kept.get(key), Tensor):
                    kept[key].copy_(value)
                else:
                    kept[key] = value
    else:
        # Lay out optimizer state as its weight is: a fused step reads both in the same order
        in_layout = {
            number: {key: _like(value, parameters[number]) for key, value in state.items()}
            for number, state in optimizer["state"].items()
        }
        stepper.optimizer.load_state_dict({**optimizer, "state": in_layout})
    if stepper.scaler is not None:
        stepper.scaler.load_state_dict(held["scaler"])
    random = as_tensors(held["random"])
    torch.set_rng_state(random["cpu"])
    if "device" in random:
        module: Any = getattr(torch, device.type)
        module.set_rng_state(*([random["device"]] if device.type == "mps" else [random["device"], device]))


def _like(value: Any, parameter: Tensor) -> Any:
    if not isinstance(value, Tensor) or value.shape != parameter.shape:
        return value
    return torch.empty_like(parameter, dtype=value.dtype, device="cpu").copy_(value)
