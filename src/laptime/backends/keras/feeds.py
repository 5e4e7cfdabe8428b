"""How `fit` gets its batches: arrays as Keras's users pass them, or image files by the authors' loader or ours."""

from __future__ import annotations

import io
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.legacy.preprocessing.image import BatchFromFilesMixin, ImageDataGenerator, Iterator

from laptime.backends.keras.fit import ENDLESS, FitRun
from laptime.backends.keras.one_thread import KerasThread
from laptime.backends.keras.recipe import KerasRecipe, labels_for, steps_at_once
from laptime.errors import TrainingError
from laptime.model.lane import KEPT, Settings
from laptime.model.workload import Workload
from laptime.pipelines import LoaderJob, Pipeline, make_job, open_fast_pipeline, open_published_pipeline
from laptime.pipelines.decode import DamagedImageError, check_file, limit_pixels
from laptime.pipelines.job import workers_for
from laptime.pipelines.published import KERAS_QUEUE, KERAS_THREADS
from laptime.pipelines.transforms import ROTATION_DEGREES, SHEAR_DEGREES, ZOOM_MOST

BATCHES_KEPT = 10  # an engine reads at most eight batches ahead, and asks again for those that it dropped
Batch = tuple[npt.NDArray[np.float32], npt.NDArray[Any]]
READ_AHEAD = 8  # batches that an engine may have taken from its data set too early; JAX takes 2
ON_DEVICE = {"resident", "one"}


