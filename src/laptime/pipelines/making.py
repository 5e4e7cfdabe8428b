"""Make a batch of our loader: decode no more than is needed, and apply all transforms as one map into the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from laptime.errors import TrainingError
from laptime.pipelines.decode import Bad, DamagedImageError, decode_small, import_pillow
from laptime.pipelines.job import BatchOrder, Labels, LoaderJob, rng_of
from laptime.pipelines.shared import PictureStore
from laptime.pipelines.transforms import NearestWarp, Pixels, draw_turns, matrix_of

TRIES = 50
Spread = Callable[[Callable[[int], Any], Iterable[int]], Iterable[Any]]


class BatchMaker:
    """Makes batches into given arrays. A batch depends on its number only."""

    def __init__(self, job: LoaderJob, held: PictureStore | None = None, spread: Spread = map) -> None:
        self._job, self._held, self._spread = job, held, spread
        self._order = BatchOrder(len(job.paths), job.batch, job.seed) if job.shuffled else None
        self._labels = np.array(job.labels, np.int64)
        self._warp = NearestWarp(job.height, job.width)

    def __call__(self, number: int, images: Pixels, labels: Labels) -> list[Bad]:
        """Make batch `number`. Return the files that were skipped."""
        chosen = self._chosen(number)
        rng = rng_of(self._job.seed, number)
        turns = draw_turns(rng, len(chosen)) if self._job.turned else []
        bad: list[Bad] = []

        def make_one(place: int) -> None:
            item, pixels = self._sound_one(int(chosen[place]), bad)
            labels[place] = self._labels[item]
            if turns:
                self._warp(pixels, matrix_of(turns[place]), images[place])
            else:
                images[place] = pixels

        for _ in self._spread(make_one, range(len(chosen))):
            pass
        return bad

    def _chosen(self, number: int) -> Any:
        if self._order is not None:
            return self._order(number)
        return np.arange(number * self._job.batch, (number + 1) * self._job.batch) % len(self._job.paths)

    def _sound_one(self, item: int, bad: list[Bad]) -> tuple[int, Pixels]:
        """Return this item and its pixels, or the next item that can be read."""
        for each in range(item, item + TRIES):
            index = each % len(self._job.paths)
            try:
                return index, self._pixels(index)
            except DamagedImageError as error:
                bad.append((self._job.paths[index], str(error)))
        raise TrainingError(f"{TRIES} images one after another cannot be used, the first: {' '.join(bad[0])}")

    def _pixels(self, index: int) -> Pixels:
        found = self._held.get(index) if self._held is not None else None
        if found is not None:
            return found
        job = self._job
        pixels = decode_small(job.paths[index], job.height, job.width)
        if not job.turned and pixels.shape[:2] != (job.height, job.width):
            pixels = _fit(pixels, job)
        if self._held is not None:
            self._held.put(index, pixels)
        return pixels


def _fit(pixels: Pixels, job: LoaderJob) -> Pixels:
    """Resize an image: shrink it by averaging, enlarge it by interpolation."""
    pillow = import_pillow()
    shrinks = pixels.shape[0] >= job.height and pixels.shape[1] >= job.width
    way = pillow.Resampling.BOX if shrinks else pillow.Resampling.BILINEAR
    return np.asarray(pillow.fromarray(pixels).resize((job.width, job.height), way))
