"""What a Keras lane trains, built in or a user's own: how it is proven, prepared, scored and evaluated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import keras
import numpy as np

from laptime.engine.backends.arrays import CHANCE, make_run, measure_movement, part
from laptime.engine.backends.base import ONE_LABEL, Evaluator
from laptime.engine.backends.keras.engines import Engine, KerasThread, OneDevice
from laptime.engine.backends.keras.feeds import Feed, open_feed
from laptime.engine.backends.keras.own_model import KerasArray, OwnModel, items_of, open_own_feed
from laptime.engine.backends.keras.recipe import Arrays, KerasRecipe, prove, refer
from laptime.engine.backends.steps import OTHER_WAY
from laptime.model.errors import LaneError, LaptimeError
from laptime.model.plan import HeatOrder
from laptime.model.protocol import Predictions, Score
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun, Reference

PLATES_NOT_COUNTED = Missing("Keras counts characters, not whole plates")
NO_ACCURACY = Missing("its compile names no metric 'accuracy'")
AS_IT_IS = "float32 as this code and its engine have it, which may be TF32; its proof is taken in float32 proper"


class NoEvaluator:
    """For a user's own training, which has no test items here."""

    def read(self, items: int) -> None:
        raise LaneError(f"a training of your own has no test items, and {items} were asked for")

    def score(self, items: int) -> Score:
        raise LaneError(f"a training of your own has no test items, and {items} were asked for")

    def predict(self, items: int) -> Predictions:
        raise LaneError(f"a training of your own has no test items, and {items} were asked for")


class KerasEvaluator:
    """Evaluates one model; `rest` ends the call of `fit` that holds it, so that the model has its weights again."""

    def __init__(
        self, recipe: KerasRecipe, model: Any, feed: Feed, rest: Callable[[], None], one_thread: KerasThread
    ) -> None:
        self._one_thread = one_thread
        self._recipe = recipe
        self._model = model
        self._rest = rest
        self._batch = feed.batch
        self._device = feed.device
        self._arrays: Arrays | None = None
        self._asked = 0

    def read(self, items: int) -> None:
        if items > self._asked:
            self._arrays = self._recipe.test_arrays(items)
            self._asked = items

    def score(self, items: int) -> Score:
        images, labels = self._held(items)
        means = self._one_thread(lambda: self._evaluate(images, labels))
        return make_score(self._recipe, len(labels), means)

    def predict(self, items: int) -> Predictions:
        images, labels = self._held(items)
        answers = self._one_thread(lambda: self._answer(images))
        truth = labels.argmax(-1) if labels.ndim == answers.ndim else labels
        return Predictions(_as_rows(answers.argmax(-1)), _as_rows(truth))

    def _evaluate(self, images: Any, labels: Any) -> Any:
        with self._device():
            return self._model.evaluate(images, labels, batch_size=self._batch, verbose=0, return_dict=True)

    def _answer(self, images: Any) -> Any:
        with self._device():
            return self._model.predict(images, batch_size=self._batch, verbose=0)

    def _held(self, items: int) -> Arrays:
        self._rest()
        self.read(items)
        assert self._arrays is not None
        return self._arrays[0][:items], self._arrays[1][:items]


def make_score(recipe: KerasRecipe, items: int, means: dict[str, Any]) -> Score:
    several = len(recipe.workload.outputs) > 1
    return Score(items, finite_loss(means), float(means["accuracy"]), PLATES_NOT_COUNTED if several else ONE_LABEL)


def finite_loss(means: dict[str, Any]) -> float | Missing:
    loss = float(means["loss"])
    return loss if math.isfinite(loss) else Missing(f"the loss became {loss}")


def _as_rows(numbers: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, row)) for row in np.asarray(numbers).reshape(len(numbers), -1))


