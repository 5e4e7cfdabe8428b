"""What a Keras lane trains, be it built in or a user's own: how it is proven, made ready, scored and looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from laptime.backends.base import Examiner
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.examination import KerasExaminer, make_score
from laptime.backends.keras.feeding import Feed, open_feed
from laptime.backends.keras.one_thread import OneThread
from laptime.backends.keras.proof import prove, refer
from laptime.backends.keras.recipe import Recipe
from laptime.model.plan import HeatOrder
from laptime.model.protocol import Score
from laptime.model.sample import ProofRun, Reference


class Work(Protocol):
    """Everything but the call of `fit`. All but `score` and `examiner` compute, and do so in Keras's own thread."""

    seed: int
    parameters: int
    items_per_step: int
    steps_per_lap: int | None
    notes: tuple[str, ...]

    def prove(self, precision: str) -> ProofRun:
        """Take the proof's steps as the lane steps, at this precision."""

    def refer(self) -> Reference:
        """Take the same steps in float64, and in float32 beside it."""

    def make(self) -> tuple[Any, Feed]:
        """Give a fresh compiled model with the starting weights, and how `fit` gets its batches."""

    def score(self, items: int, told: dict[str, Any]) -> Score:
        """Read what Keras tells of so many items."""

    def examiner(self, model: Any, feed: Feed, rest: Callable[[], None], one_thread: OneThread) -> Examiner | None:
        """Give who looks at the model on the test items, where there are any."""


class BuiltInWork:
    """A workload of the catalogue."""

    notes: tuple[str, ...] = ()

    def __init__(self, order: HeatOrder, engine: Engine, device: Callable[[], Any]) -> None:
        self._lane, self._engine, self._device = order.lane, engine, device
        self._recipe, self.seed = Recipe(order), order.seed
        workload, settings = self._recipe.workload, order.lane.settings
        with device():
            model = self._recipe.model(settings, "fp32", rate=1.0)
        self.parameters = sum(each.size for each in model.get_weights()[: len(model.trainable_variables)])
        self.items_per_step = settings.batch or workload.batch
        self.steps_per_lap: int | None = workload.steps_per_lap

    def prove(self, precision: str) -> ProofRun:
        self._engine.set_precision(precision)
        with self._device():
            return prove(self._recipe, self._lane.settings, precision)

    def refer(self) -> Reference:
        with self._device():
            return refer(self._recipe, self._engine)

    def make(self) -> tuple[Any, Feed]:
        settings = self._lane.settings
        self._engine.set_precision(settings.precision)
        feed = open_feed(self._recipe, settings, self._device, self._lane.device.kind)
        with self._device():
            model = self._recipe.model(settings, settings.precision, rate=self._recipe.rate(settings))
        return model, feed

    def score(self, items: int, told: dict[str, Any]) -> Score:
        return make_score(self._recipe, items, told)

    def examiner(self, model: Any, feed: Feed, rest: Callable[[], None], one_thread: OneThread) -> Examiner:
        return KerasExaminer(self._recipe, model, feed, rest, one_thread)