def shape_labels(workload: Workload, labels: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return a batch's labels, one row per item, in the form that the loss takes."""
    return labels_for(workload, labels[:, 0] if labels.shape[1] == 1 else labels)


class ImageGenerator(BatchFromFilesMixin, Iterator):
    """What `flow_from_directory` returns, on files that laptime has listed: whole batches of a set that may be split.

    Decoding, nearest-neighbour resize, transforms, scaling, threads and queue are Keras's own. A file that is no image
    ends the training.
    """

    def __init__(self, job: LoaderJob, workload: Workload, at_once: int = 1) -> None:
        limit_pixels()
        self._at_once = at_once
        turned = {
            "rotation_range": ROTATION_DEGREES,
            "shear_range": SHEAR_DEGREES,
            "zoom_range": ZOOM_MOST - 1,
            "horizontal_flip": True,
        }
        generator = ImageDataGenerator(rescale=1 / 255, **(turned if job.turned else {}))
        size = (job.height, job.width)
        self.set_processing_attrs(
            generator, size, "rgb", "channels_last", None, "", "png", None, "nearest", keep_aspect_ratio=False
        )
        self.dtype, self.class_mode = "float32", "raw"
        self._paths = job.paths
        self._labels = shape_labels(workload, np.array(job.labels, np.int64))
        super().__init__(
            len(job.paths), job.batch, shuffle=True, seed=None, workers=KERAS_THREADS, max_queue_size=KERAS_QUEUE
        )

    def __len__(self) -> int:
        """Leave out a lap's last, shorter batch, and batches that do not fill a call: they would be another step."""
        return max(1, int(self.n // self.batch_size) // self._at_once) * self._at_once

    @property
    def filepaths(self) -> CheckedImageFiles:
        return CheckedImageFiles(self._paths)

    @property
    def labels(self) -> npt.NDArray[Any]:
        return self._labels

    @property
    def sample_weight(self) -> None:
        return None


class CheckedImageFiles:
    """Files by number. Keras would open any image format that Pillow knows; these are checked before it reads them."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self._paths = paths

    def __getitem__(self, index: int) -> io.BytesIO:
        try:
            return check_file(self._paths[index])
        except DamagedImageError as error:
            raise TrainingError(
                f"{self._paths[index]} {error}", "remove this file, or give workers=N: then it is passed over"
            ) from None


class BatchCache:
    """A pipeline's batches by number, each made once; the newest are kept.

    An engine reads ahead, and drops the batches that it has not used when `fit` ends: the next call starts with those.
    """

    def __init__(self, open_at: Callable[[int], Pipeline], workload: Workload) -> None:
        self._open_at, self._workload = open_at, workload
        self._pipeline: Pipeline | None = None
        self._kept: dict[int, Batch] = {}
        self._next = 0
        self._lock = threading.Lock()

    def pipeline(self, first: int = 0) -> Pipeline:
        """Return the pipeline; open it at this batch if it is not open."""
        if self._pipeline is None:
            self._pipeline, self._next = self._open_at(first), first
        return self._pipeline

    def __call__(self, number: int) -> Batch:
        with self._lock:
            if number < self._next and number not in self._kept:
                self._close()
            pipeline = self.pipeline(number)
            while self._next <= number:
                self._kept[self._next] = self._made(pipeline)
                self._kept.pop(self._next - BATCHES_KEPT, None)
                self._next += 1
            return self._kept[number]

    def repeat(self) -> None:
        with self._lock:
            self.pipeline().repeat()

    def close(self) -> tuple[str, ...]:
        """End the pipeline, and return notes on what it left out."""
        with self._lock:
            return self._close()

    def _close(self) -> tuple[str, ...]:
        pipeline, self._pipeline = self._pipeline, None
        self._kept.clear()
        if pipeline is None:
            return ()
        pipeline.close()
        return pipeline.notes()

    def _made(self, pipeline: Pipeline) -> Batch:
        """Copy what the pipeline will overwrite, as floats from 0 to 1."""
        images, labels = pipeline()
        if images.dtype == np.uint8:
            images = np.multiply(images, np.float32(1 / 255), dtype=np.float32)
        return images, shape_labels(self._workload, np.array(labels, np.int64).reshape(len(labels), -1))


class NumberedBatches(keras.utils.PyDataset):
    """The batches of a cache from one number on, without end, as a Sequence that Keras reads in order."""

    def __init__(self, stock: BatchCache, first: int) -> None:
        super().__init__()
        self._stock, self._first = stock, first

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> Batch:
        return self._stock(self._first + index)


class Feed(ABC):
    """Calls `fit` on a lane's data, on its device. As written, it shows Keras's progress bar, as for the authors."""

    ready_batches = 0
    holds = False

    def __init__(self, batch: int, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        self.batch, self.at_once, self.device = batch, at_once, device
        self._verbose: str | int = 0 if settings.value_of("progress") == "off" else "auto"

    @abstractmethod
    def epoch_steps(self) -> int:
        """Return how many steps Keras counts as an epoch here."""

    @abstractmethod
    def data(self, first: int) -> dict[str, Any]:
        """Return the arguments of `fit` for its data, from batch number `first` of an endless training on."""

    def fit_run(self, model: Any, one_thread: KerasThread, first: int = 0) -> FitRun:
        data = self.data(first)
        return FitRun(
            model,
            lambda held: self._fit(model, held, data),
            one_thread,
            steps_an_epoch=self.epoch_steps(),
            verbose=self._verbose,
            trouble=self.trouble,
        )

    @abstractmethod
    def sample(self) -> tuple[Any, Any]:
        """Return inputs and targets with a batch's shapes; their values do not matter."""

    def build(self, model: Any) -> None:
        """Make Keras build its metrics now, since this draws from the random numbers that dropout uses later."""
        inputs, targets = self.sample()
        with self.device():
            model.evaluate(inputs, targets, self.batch, verbose=0)

    def trouble(self) -> Exception | None:
        """Return what went wrong in the data, where that is clearer than the engine's own error."""
        return None

    def _whole(self, steps: int) -> int:
        """Round an epoch's steps down to a multiple of the steps taken at once, at least one call."""
        return max(1, steps // self.at_once) * self.at_once

    def repeat(self) -> None:  # noqa: B027  most feeds have nothing to do
        """Repeat earlier batches from now on; by default nothing changes, as a batch costs the same again."""

    def close(self) -> tuple[str, ...]:
        """Free threads and memory; return notes on what was left out."""
        return ()

    def _fit(self, model: Any, held: Any, data: dict[str, Any]) -> None:
        with self.device():
            model.fit(**data, epochs=ENDLESS, verbose=self._verbose, callbacks=held)


class BuiltInFeed(Feed):
    """A feed for a workload of the catalogue."""

    def __init__(self, recipe: KerasRecipe, settings: Settings, device: Callable[[], Any]) -> None:
        super().__init__(settings.batch or recipe.workload.batch, steps_at_once(settings), settings, device)
        self._workload = recipe.workload

    def sample(self) -> tuple[Any, Any]:
        workload = self._workload
        images = np.zeros((self.batch, *workload.image_shape), np.float32)
        labels = np.zeros((self.batch, *workload.outputs[:-1]), np.int64).reshape(self.batch, -1)
        return images, shape_labels(workload, labels)


class MemoryFeed(BuiltInFeed):
    """Arrays on the host or, if they must be resident, tensors of the engine on the lane's device."""

    def __init__(self, recipe: KerasRecipe, settings: Settings, device: Callable[[], Any]) -> None:
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

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  Keras shuffles by the seed that was set
        return {"x": self._images, "y": self._labels, "batch_size": self.batch, "shuffle": self._shuffles}


class GeneratorFeed(BuiltInFeed):
    """The authors' ImageDataGenerator with its threads. As in Keras, an epoch is each file once."""

    ready_batches = KERAS_QUEUE + KERAS_THREADS

    def __init__(self, recipe: KerasRecipe, settings: Settings, device: Callable[[], Any], job: LoaderJob) -> None:
        super().__init__(recipe, settings, device)
        self._job = job

    def epoch_steps(self) -> int:
        return self._whole(len(self._job.paths) // self.batch)

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  its threads draw in an order that cannot be repeated
        return {"x": ImageGenerator(self._job, self._workload, self.at_once), "shuffle": False}


class PipelineFeed(BuiltInFeed):
    """One of laptime's pipelines, as a Sequence."""

    def __init__(
        self, recipe: KerasRecipe, settings: Settings, device: Callable[[], Any], open_at: Callable[[int], Pipeline]
    ) -> None:
        super().__init__(recipe, settings, device)
        self._stock = BatchCache(open_at, recipe.workload)

    @property
    def ready_batches(self) -> int:  # type: ignore[override]
        return self._stock.pipeline().ready_batches + READ_AHEAD

    @property
    def holds(self) -> bool:  # type: ignore[override]
        return self._stock.pipeline().holds

    def epoch_steps(self) -> int:
        return self._whole(self._workload.steps_per_lap)

    def data(self, first: int) -> dict[str, Any]:
        return {"x": NumberedBatches(self._stock, first), "steps_per_epoch": self.epoch_steps(), "shuffle": False}

    def repeat(self) -> None:
        self._stock.repeat()

    def close(self) -> tuple[str, ...]:
        return self._stock.close()


def open_feed(recipe: KerasRecipe, settings: Settings, device: Callable[[], Any], device_kind: str) -> Feed:
    """Return the feed that the lane's settings name."""
    workload = recipe.workload
    if recipe.data is None or not workload.reads_files or settings.input in KEPT:
        return MemoryFeed(recipe, settings, device)
    job = make_job(workload, recipe.data, "train", settings.batch or workload.batch, recipe.seed)
    if settings.input == "fast" or (settings.input == "only" and settings.preset != "as-written"):
        workers = workers_for(settings, device_kind)
        return PipelineFeed(recipe, settings, device, lambda first: open_fast_pipeline(job, workers, first))
    workers = settings.workers or 0
    if workload.loader == "threads" and not workers:
        return GeneratorFeed(recipe, settings, device, job)
    return PipelineFeed(recipe, settings, device, lambda first: open_published_pipeline(workload, job, first, workers))