class Work(Protocol):
    """Everything except the call of `fit`. All methods but `score` and `evaluator` must run in Keras's own thread."""

    seed: int
    parameters: int
    items_per_step: int
    steps_per_lap: int | None
    notes: tuple[str, ...]
    data: Any

    def prove(self, precision: str) -> ProofRun:
        """Run the proof's steps as the lane runs its steps, at this precision."""

    def refer(self) -> Reference:
        """Run the same steps in float64, and also in float32."""

    def make(self) -> tuple[Any, Feed]:
        """Return a fresh compiled model with the starting weights, and the feed of its batches."""

    def score(self, items: int, means: dict[str, Any]) -> Score:
        """Convert Keras's means over this many items to a score."""

    def evaluator(self, model: Any, feed: Feed, rest: Callable[[], None], one_thread: KerasThread) -> Evaluator | None:
        """Return the evaluator of the model on the test items, if there are any."""


class BuiltInWork:
    """A workload of the catalogue."""

    notes: tuple[str, ...] = ()
    data = None

    def __init__(self, order: HeatOrder, engine: Engine, devices: OneDevice) -> None:
        self._lane = order.lane
        self._engine = engine
        self._devices = devices
        self._recipe = KerasRecipe(order)
        self.seed = order.seed
        workload = self._recipe.workload
        settings = order.lane.settings
        for items in (settings.batch or workload.batch) * devices.times, order.proof.batch:
            devices.check_items(items)
        with devices.scope():
            model = self._recipe.model(settings, "fp32", rate=1.0)
        self.parameters = sum(weight.size for weight in model.get_weights()[: len(model.trainable_variables)])
        self.items_per_step = (settings.batch or workload.batch) * devices.times
        self.steps_per_lap: int | None = max(1, round(workload.steps_per_lap / devices.times))

    def prove(self, precision: str) -> ProofRun:
        self._engine.set_precision(precision)
        with self._devices.scope():
            return prove(self._recipe, self._lane.settings, precision, self._devices)

    def refer(self) -> Reference:
        with self._devices.scope():
            return refer(self._recipe, self._engine, self._devices)

    def make(self) -> tuple[Any, Feed]:
        settings = replace(self._lane.settings, batch=self.items_per_step)
        self._engine.set_precision(settings.precision)
        feed = open_feed(self._recipe, settings, self._devices.scope, self._lane.device.kind)
        with self._devices.scope():
            model = self._recipe.model(settings, settings.precision, rate=self._recipe.rate(settings))
        return model, feed

    def score(self, items: int, means: dict[str, Any]) -> Score:
        return make_score(self._recipe, items, means)

    def evaluator(self, model: Any, feed: Feed, rest: Callable[[], None], one_thread: KerasThread) -> Evaluator | None:
        """Return None for several devices: they cannot share every number of test items."""
        if self._devices.count > 1:
            return None
        return KerasEvaluator(self._recipe, model, feed, rest, one_thread)


