"""How `fit` gets its batches: arrays as Keras's users give them, or image files by the authors' loader or by ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from laptime.backends.keras.driving import ENDLESS, Drive
from laptime.backends.keras.image_files import Generated, Numbered, Stock, shape_labels
from laptime.backends.keras.one_thread import OneThread
from laptime.backends.keras.recipe import Recipe, steps_at_once
from laptime.model.lane import Settings
from laptime.pipelines import Job, Pipeline, make_job, open_fast_pipeline, open_published_pipeline
from laptime.pipelines.published import KERAS_QUEUE, KERAS_THREADS
from laptime.pipelines.room import workers_for

READ_AHEAD = 8  # batches that an engine may have taken from its data set before their turn; JAX takes 2
FROM_MEMORY = {"cached", "resident", "one", "copy"}
ON_DEVICE = {"resident", "one"}


class Feed(ABC):
    """Calls `fit` on a lane's data, on its device. `as-written` shows Keras's progress bar, as the authors saw it."""

    ready_batches = 0
    holds = False

    def __init__(self, batch: int, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        self.batch, self.at_once, self.device = batch, at_once, device
        self._verbose: str | int = "auto" if settings.preset == "as-written" else 0

    @abstractmethod
    def epoch_steps(self) -> int:
        """Give how many steps Keras counts as an epoch here."""

    @abstractmethod
    def data(self, first: int) -> dict[str, Any]:
        """Give what `fit` is told of its data, from batch number `first` of an endless training on."""

    def drive(self, model: Any, one_thread: OneThread, first: int = 0) -> Drive:
        data = self.data(first)
        return Drive(
            model,
            lambda held: self._fit(model, held, data),
            one_thread,
            steps_an_epoch=self.epoch_steps(),
            verbose=self._verbose,
            trouble=self.trouble,
        )

    @abstractmethod
    def sample(self) -> tuple[Any, Any]:
        """Give inputs and targets of a batch's shapes, whatever they hold."""

    def build(self, model: Any) -> None:
        """Have Keras build its metrics now: doing so draws from the random numbers that dropout goes on with."""
        inputs, targets = self.sample()
        with self.device():
            model.evaluate(inputs, targets, self.batch, verbose=0)

    def trouble(self) -> Exception | None:
        """Tell what went wrong in the data, where that is known better than by the engine's own words."""
        return None

    def _whole(self, steps: int) -> int:
        """Cut an epoch to as many steps as are taken at once, or a multiple."""
        return max(1, steps // self.at_once) * self.at_once

    def repeat(self) -> None:  # noqa: B027  most have nothing to do
        """A batch costs the same again, unless a feed says otherwise."""

    def close(self) -> tuple[str, ...]:
        """Let go of threads and memory, and say what had to be left out."""
        return ()

    def _fit(self, model: Any, held: Any, data: dict[str, Any]) -> None:
        with self.device():
            model.fit(**data, epochs=ENDLESS, verbose=self._verbose, callbacks=held)


class BuiltInFeed(Feed):
    """One for a workload of the catalogue."""

    def __init__(self, recipe: Recipe, settings: Settings, device: Callable[[], Any]) -> None:
        super().__init__(settings.batch or recipe.workload.batch, steps_at_once(settings), settings, device)
        self._workload = recipe.workload

    def sample(self) -> tuple[Any, Any]:
        workload = self._workload
        images = np.zeros((self.batch, *workload.image_shape), np.float32)
        labels = np.zeros((self.batch, *workload.outputs[:-1]), np.int64).reshape(self.batch, -1)
        return images, shape_labels(workload, labels)


class FromMemory(BuiltInFeed):
    """Arrays on the host, or, where they are to be resident, in the engine's own kind on the lane's device."""

    def __init__(self, recipe: Recipe, settings: Settings, device: Callable[[], Any]) -> None:
        super().__init__(recipe, settings, device)
        self._shuffles = settings.input in {"published", "only"}
        self._images, self._labels = recipe.training_arrays(self.batch, self.at_once)
        if settings.input == "one":
            first = self.batch * self.at_once
            self._images, self._labels = self._images[:first], self._labels[:first]
        if settings.input in ON_DEVICE:
            with device():
                self._images, self._labels = map(keras.ops.convert_to_tensor, (self._images, self._labels))

    def epoch_steps(self) -> int:
        return int(self._labels.shape[0]) // self.batch

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  Keras shuffles by the seed that it is given
        return {"x": self._images, "y": self._labels, "batch_size": self.batch, "shuffle": self._shuffles}


class FromGenerator(BuiltInFeed):
    """The authors' ImageDataGenerator with its threads. An epoch is what it counts as one: each file once."""

    ready_batches = KERAS_QUEUE + KERAS_THREADS

    def __init__(self, recipe: Recipe, settings: Settings, device: Callable[[], Any], job: Job) -> None:
        super().__init__(recipe, settings, device)
        self._job = job

    def epoch_steps(self) -> int:
        return self._whole(len(self._job.paths) // self.batch)

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  its threads draw in no order that could be met again
        return {"x": Generated(self._job, self._workload, self.at_once), "shuffle": False}


class FromPipeline(BuiltInFeed):
    """One of laptime's pipelines, as a Sequence."""

    def __init__(
        self, recipe: Recipe, settings: Settings, device: Callable[[], Any], open_at: Callable[[int], Pipeline]
    ) -> None:
        super().__init__(recipe, settings, device)
        self._stock = Stock(open_at, recipe.workload)

    @property
    def ready_batches(self) -> int:  # type: ignore[override]
        return self._stock.pipeline().ready_batches + READ_AHEAD

    @property
    def holds(self) -> bool:  # type: ignore[override]
        return self._stock.pipeline().holds

    def epoch_steps(self) -> int:
        return self._whole(self._workload.steps_per_lap)

    def data(self, first: int) -> dict[str, Any]:
        return {"x": Numbered(self._stock, first), "steps_per_epoch": self.epoch_steps(), "shuffle": False}

    def repeat(self) -> None:
        self._stock.repeat()

    def close(self) -> tuple[str, ...]:
        return self._stock.close()


def open_feed(recipe: Recipe, settings: Settings, device: Callable[[], Any], device_kind: str) -> Feed:
    """Give the feed that the lane's settings name."""
    workload = recipe.workload
    if recipe.data is None or not workload.reads_files or settings.input in FROM_MEMORY:
        return FromMemory(recipe, settings, device)
    job = make_job(workload, recipe.data, "train", settings.batch or workload.batch, recipe.seed)
    if settings.input == "fast" or (settings.input == "only" and settings.preset != "as-written"):
        workers = workers_for(settings, device_kind)
        return FromPipeline(recipe, settings, device, lambda first: open_fast_pipeline(job, workers, first))
    workers = settings.workers or 0
    if workload.loader == "threads" and not workers:
        return FromGenerator(recipe, settings, device, job)
    return FromPipeline(recipe, settings, device, lambda first: open_published_pipeline(workload, job, first, workers))
