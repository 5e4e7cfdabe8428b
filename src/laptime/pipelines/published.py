"""The authors' own ways of reading files, as slow as they were.

scenes-cnn: Keras's ImageDataGenerator. Pillow decodes the whole image and resizes it to the nearest pixel; four random
transforms and the scaling are applied one image at a time, all in one interpreter. Twelve threads each make a whole
batch, and ten batches are queued.
plates-cnn: a Sequence. It reads one image after another in the training's own process when the batch is due. An image
is decoded whole and resized by scikit-image, as in the example of Keras's documentation of Sequence.
pets-densenet: PyTorch's DataLoader, which is in the torch room. What it does to one image is here; lanes without
PyTorch read one image after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from laptime.errors import TrainingError
from laptime.pipelines.decode import Bad, DamagedImageError, DamagedImages, import_pillow, open_plain
from laptime.pipelines.job import BatchOrder, Labels, LoaderJob, rng_of
from laptime.pipelines.transforms import Turn, draw_turns, matrix_of, resize_smoothly, warp_linear

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


class AuthorsReader:
    """Makes batch number N in the authors' way, one image after another. Damaged images are skipped."""

    def __init__(self, job: LoaderJob, read_still: ReadStill, pass_over: PassOver) -> None:
        self._job, self._pass_over = job, pass_over
        self._order = BatchOrder(len(job.paths), job.batch, job.seed)
        self._labels = np.array(job.labels, np.int64)
        self._read_still = read_still

    def __call__(self, number: int) -> Made:
        chosen = self._order(number)
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
            except DamagedImageError as error:
                self._pass_over(job.paths[index], str(error))
        raise TrainingError(f"{TRIES} images one after another cannot be used, from {job.paths[item]} on")


class AuthorsBatchMaker:
    """The same in a worker process, into slots that hold floats."""

    def __init__(self, job: LoaderJob) -> None:
        self._bad: list[Bad] = []
        read_still = read_plain if job.way == "plain" else read_smoothed
        self._read = AuthorsReader(job, read_still, lambda path, reason: self._bad.append((path, reason)))

    def __call__(self, number: int, images: Floats, labels: Labels) -> list[Bad]:
        """Make batch `number`. Return the files that were skipped."""
        self._bad.clear()
        images[:], found = self._read(number)
        labels[:] = found.reshape(labels.shape)
        return list(self._bad)


class _AuthorsLoader:
    """What the authors' loaders share. They hold no images, so making a batch again costs the same."""

    holds = False

    def __init__(self, job: LoaderJob, read_still: ReadStill) -> None:
        self._damaged = DamagedImages(len(job.paths))
        self._read = AuthorsReader(job, read_still, self._damaged.add)

    def repeat(self) -> None:
        """Do nothing: no images are held."""

    def notes(self) -> tuple[str, ...]:
        return self._damaged.notes()


class OneByOneLoader(_AuthorsLoader):
    """Makes a batch when it is due, in the training's own process and thread."""

    ready_batches = 0

    def __init__(self, job: LoaderJob, first: int, read_still: ReadStill = read_smoothed) -> None:
        super().__init__(job, read_still)
        self._number = first

    def __call__(self) -> Made:
        made = self._read(self._number)
        self._number += 1
        return made

    def close(self) -> None:
        """Do nothing: only memory is held."""


class QueuedLoader(_AuthorsLoader):
    """Makes the coming batches in threads of the training's own process, and returns them in order."""

    def __init__(self, job: LoaderJob, first: int, threads: int = KERAS_THREADS, queue: int = KERAS_QUEUE) -> None:
        super().__init__(job, read_smoothed)
        self._next = first
        self.ready_batches = queue
        self._pool = ThreadPoolExecutor(threads, "generator")
        self._queue: deque[Future[Made]] = deque()
        for _ in range(queue):
            self._ask()

    def __call__(self) -> Made:
        made = self._queue.popleft().result()
        self._ask()
        return made

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> None:
        self._queue.append(self._pool.submit(self._read, self._next))
        self._next += 1
