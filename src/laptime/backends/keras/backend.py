"""Keras 3: builds the order's training on the engine that the lane names. Its engine is chosen by now (room.py)."""

from __future__ import annotations

import time
from typing import Any

import keras

from laptime.backends.base import Learner, Runner
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.examination import KerasExaminer
from laptime.backends.keras.feeding import Feed, open_feed
from laptime.backends.keras.learner import KerasLearner
from laptime.backends.keras.one_thread import OneThread
from laptime.backends.keras.predictor import KerasPredictor
from laptime.backends.keras.proof import prove, refer
from laptime.backends.keras.recipe import Recipe
from laptime.backends.keras.runner import KerasRunner
from laptime.errors import LaneError
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference


class KerasTraining:
    """One lane's training, to be proven and run."""

    notes: tuple[str, ...] = ()

    def __init__(self, order: HeatOrder, engine: Engine, one_thread: OneThread) -> None:
        self._order, self._engine, self._one_thread = order, engine, one_thread
        self._settings = order.lane.settings
        self._recipe = Recipe(order)
        with self._device():
            model = self._recipe.model(self._settings, "fp32", rate=1.0)
        self.parameters = sum(each.size for each in model.get_weights()[: len(model.trainable_variables)])
        self.items_per_step = self._settings.batch or self._recipe.workload.batch
        self.steps_per_lap: int | None = self._recipe.workload.steps_per_lap

    def prove(self, precision: str) -> ProofRun:
        return self._one_thread(lambda: self._prove(precision))

    def _prove(self, precision: str) -> ProofRun:
        self._engine.set_precision(precision)
        with self._device():
            return prove(self._recipe, self._settings, precision)

    def reference(self) -> Reference:
        return self._one_thread(self._refer)

    def _refer(self) -> Reference:
        with self._device():
            return refer(self._recipe, self._engine)

    def start(self) -> Runner:
        model, feed = self._one_thread(self._make)
        drive = feed.drive(model, self._one_thread)
        examiner = KerasExaminer(self._recipe, model, feed, drive.finish, self._one_thread)
        return KerasRunner(model, drive, feed, self._engine, examiner)

    def learn(self) -> Learner:
        model, feed = self._one_thread(self._make)
        return KerasLearner(self._recipe, model, feed, self._engine, self._one_thread)

    def device_memory_bytes(self) -> int | Missing:
        return self._engine.peak_bytes(self._order.lane.device.name)

    def _make(self) -> tuple[Any, Feed]:
        self._engine.set_precision(self._settings.precision)
        feed = open_feed(self._recipe, self._settings, self._device, self._order.lane.device.kind)
        with self._device():
            model = self._recipe.model(self._settings, self._settings.precision, rate=self._recipe.rate(self._settings))
        return model, feed

    def _device(self) -> Any:
        """Give the context in which Keras computes on the lane's device; each thread has to enter it for itself."""
        return keras.device(self._engine.name_device(self._order.lane.device.name))


class KerasBackend:
    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self._engine = name, engine
        self._one_thread = OneThread()

    def warm_up(self) -> None:
        """Keras has imported all of itself by now."""

    def versions(self) -> dict[str, str]:
        return {"keras": keras.__version__, **self._engine.versions()}

    def devices(self) -> tuple[Device, ...]:
        return self._engine.devices()

    def build(self, order: HeatOrder) -> KerasTraining:
        return self._one_thread(lambda: self._build(order))

    def _build(self, order: HeatOrder) -> KerasTraining:
        self._take_threads(order)
        return KerasTraining(order, self._engine, self._one_thread)

    def predict(self, order: HeatOrder) -> KerasPredictor:
        if order.subject.file is not None:
            raise LaneError("--infer: a Keras model of your own is not asked for answers yet", "leave --infer out")
        self._take_threads(order)
        return KerasPredictor(order, self._engine)

    def _take_threads(self, order: HeatOrder) -> None:
        if order.lane.settings.threads is not None:
            self._engine.take_threads(order.lane.settings.threads)

    def clock(self) -> int:
        return time.perf_counter_ns()
