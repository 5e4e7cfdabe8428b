"""A Keras network looked at from outside: `evaluate` and `predict` on the test items."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from laptime.backends.keras.feeding import Feed
from laptime.backends.keras.one_thread import OneThread
from laptime.backends.keras.recipe import Arrays, Recipe
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.protocol import Predictions, Score

ONE_LABEL = Missing("an item has one label")
NOT_COUNTED = Missing("Keras counts characters, not whole plates")


class NoExaminer:
    """A training of somebody's own has no test items here."""

    def read(self, items: int) -> None:
        raise LaneError(f"a training of your own has no test items, and {items} were asked for")

    def score(self, items: int) -> Score:
        raise LaneError(f"a training of your own has no test items, and {items} were asked for")

    def predict(self, items: int) -> Predictions:
        raise LaneError(f"a training of your own has no test items, and {items} were asked for")


class KerasExaminer:
    """Examines one model; `rest` ends the call of `fit` that holds it, so that its weights are its own again."""

    def __init__(self, recipe: Recipe, model: Any, feed: Feed, rest: Callable[[], None], one_thread: OneThread) -> None:
        self._one_thread = one_thread
        self._recipe, self._model, self._rest = recipe, model, rest
        self._batch, self._device = feed.batch, feed.device
        self._arrays: Arrays | None = None
        self._asked = 0

    def read(self, items: int) -> None:
        if items > self._asked:
            self._arrays = self._recipe.test_arrays(items)
            self._asked = items

    def score(self, items: int) -> Score:
        images, labels = self._held(items)
        told = self._one_thread(lambda: self._evaluate(images, labels))
        return make_score(self._recipe, len(labels), told)

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


def make_score(recipe: Recipe, items: int, told: dict[str, Any]) -> Score:
    several = len(recipe.workload.outputs) > 1
    return Score(items, finite_loss(told), float(told["accuracy"]), NOT_COUNTED if several else ONE_LABEL)


def finite_loss(told: dict[str, Any]) -> float | Missing:
    loss = float(told["loss"])
    return loss if math.isfinite(loss) else Missing(f"the loss became {loss}")


def _as_rows(numbers: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, row)) for row in np.asarray(numbers).reshape(len(numbers), -1))
