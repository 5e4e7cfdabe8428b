"""Keras 3: builds the order's training on the engine that the lane names. Its engine is chosen by now (room.py)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import keras

from laptime.backends.base import Learner, Runner
from laptime.backends.exercise import Exercises
from laptime.backends.keras.alone import CopyRunner, LoaderRunner
from laptime.backends.keras.driving import Drive
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.learner import KerasLearner
from laptime.backends.keras.one_thread import OneThread
from laptime.backends.keras.own_work import OwnWork
from laptime.backends.keras.predictor import KerasPredictor
from laptime.backends.keras.profiling import KerasProfiler
from laptime.backends.keras.runner import KerasRunner
from laptime.backends.keras.work import BuiltInWork, Work
from laptime.errors import LaneError
from laptime.model.lane import NO_TRAINING
from laptime.model.limits import StepWork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.sample import ProofRun, Reference


class KerasTraining:
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder, engine: Engine, one_thread: OneThread) -> None:
        self._device_name, self._engine, self._one_thread = order.lane.device.name, engine, one_thread
        self._input = order.lane.settings.input
        work_of = BuiltInWork if order.subject.file is None else OwnWork
        self._work: Work = work_of(order, engine, self._device)
        self.parameters, self.notes = self._work.parameters, self._work.notes
        self.items_per_step, self.steps_per_lap = self._work.items_per_step, self._work.steps_per_lap
        self._drive: Drive | None = None

    def prove(self, precision: str) -> ProofRun:
        return self._one_thread(lambda: self._work.prove(precision))

    def reference(self) -> Reference:
        return self._one_thread(self._work.refer)

    def start(self) -> Runner:
        model, feed = self._one_thread(self._work.make)
        if self._input in NO_TRAINING:
            alone = LoaderRunner if self._input == "only" else CopyRunner
            return alone(feed, self._engine, self._one_thread)
        self._drive = drive = feed.drive(model, self._one_thread)
        examiner = self._work.examiner(model, feed, drive.finish, self._one_thread)
        return KerasRunner(model, drive, feed, self._engine, one_thread=self._one_thread, examiner=examiner)

    def learn(self) -> Learner:
        model, feed = self._one_thread(self._work.make)
        return KerasLearner(self._work, model, feed, self._engine, self._one_thread)

    def profiler(self, scratch: Path) -> KerasProfiler | Missing:
        if self._drive is None:
            return Missing("nothing was started")
        profiler = self._engine.profiler(self._device_name, scratch)
        return profiler if isinstance(profiler, Missing) else KerasProfiler(profiler, self._drive)

    def work(self) -> StepWork | Missing:
        return Missing("it is counted in PyTorch's own lanes only")

    def device_memory_bytes(self) -> int | Missing:
        return self._engine.peak_bytes(self._device_name)

    def _device(self) -> Any:
        """Give the context in which Keras computes on the lane's device; each thread has to enter it for itself."""
        return keras.device(self._engine.name_device(self._device_name))


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
        if order.lane.settings.denormals == "flush":
            self._engine.flush_denormals()
        return KerasTraining(order, self._engine, self._one_thread)

    def predict(self, order: HeatOrder) -> KerasPredictor:
        if order.subject.file is not None:
            raise LaneError("--infer: a Keras model of your own is not asked for answers yet", "leave --infer out")
        self._take_threads(order)
        return KerasPredictor(order, self._engine)

    def exercises(self, device: Device) -> Exercises:
        return self._engine.exercises(device)

    def _take_threads(self, order: HeatOrder) -> None:
        if order.lane.settings.threads is not None:
            self._engine.take_threads(order.lane.settings.threads)

    def clock(self) -> int:
        return time.perf_counter_ns()
