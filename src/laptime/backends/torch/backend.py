"""PyTorch: builds the order's training, and steps and fences it."""

from __future__ import annotations

import importlib
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from laptime.backends.base import Exercise, Learner, Runner
from laptime.backends.torch.collectives import COMPILED, TorchExchangeProfiler
from laptime.backends.torch.counting import count_work
from laptime.backends.torch.devices import DeviceClock, TorchExercises, list_devices, list_versions, peak_bytes
from laptime.backends.torch.evaluation import TorchEvaluator
from laptime.backends.torch.inputs import open_source
from laptime.backends.torch.lane_setup import set_up, take_device
from laptime.backends.torch.learner import TorchLearner
from laptime.backends.torch.networks import speed_up_dropout
from laptime.backends.torch.own_steps import TorchStepTraining
from laptime.backends.torch.precision import LanePrecision
from laptime.backends.torch.predictor import TorchPredictor
from laptime.backends.torch.profiling import TorchProfiler
from laptime.backends.torch.proof import prove, refer, take_late_step
from laptime.backends.torch.ranks import Ranks
from laptime.backends.torch.recipe import OwnRecipe, TorchRecipe, open_recipe
from laptime.backends.torch.runners import (
    STALE,
    DeferredRunner,
    EagerRunner,
    GraphRunner,
    TorchCopyRunner,
    TorchLoaderRunner,
)
from laptime.backends.torch.stepping import Stepper, uses_word_dropout
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.limits import StepWork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference


class TorchTraining:
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder, recipe: TorchRecipe | None = None) -> None:
        self._settings: Settings = order.lane.settings
        self._seed = order.seed
        self._device = torch.device(order.lane.device.name)
        opened = recipe or open_recipe(order)
        assert isinstance(opened, TorchRecipe)  # a step of your own has a training of its own
        self._recipe = opened
        self._group = self._recipe.group
        written = self._count_items()
        self._settings = self._shared_settings(written)
        self._precision = LanePrecision(self._settings, is_own=isinstance(self._recipe, OwnRecipe))
        self.data = self._recipe.training.data if isinstance(self._recipe, OwnRecipe) else None
        network = self._recipe.network()
        self.parameters = sum(each.numel() for each in network.parameters() if each.requires_grad)
        self.items_per_step = self._group.batch(written) * self._group.of
        self.steps_per_lap = self._count_steps(self.items_per_step / written)
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
        runner = _runner_of(self._settings)
        evaluator = None
        if self._group.is_whole:
            evaluator = TorchEvaluator(self._recipe, stepper.network, self._settings, self._device)
        return runner(stepper, source, device_clock, evaluator)

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
            return COMPILED
        return TorchExchangeProfiler(self._device)

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._device)

    def _count_items(self) -> int:
        if not isinstance(self._recipe, OwnRecipe):
            return self._settings.batch or self._recipe.workload.batch
        return self._recipe.count_items() * (self._settings.joined or 1)

    def _shared_settings(self, written: int) -> Settings:
        """Return the settings of this process alone: its part of a batch of a built-in training."""
        mine = self._group.batch(written)
        if mine == written:
            return self._settings
        if not isinstance(self._recipe, OwnRecipe):
            return replace(self._settings, batch=mine)
        return replace(self._settings, joined=mine // self._recipe.count_items()) if mine > written else self._settings

    def _count_steps(self, larger: float) -> int | None:
        """Return the steps of a lap, where a step takes `larger` times the items that are written."""
        lap = self._recipe.steps_per_lap
        return lap if lap is None else max(1, round(lap / (self._settings.joined or 1) / larger))


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

    def exercises(self, device: Device) -> TorchExercises:
        if device.kind == "cuda":
            torch.cuda.set_device(device.name)
        return TorchExercises(device)

    def clock(self) -> int:
        return time.perf_counter_ns()


def _runner_of(settings: Settings) -> type[EagerRunner | GraphRunner]:
    if settings.reads == "deferred":
        return DeferredRunner
    return GraphRunner if settings.is_captured else EagerRunner


def open_room(_framework: str = "torch") -> TorchBackend:
    return TorchBackend()