class OwnWork:
    """A training of `file.py:function`, which is called once for each precision."""

    def __init__(self, order: HeatOrder, engine: Engine, devices: OneDevice) -> None:
        self._order = order
        self._engine = engine
        self._devices = devices
        self._settings = order.lane.settings
        self.seed = order.seed
        self._own = OwnModel(order, "fp32", devices)
        self._precision = "fp32"
        self._left = engine.read_precision()
        self.parameters = sum(math.prod(variable.shape) for variable in self._own.model.trainable_variables)
        self.items_per_step = items_of(self._own.data.first(1)[0]) * devices.times
        self.steps_per_lap = self._own.data.lap
        self.data = self._own.data.given
        is_left = self._settings.precision == "fp32" and "tf32" in order.lane.device.features
        self.notes: tuple[str, ...] = (AS_IT_IS,) if is_left else ()

    def prove(self, precision: str) -> ProofRun:
        self._engine.set_precision(precision)
        with self._devices.scope():
            return self._take(self._at(precision), precision)

    def refer(self) -> Reference:
        twin = self.prove("fp32")
        own = self._own
        with self._devices.scope():
            again = self._take(own, "fp32", own.reseeded())
        depth = len(twin.moves)
        weights = self.parameters
        if not all(map(math.isfinite, twin.losses)):
            raise LaneError("the loss is not finite in the proof's first steps")
        problem: str | None = None  # why float32 steps of this model could prove nothing
        if others := own.precisions() - {"float32"}:
            problem = f"its code sets a precision of its own: {', '.join(sorted(others))}"
        elif part(again, twin) > CHANCE:
            problem = "it draws random numbers outside its dropout layers"
        if problem:
            return Reference("", twin, twin, depth, weights, problem)
        self._engine.allow_float64()
        try:
            with self._devices.scope():
                exact = self._take(OwnModel(self._order, "fp64", self._devices), "fp64", own.start)
        except LaptimeError as error:
            return Reference("", twin, twin, depth, weights, error.says)
        except Exception as error:  # noqa: BLE001  whatever a user's model raises that was not written for float64
            message = (str(error).splitlines() or [""])[0]
            problem = f"it cannot run in float64: {type(error).__name__}: {message}"
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
        self._devices.check_at_once(at_once)
        feed = open_own_feed(own.data, at_once, settings, self._devices.scope)
        with self._devices.scope():
            model = own.begin(at_once, compiled=settings.execution == "compile")
        keras.utils.set_random_seed(self.seed)
        return model, feed

    def score(self, items: int, means: dict[str, Any]) -> Score:
        accuracy = float(means["accuracy"]) if "accuracy" in means else NO_ACCURACY
        return Score(items, finite_loss(means), accuracy, ONE_LABEL)

    def evaluator(
        self,
        model: Any,  # noqa: ARG002
        feed: Feed,  # noqa: ARG002
        rest: Callable[[], None],  # noqa: ARG002
        one_thread: KerasThread,  # noqa: ARG002
    ) -> Evaluator | None:
        """Return None: as far as laptime knows, a user's data have no test part."""
        return None

    def _at(self, precision: str) -> OwnModel:
        """Return the user's model at this precision; for another precision, call the function again."""
        if precision != self._precision:
            self._own = OwnModel(self._order, precision, self._devices)
            self._precision = precision
        return self._own

    def _take(self, own: OwnModel, precision: str, start: Sequence[KerasArray] | None = None) -> ProofRun:
        began = time.perf_counter()
        plan = self._order.proof
        start = own.start if start is None else start
        model = own.begin_proof()
        if precision == "fp64" and own.precisions() != {"float64"}:
            raise LaneError("its layers set a precision of their own, and cannot run in float64")
        own.rewind(start)
        before = own.weights()
        losses: list[float] = []
        batches = own.data.first(plan.steps)
        for step, batch in enumerate(batches):
            own.multiply(plan.learning_rate_scale, plan.scale_of(step))
            losses.append(self._step(model, batch))
        run = make_run(precision, losses, before, own.weights(), 0.0)
        if plan.single_step_scale is not None:
            single = measure_movement(before, self._take_alone(own, batches[0], start, plan.scale_of(0)))
            decay = measure_movement(before, self._take_alone(own, batches[0], start, 0.0))
            run = replace(run, single=single, decay=decay, scales=own.scales())
        seconds = time.perf_counter() - began
        problem = self._devices.problem(model)
        return replace(run, seconds=seconds, own_way=own.own_way(), problem=problem)

    def _take_alone(
        self, own: OwnModel, batch: tuple[Any, ...], start: Sequence[KerasArray], gradients: float
    ) -> list[KerasArray]:
        """Run one step from the start, at the large rate, and return the weights after it."""
        assert self._order.proof.single_step_scale is not None
        own.rewind(start)
        own.multiply(self._order.proof.single_step_scale, gradients)
        self._step(own.model, batch)
        return own.weights()

    def _step(self, model: Any, batch: tuple[Any, ...]) -> float:
        means = self._devices.take(model, batch)
        if "loss" not in means:
            raise LaneError("its own train_step returns no 'loss'", "return it among the metrics")
        return float(np.asarray(means["loss"]).mean())
