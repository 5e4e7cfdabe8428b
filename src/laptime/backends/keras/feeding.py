"""How `fit` gets its batches: arrays in memory, as Keras's users give them. The planner lets nothing else come here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.backends.keras.driving import ENDLESS, Drive
from laptime.backends.keras.recipe import Recipe
from laptime.model.lane import Settings


class Feed:
    """Calls `fit` on a lane's data, on its device. `as-written` shows Keras's progress bar, as the authors saw it."""

    def __init__(self, recipe: Recipe, settings: Settings, device: Callable[[], Any]) -> None:
        self.device = device
        self.batch = settings.batch or recipe.workload.batch
        self._verbose: str | int = "auto" if settings.preset == "as-written" else 0
        self._shuffles = settings.input == "published"
        self._images, self._labels = recipe.training_arrays(self.batch)

    def drive(self, model: Any) -> Drive:
        steps = len(self._labels) // self.batch
        return Drive(model, lambda held: self._fit(model, held), steps_an_epoch=steps, verbose=self._verbose)

    def build(self, model: Any) -> None:
        """Have Keras build its metrics now: doing so draws from the random numbers that dropout goes on with."""
        with self.device():
            model.evaluate(self._images[: self.batch], self._labels[: self.batch], self.batch, verbose=0)

    def _fit(self, model: Any, held: Any) -> None:
        with self.device():
            model.fit(
                self._images,
                self._labels,
                batch_size=self.batch,
                epochs=ENDLESS,
                verbose=self._verbose,
                callbacks=held,
                shuffle=self._shuffles,
            )
