"""Image files as `fit` takes them: Keras's own ImageDataGenerator, and a data set of Keras's kind over any pipeline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras.src.legacy.preprocessing.image import BatchFromFilesMixin, ImageDataGenerator, Iterator

from laptime.backends.keras.networks import labels_for
from laptime.model.workload import Workload
from laptime.pipelines import Job, Pipeline
from laptime.pipelines.draws import ROTATION_DEGREES, SHEAR_DEGREES, ZOOM_MOST
from laptime.pipelines.published import KERAS_QUEUE, KERAS_THREADS

KEPT = 10  # batches; an engine that reads ahead takes eight at most, and what it took too early is asked for again
Batch = tuple[npt.NDArray[np.float32], npt.NDArray[Any]]


def shape_labels(workload: Workload, labels: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Give a batch's labels, one row an item, as the loss takes them."""
    return labels_for(workload, labels[:, 0] if labels.shape[1] == 1 else labels)


class Generated(BatchFromFilesMixin, Iterator):
    """What `flow_from_directory` gives, on files that laptime has listed: whole batches of a set that may be split.

    Decoding, nearest resize, transforms, scaling, threads and queue are Keras's own.
    """

    def __init__(self, job: Job, workload: Workload, at_once: int = 1) -> None:
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
        """Leave a lap's last, shorter batch out, and what is fewer than are taken at once: it would be another step."""
        return max(1, int(self.n // self.batch_size) // self._at_once) * self._at_once

    @property
    def filepaths(self) -> tuple[str, ...]:
        return self._paths

    @property
    def labels(self) -> npt.NDArray[Any]:
        return self._labels

    @property
    def sample_weight(self) -> None:
        return None


class Stock:
    """A pipeline's batches by their number, each made once; the newest are kept.

    An engine reads ahead, and drops what it has not used when `fit` ends: the next call begins with those.
    """

    def __init__(self, open_at: Callable[[int], Pipeline], workload: Workload) -> None:
        self._open_at, self._workload = open_at, workload
        self._pipeline: Pipeline | None = None
        self._kept: dict[int, Batch] = {}
        self._next = 0
        self._lock = threading.Lock()

    def pipeline(self, first: int = 0) -> Pipeline:
        """Give the pipeline, opened at this batch if it is not open."""
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
                self._kept.pop(self._next - KEPT, None)
                self._next += 1
            return self._kept[number]

    def repeat(self) -> None:
        with self._lock:
            self.pipeline().repeat()

    def close(self) -> tuple[str, ...]:
        """End the pipeline, and say what it had to leave out."""
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
        """Copy what the pipeline will write over, as floats from 0 to 1."""
        images, labels = pipeline()
        if images.dtype == np.uint8:
            images = np.multiply(images, np.float32(1 / 255), dtype=np.float32)
        return images, shape_labels(self._workload, np.array(labels, np.int64).reshape(len(labels), -1))


class Numbered(keras.utils.PyDataset):
    """A stock's batches from one number on, without end: a Sequence that is asked for one batch after another."""

    def __init__(self, stock: Stock, first: int) -> None:
        super().__init__()
        self._stock, self._first = stock, first

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> Batch:
        return self._stock(self._first + index)
