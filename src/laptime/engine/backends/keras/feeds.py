"""How `fit` gets its batches: arrays as Keras's users pass them, or image files by the authors' loader or ours."""

from __future__ import annotations

import io
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.legacy.preprocessing.image import BatchFromFilesMixin, ImageDataGenerator
from keras.src.legacy.preprocessing.image import Iterator as ImageIterator
from keras.src.trainers.epoch_iterator import EpochIterator

from laptime.engine.backends.base import UnseenWeights
from laptime.engine.backends.keras.engines import Engine, KerasThread
from laptime.engine.backends.keras.fit import ENDLESS, FitRun
from laptime.engine.backends.keras.recipe import KerasRecipe, labels_for, steps_at_once
from laptime.engine.pipelines import LoaderJob, Pipeline, make_job, open_fast_pipeline, open_published_pipeline
from laptime.engine.pipelines.decode import (
    KERAS_QUEUE,
    KERAS_THREADS,
    ROTATION_DEGREES,
    SHEAR_DEGREES,
    ZOOM_MOST,
    DamagedImageError,
    check_file,
    limit_pixels,
)
from laptime.engine.pipelines.job import workers_for
from laptime.model.errors import LaneError, TrainingError
from laptime.model.process import KEPT_INPUTS, Settings
from laptime.model.quantities import Missing
from laptime.model.symptoms import StepSymptoms
from laptime.model.workload import Workload

BATCHES_KEPT = 10  # an engine reads at most eight batches ahead, and asks again for those that it dropped
FedBatch = tuple[npt.NDArray[np.float32], npt.NDArray[Any]]
READ_AHEAD = 8  # batches that an engine may have taken from its data set too early; JAX takes 2
ON_DEVICE = {"resident", "one"}


