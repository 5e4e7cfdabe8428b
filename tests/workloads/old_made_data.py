"""Made data as it was until 2026-11-26, for tests alone: a line separates its classes, and trainings collapse on it.

Each class (for plates, each character) has its own smooth pattern. An item is its pattern under strong noise. Within
some twenty steps the loss is 0.0, and gradients and moments become denormal numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from laptime.model.workload import Workload
from laptime.trainings.workloads.data import Items

CHUNK = 256
TEST_START = 1 << 40  # test items are drawn from here on; no training uses that many items


def make_items(workload: Workload, seed: int, count: int) -> Items:
    """Make the first `count` items of a workload's data. An item does not depend on `count`."""
    return _make_from(workload, seed, 0, count)


def make_test_items(workload: Workload, seed: int, count: int) -> Items:
    """Make the first `count` items of the test set: the same patterns under noise that no training has seen."""
    return _make_from(workload, seed, TEST_START, count)


def _make_from(workload: Workload, seed: int, first: int, count: int) -> Items:
    patterns = _patterns(workload, seed)
    chunks = [_make_chunk(workload, patterns, seed, first + start) for start in range(0, count, CHUNK)]
    images = np.concatenate([chunk.images for chunk in chunks])[:count]
    labels = np.concatenate([chunk.labels for chunk in chunks])[:count]
    return Items(images, labels)


def _make_chunk(workload: Workload, patterns: npt.NDArray[np.float32], seed: int, start: int) -> Items:
    rng = np.random.default_rng([seed, 0xDA7A, start])
    slots = workload.outputs[:-1]
    labels = rng.integers(0, workload.outputs[-1], (CHUNK, *slots), dtype=np.int64)
    clean = np.concatenate([patterns[labels[:, slot]] for slot in range(slots[0])], 2) if slots else patterns[labels]
    noise = rng.random((CHUNK, *workload.image_shape), np.float32)
    noise *= np.float32(0.6)
    noise += clean
    return Items(noise, labels)


def _patterns(workload: Workload, seed: int) -> npt.NDArray[np.float32]:
    """Draw one smooth image in 0..0.4 for each class, as wide as one slot."""
    rng = np.random.default_rng([seed, 0xC1A55])
    height, width, channels = workload.image_shape
    if len(workload.outputs) > 1:
        width //= workload.outputs[0]
    coarse = rng.random((workload.outputs[-1], 4, 4, channels), np.float32) * np.float32(0.4)
    rows = np.linspace(0, 3, height, dtype=np.float32)
    columns = np.linspace(0, 3, width, dtype=np.float32)
    return _stretch(_stretch(coarse, rows, 1), columns, 2)


def _stretch(pictures: npt.NDArray[np.float32], places: npt.NDArray[np.float32], axis: int) -> npt.NDArray[np.float32]:
    """Interpolate linearly along one axis."""
    below = np.minimum(places.astype(np.int64), pictures.shape[axis] - 2)
    share = (places - below).reshape([-1 if each == axis else 1 for each in range(pictures.ndim)])
    between: npt.NDArray[np.float32] = pictures.take(below, axis) * (1 - share) + pictures.take(below + 1, axis) * share
    return between
