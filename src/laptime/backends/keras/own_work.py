"""A user's compiled model and its data: proven in float32 proper, then timed as the user's code has it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from laptime.backends.base import Examiner
from laptime.backends.fingerprint import make_run, part
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.examination import ONE_LABEL, finite_loss
from laptime.backends.keras.feeding import Feed
from laptime.backends.keras.one_thread import OneThread
from laptime.backends.keras.own_data import items_of
from laptime.backends.keras.own_feeding import open_own_feed
from laptime.backends.keras.own_model import Array, OwnModel
from laptime.backends.steps_proof import CHANCE, OTHER_WAY
from laptime.errors import LaneError, LaptimeError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.protocol import Score
from laptime.model.sample import ProofRun, Reference

NO_ACCURACY = Missing("its compile names no metric 'accuracy'")
AS_IT_IS = "float32 as this code and its engine have it, which may be TF32; its proof is taken in float32 proper"


class OwnWork:
    """A training of `file.py:function`, which is called once for each precision."""

    def __init__(self, order: HeatOrder, engine: Engine, device: Callable[[], Any]) -> None:
        self._order, self._engine, self._device = order, engine, device
        self._settings, self.seed = order.lane.settings, order.seed
        self._own, self._precision = OwnModel(order, "fp32", device), "fp32"
        self._left = engine.read_precision()
        self.parameters = sum(math.prod(each.shape) for each in self._own.model.trainable_variables)
        self.items_per_step = items_of(self._own.data.first(1)[0])
        self.steps_per_lap = self._own.data.lap
        is_left = self._settings.precision == "fp32" and "tf32" in order.lane.device.features
        self.notes: tuple[str, ...] = (AS_IT_IS,) if is_left else ()

    def prove(self, precision: str) -> ProofRun:
        self._engine.set_precision(precision)
        with self._device():
            return self._take(self._at(precision), precision)

    def refer(self) -> Reference:
        twin, own = self.prove("fp32"), self._own
        with self._device():
            again = self._take(own, "fp32", own.reseeded())
        depth, weights = len(twin.moves), self.parameters
        problem = _why_unfit(own, twin, again)
        if problem:
            return Reference("", twin, twin, depth, weights, problem)
        self._engine.allow_float64()
        try:
            with self._device():
                exact = self._take(OwnModel(self._order, "fp64", self._device), "fp64", own.start)
        except LaptimeError as error:
            return Reference("", twin, twin, depth, weights, error.says)
        except Exception as error:  # noqa: BLE001  whatever a user's model raises that was not written for float64
            said = (str(error).splitlines() or [""])[0]
            problem = f"it cannot run in float64: {type(error).__name__}: {said}"
            return Reference("", twin, twin, depth, weights, problem)
        other = part(exact, twin) > OTHER_WAY
        problem = "in float64 it goes another way than in float32, as random draws do" if other else None
        return Reference("", exact, twin, depth, weights, problem)

    def make(self) -> tuple[Any, Feed]:
        settings = self._settings
        own = self._at(settings.precision)
        if settings.precision == "fp32":
            self._engine.restore_precision(self._left)
        else:
            self._engine.set_precision(settings.precision)
        at_once = settings.steps_per_execution or own.at_once
        feed = open_own_feed(own.data, at_once, settings, self._device)
        with self._device():
            model = own.begin(at_once, compiled=settings.execution == "compile")
        keras.utils.set_random_seed(self.seed)
        return model, feed

    def score(self, items: int, told: dict[str, Any]) -> Score:
        accuracy = float(told["accuracy"]) if "accuracy" in told else NO_ACCURACY
        return Score(items, finite_loss(told), accuracy, ONE_LABEL)

    def examiner(
        self,
        model: Any,  # noqa: ARG002
        feed: Feed,  # noqa: ARG002
        rest: Callable[[], None],  # noqa: ARG002
        one_thread: OneThread,  # noqa: ARG002
    ) -> Examiner | None:
        """A user's data have no part for tests, as far as laptime knows."""
        return None

    def _at(self, precision: str) -> OwnModel:
        """Give the user's model at this precision; the function is called again where it is another."""
        if precision != self._precision:
            self._own = OwnModel(self._order, precision, self._device)
            self._precision = precision
        return self._own

    def _take(self, own: OwnModel, precision: str, start: Sequence[Array] | None = None) -> ProofRun:
        began = time.perf_counter()
        model = own.begin_proof(self._order.proof.learning_rate_scale, start)
        if precision == "fp64" and own.precisions() != {"float64"}:
            raise LaneError("its layers set a precision of their own, and cannot run in float64")
        before = own.weights()
        losses = [_step(model, batch) for batch in own.data.first(self._order.proof.steps)]
        return make_run(precision, losses, before, own.weights(), time.perf_counter() - began)


def _step(model: Any, batch: tuple[Any, ...]) -> float:
    told = model.train_on_batch(*batch, return_dict=True)
    if "loss" not in told:
        raise LaneError("its own train_step tells no 'loss'", "return it among the metrics")
    return float(np.asarray(told["loss"]).mean())


def _why_unfit(own: OwnModel, twin: ProofRun, again: ProofRun) -> str | None:
    """Give the reason for which float32 steps of this model could prove nothing."""
    if not all(map(math.isfinite, twin.losses)):
        raise LaneError("the loss is not finite in the proof's first steps")
    others = own.precisions() - {"float32"}
    if others:
        return f"its code sets a precision of its own: {', '.join(sorted(others))}"
    if part(again, twin) > CHANCE:
        return "it draws random numbers outside its dropout layers"
    return None
