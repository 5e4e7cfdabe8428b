"""A Keras network that only answers: by `predict` as written, at its best by the function that `predict` calls.

All of it runs in the heat's own thread. There is no `fit` that waits, which would need another thread (fit.py). A call
to another thread takes 0.03 to 0.06 ms more on the processor measured, out of 1.3 ms that JAX needs for cifar-cnn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from laptime.backends.fingerprint import make_answers
from laptime.backends.items import repeated
from laptime.backends.keras.engines import Engine
from laptime.backends.keras.recipe import KerasRecipe
from laptime.model.inference import PROOF_ITEMS, AnswerReference, AnswerRun
from laptime.model.lane import Settings
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder

PLAIN = Settings()
Ask = Callable[[Any, Any], Any]


def by_predict(model: Any, batch: Any) -> Any:
    """Call `predict` as scripts do: it makes a data set of the array and cuts it, here into one batch."""
    return model.predict(batch, batch_size=len(batch), verbose=0)


def by_batch(model: Any, batch: Any) -> Any:
    """Call the function that `predict` compiles, with a batch that is not cut again."""
    return model.predict_on_batch(batch)


class KerasPredictor:
    """One lane's network. Both ways to ask return arrays on the host, so each call is complete when it returns."""

    notes: tuple[str, ...] = ()

    def __init__(self, order: HeatOrder, engine: Engine) -> None:
        self._settings, self._device_name = order.lane.settings, order.lane.device.name
        self._engine, self._recipe = engine, KerasRecipe(order)
        self._ask: Ask = by_predict if self._settings.preset == "as-written" else by_batch
        self._items: Any = np.empty(0)
        self._held: Any = None
        engine.set_precision(self._settings.precision)
        self._model = self._make(self._settings, self._settings.precision)
        engine.await_model(self._model)
        self.parameters = sum(int(np.prod(each.shape)) for each in self._model.trainable_variables)

    def read_items(self, most: int) -> None:
        """Read this many items, repeating them where the test set has fewer."""
        if len(self._items) < most:
            self._items = repeated(self._recipe.test_items(most), most).images

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return wanted

    def keep_whole(self, why: str) -> bool:  # noqa: ARG002  items of the catalogue can be cut to every size
        return False

    def take(self, batch: int) -> None:
        self._held = self._cut(batch)

    def call(self) -> None:
        with self._device():
            self._ask(self._model, self._held)

    def fence(self) -> None:
        """Do nothing: the network was awaited when it was built, and each call returns its answers on the host."""

    def let_go(self) -> None:
        self._held = None

    def prove(self, precision: str, batch: int) -> AnswerRun:
        """Answer with the timed network at its own precision; at another, with one that is asked in the same way."""
        own = precision == self._settings.precision
        self._engine.set_precision(precision)
        try:
            return self._answer(self._model if own else self._make(self._settings, precision), precision, batch)
        finally:
            self._engine.set_precision(self._settings.precision)

    def reference(self) -> AnswerReference:
        """Answer in float64 and float32; a network of the catalogue draws no random numbers when it answers."""
        self.read_items(PROOF_ITEMS)
        twin = self._answer(self._make(PLAIN, "fp32"), "fp32", PROOF_ITEMS)
        self._engine.allow_float64()
        model = self._make(PLAIN, "fp64")
        exact = self._answer(model, "fp64", PROOF_ITEMS)
        return AnswerReference(exact, twin, len(model.trainable_variables))

    def device_memory_bytes(self) -> int | Missing:
        return self._engine.peak_bytes(self._device_name)

    def _make(self, settings: Settings, precision: str) -> Any:
        with self._device():
            return self._recipe.answering(settings, precision)

    def _answer(self, model: Any, precision: str, batch: int) -> AnswerRun:
        items = self._cut(batch).astype("float64" if precision == "fp64" else "float32")
        with self._device():
            return make_answers(precision, np.asarray(self._ask(model, items)).ravel())

    def _cut(self, batch: int) -> Any:
        return np.ascontiguousarray(self._items[:batch])

    def _device(self) -> Any:
        return keras.device(self._engine.name_device(self._device_name))