def shape_labels(workload: Workload, labels: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return a batch's labels, one row per item, in the form that the loss takes."""
    return labels_for(workload, labels[:, 0] if labels.shape[1] == 1 else labels)


class ImageGenerator(BatchFromFilesMixin, ImageIterator):
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
        self.dtype = "float32"
        self.class_mode = "raw"
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
        self._open_at = open_at
        self._workload = workload
        self._pipeline: Pipeline | None = None
        self._kept: dict[int, FedBatch] = {}
        self._next = 0
        self._lock = threading.Lock()

    def pipeline(self, first: int = 0) -> Pipeline:
        """Return the pipeline; open it at this batch if it is not open."""
        if self._pipeline is None:
            self._pipeline = self._open_at(first)
            self._next = first
        return self._pipeline

    def __call__(self, number: int) -> FedBatch:
        with self._lock:
            if number < self._next and number not in self._kept:
                self._close()
            pipeline = self.pipeline(number)
            while self._next <= number:
                images, labels = pipeline()
                # Copy what the pipeline will overwrite, as floats from 0 to 1.
                if images.dtype == np.uint8:
                    images = np.multiply(images, np.float32(1 / 255), dtype=np.float32)
                rows = np.array(labels, np.int64).reshape(len(labels), -1)
                self._kept[self._next] = images, shape_labels(self._workload, rows)
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
        pipeline = self._pipeline
        self._pipeline = None
        self._kept.clear()
        if pipeline is None:
            return ()
        pipeline.close()
        return pipeline.notes()


class NumberedBatches(keras.utils.PyDataset):
    """The batches of a cache from one number on, without end, as a Sequence that Keras reads in order."""

    def __init__(self, stock: BatchCache, first: int) -> None:
        super().__init__()
        self._stock = stock
        self._first = first

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> FedBatch:
        return self._stock(self._first + index)


class Feed(ABC):
    """Calls `fit` on a lane's data, on its device. As written, it shows Keras's progress bar, as for the authors."""

    ready_batches = 0
    holds = False

    def __init__(self, batch: int, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        self.batch = batch
        self.at_once = at_once
        self.device = device
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
            self._images = self._images[:first]
            self._labels = self._labels[:first]
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
    if recipe.data is None or not workload.reads_files or settings.input in KEPT_INPUTS:
        return MemoryFeed(recipe, settings, device)
    job = make_job(workload, recipe.data, "train", settings.batch or workload.batch, recipe.seed)
    if settings.input == "fast" or (settings.input == "only" and settings.preset != "as-written"):
        workers = workers_for(settings, device_kind)
        return PipelineFeed(recipe, settings, device, lambda first: open_fast_pipeline(job, workers, first))
    workers = settings.workers or 0
    if workload.loader == "threads" and not workers:
        return GeneratorFeed(recipe, settings, device, job)
    return PipelineFeed(recipe, settings, device, lambda first: open_published_pipeline(workload, job, first, workers))


# One stage of a Keras training alone (loader, copy), and a step in parts: the batch, then `train_on_batch` on it.
#
# `fit` takes its batches itself, in the middle of its step. So it is ended first, and this module iterates over its
# data.

FIT_ARGUMENTS = ("x", "y", "sample_weight")
WARM_UP = 2  # the first step on a batch passed in this way may be traced again
COPIES_IN_STEP = Missing("Keras brings a batch to the device within its step")
KERAS_READS_NOT_SEEN = Missing("what a step of Keras's reads is not looked into")
CHUNK_NUMBERS = 1 << 22
NUMPY_FLOAT_BITS: dict[int, tuple[Any, int, int]] = {
    4: (np.uint32, 0x7F800000, 0x007FFFFF),
    8: (np.uint64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
}


class AwaitedBatch:
    """A batch in the form of a model, so that an engine can wait for it."""

    def __init__(self, batch: Any) -> None:
        tensors = [leaf for leaf in keras.tree.flatten(batch) if keras.ops.is_tensor(leaf)]
        self.variables = [SimpleNamespace(value=tensor) for tensor in tensors]


class StageRunner(UnseenWeights, ABC):
    """Takes batches in Keras's own thread, without training."""

    evaluator = None
    outside_ns = 0
    ranks = None

    def __init__(self, feed: Feed, engine: Engine, one_thread: KerasThread) -> None:
        self._feed = feed
        self._engine = engine
        self._one_thread = one_thread
        self.stride = feed.at_once
        self.ready_batches = feed.ready_batches
        self.holds = feed.holds
        self._batches: Iterator[Any] | None = None
        self._last: Any = None

    @abstractmethod
    def batches(self) -> Iterator[Any]:
        """Yield the batches of one stride after another, without end."""

    def run(self, steps: int) -> None:
        self._one_thread(lambda: self._take(steps // self.stride))

    def take(self) -> Any:
        """Return the batches of one stride."""
        self.run(self.stride)
        return self._last

    def run_marked(self, steps: int) -> Sequence[object]:
        self.run(steps)
        return ()

    def fence(self) -> None:
        if self._last is not None:
            self._one_thread(lambda: self._engine.await_model(AwaitedBatch(self._last)))

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        return ()

    def loss(self) -> float:
        """Return 0: there is no loss, and the loop only checks that it is finite."""
        return 0.0

    def repeat(self) -> None:
        self._feed.repeat()

    def parts(self) -> Missing:
        return Missing("this lane has one stage alone")

    def census(self) -> Missing:
        return Missing("this lane has one stage alone")

    def close(self) -> tuple[str, ...]:
        self._batches = None
        return self._feed.close()

    def _take(self, strides: int) -> None:
        """Take some strides' batches. The iterator is kept between calls: an engine may have its own threads."""
        with self._feed.device():
            if self._batches is None:
                self._batches = self.batches()
            try:
                for _ in range(strides):
                    self._last = next(self._batches)
            except Exception as error:
                raise self._feed.trouble() or error from error


class KerasLoaderRunner(StageRunner):
    """Iterates over the data as `fit` does, without training."""

    def batches(self) -> Iterator[Any]:
        epochs = self._engine.epochs(self._feed.data(0), self.stride)
        while True:
            iter(epochs)
            is_empty = True
            while True:
                try:  # by Keras's own iterator: some engines' iterators leave that to their step
                    _, _, batches = EpochIterator.__next__(epochs)
                except StopIteration:
                    break
                is_empty = False
                yield batches
            if is_empty:
                raise LaneError(
                    "its data give no batch any more", "give data that can be walked through again and again"
                )


class KerasCopyRunner(StageRunner):
    """Converts batches from host memory to tensors of the engine on the lane's device, one after another."""

    def __init__(
        self, feed: Feed, engine: Engine, one_thread: KerasThread, convert: Callable[[Any], Any] | None = None
    ) -> None:
        super().__init__(feed, engine, one_thread)
        self._convert = convert or keras.ops.convert_to_tensor

    def batches(self) -> Iterator[Any]:
        arguments = self._feed.data(0)
        parts = [arguments[name] for name in FIT_ARGUMENTS if name in arguments]
        size = self._feed.batch
        strides = max(1, self._feed.epoch_steps() // self.stride)
        for number in itertools.cycle(range(strides)):
            first = number * self.stride * size
            yield [
                keras.tree.map_structure(lambda array, start=start: self._convert(array[start : start + size]), parts)
                for start in range(first, first + self.stride * size, size)
            ]


class KerasStepParts:
    """Steps of a model whose `fit` has ended."""

    stride = 1

    def __init__(self, model: Any, feed: Feed, engine: Engine, one_thread: KerasThread) -> None:
        self._model = model
        self._feed = feed
        self._engine = engine
        self._one_thread = one_thread
        self._loader = KerasLoaderRunner(feed, engine, one_thread)
        for _ in range(WARM_UP):
            self.compute(self.fetch())
        self._compiled = engine.compiled()

    def fetch(self) -> Any:
        (batch,) = self._loader.take()
        return batch

    def move(self, batch: Any) -> Any:
        """Return the batch as it is: Keras moves it within its step."""
        return batch

    def compute(self, batch: Any) -> None:
        self._one_thread(lambda: self._step(batch))

    def describe(self, batch: Any) -> Hashable:
        return tuple(tuple(np.shape(leaf)) for leaf in keras.tree.flatten(batch) if leaf is not None)

    def look(self, _steps: int, _timed: int) -> StepSymptoms:
        before = self._compiled
        now = self._engine.compiled()
        compiles = now if isinstance(now, Missing) or isinstance(before, Missing) else now - before
        own = COPIES_IN_STEP
        symptoms = StepSymptoms(0, copy_ns=own, copied_bytes=own, copied_arrays=own, reads=KERAS_READS_NOT_SEEN,
                     compiles=compiles, threads=self._engine.threads())  # fmt: skip
        return replace(symptoms, denormals=self._one_thread(self._denormals))

    def _step(self, batch: Any) -> None:
        with self._feed.device():
            self._model.train_on_batch(*batch)

    def _denormals(self) -> float:
        """Return the share among the model's variables or the optimizer's, the larger of the two."""
        held = (self._model.variables, self._model.optimizer.variables)
        return max(share_of_denormals(variable.numpy() for variable in variables) for variables in held)


def share_of_denormals(arrays: Iterable[npt.NDArray[Any]]) -> float:
    """Return the share of denormal numbers: all bits of their exponent are 0, and their fraction is not 0."""
    found = numbers = 0
    for array in arrays:
        if array.dtype.kind != "f" or array.itemsize not in NUMPY_FLOAT_BITS:
            continue
        kind, exponent, fraction = NUMPY_FLOAT_BITS[array.itemsize]
        bits = np.ascontiguousarray(array).reshape(-1).view(kind)
        numbers += bits.size
        for start in range(0, bits.size, CHUNK_NUMBERS):
            part = bits[start : start + CHUNK_NUMBERS]
            found += int(np.count_nonzero(((part & kind(exponent)) == 0) & ((part & kind(fraction)) != 0)))
    return found / max(1, numbers)
