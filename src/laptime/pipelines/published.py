"""The authors' own ways of reading files, as slow as they were.

scenes-cnn: Keras's ImageDataGenerator - Pillow decodes the whole picture, nearest resize, four transforms drawn and
applied one image at a time, scaling, all in one interpreter; twelve threads each make a whole batch, ten are queued.
plates-cnn: a Sequence that reads one image after another in the training's own process when its batch is due, decoded
whole and resized as the example in Keras's documentation of Sequence does it, by scikit-image.
pets-densenet used PyTorch's DataLoader, which is in the torch room; what it does to one image is here, and for lanes
without PyTorch one image after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from laptime.errors import TrainingError
from laptime.pipelines.decode import SpoiltImageError, import_pillow, open_plain
from laptime.pipelines.draws import Turn, draw_turns, matrix_of
from laptime.pipelines.job import Job, Labels
from laptime.pipelines.numbering import Numbering, rng_of
from laptime.pipelines.resize import resize_smoothly
from laptime.pipelines.spoilt import Bad, Spoilt
from laptime.pipelines.warp import warp_linear

KERAS_THREADS = 12
KERAS_QUEUE = 10
TRIES = 50
Floats = npt.NDArray[np.float32]
Made = tuple[Floats, Labels]
ReadStill = Callable[[str, int, int], Floats]
PassOver = Callable[[str, str], None]


def read_turned(path: str, turn: Turn, height: int, width: int) -> Floats:
    """Read one training image of scenes-cnn."""
    pillow = import_pillow()
    picture = open_plain(path)
    if picture.size != (width, height):
        picture = picture.resize((width, height), pillow.Resampling.NEAREST)
    image = warp_linear(np.asarray(picture, np.float32), matrix_of(turn))
    image *= np.float32(1 / 255)
    return image


def read_smoothed(path: str, height: int, width: int) -> Floats:
    """Read one image of plates-cnn."""
    image = np.asarray(open_plain(path)) / 255.0
    return resize_smoothly(image, height, width).astype(np.float32)


def read_plain(path: str, height: int, width: int) -> Floats:
    """Read one image of pets-densenet: decoded whole, resized linearly, scaled."""
    pillow = import_pillow()
    picture = open_plain(path)
    if picture.size != (width, height):
        picture = picture.resize((width, height), pillow.Resampling.BILINEAR)
    return np.asarray(picture, np.float32) / np.float32(255)


class Reading:
    """Makes batch number N in the authors' way, one image after another; what gives no picture is passed over."""

    def __init__(self, job: Job, read_still: ReadStill, pass_over: PassOver) -> None:
        self._job, self._pass_over = job, pass_over
        self._numbering = Numbering(len(job.paths), job.batch, job.seed)
        self._labels = np.array(job.labels, np.int64)
        self._read_still = read_still

    def __call__(self, number: int) -> Made:
        chosen = self._numbering(number)
        turns = draw_turns(rng_of(self._job.seed, number), len(chosen))
        read = [self._sound_one(int(item), turn) for item, turn in zip(chosen, turns, strict=True)]
        return np.stack([image for image, _ in read]), self._labels[[item for _, item in read]]

    def _sound_one(self, item: int, turn: Turn) -> tuple[Floats, int]:
        job = self._job
        for each in range(item, item + TRIES):
            index = each % len(job.paths)
            try:
                if job.turned:
                    return read_turned(job.paths[index], turn, job.height, job.width), index
                return self._read_still(job.paths[index], job.height, job.width), index
            except SpoiltImageError as error:
                self._pass_over(job.paths[index], str(error))
        raise TrainingError(f"{TRIES} images one after another cannot be used, from {job.paths[item]} on")


class InPlace:
    """The same in a worker, whose places hold floats where a job is to be done in the authors' way."""

    def __init__(self, job: Job) -> None:
        self._bad: list[Bad] = []
        read_still = read_plain if job.way == "plain" else read_smoothed
        self._read = Reading(job, read_still, lambda path, reason: self._bad.append((path, reason)))

    def __call__(self, number: int, images: Floats, labels: Labels) -> list[Bad]:
        """Make batch `number`; give the files that had to be passed over."""
        self._bad.clear()
        images[:], found = self._read(number)
        labels[:] = found.reshape(labels.shape)
        return list(self._bad)


class OneByOne:
    """A batch is made when it is due, in the training's own process and thread."""

    ready_batches = 0
    holds = False

    def __init__(self, job: Job, first: int, read_still: ReadStill = read_smoothed) -> None:
        self._spoilt = Spoilt(len(job.paths))
        self._read, self._number = Reading(job, read_still, self._spoilt.add), first

    def __call__(self) -> Made:
        made = self._read(self._number)
        self._number += 1
        return made

    def repeat(self) -> None:
        """Nothing is held, so that a batch costs the same again."""

    def notes(self) -> tuple[str, ...]:
        return self._spoilt.notes()

    def close(self) -> None:
        """Nothing is held but memory."""


class QueuedThreads:
    """Threads of the training's own process make the coming batches, which are given in order."""

    holds = False

    def __init__(self, job: Job, first: int, threads: int = KERAS_THREADS, queue: int = KERAS_QUEUE) -> None:
        self._spoilt = Spoilt(len(job.paths))
        self._read, self._next = Reading(job, read_smoothed, self._spoilt.add), first
        self.ready_batches = queue
        self._pool = ThreadPoolExecutor(threads, "generator")
        self._queue: deque[Future[Made]] = deque()
        for _ in range(queue):
            self._ask()

    def __call__(self) -> Made:
        made = self._queue.popleft().result()
        self._ask()
        return made

    def repeat(self) -> None:
        """Nothing is held, so that a batch costs the same again."""

    def notes(self) -> tuple[str, ...]:
        return self._spoilt.notes()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> None:
        self._queue.append(self._pool.submit(self._read, self._next))
        self._next += 1
