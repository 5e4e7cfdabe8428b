"""Generated training data and starting weights: functions of a number, of the right shapes, alike for every framework.

A picture shows one class, partly hidden by another one. Each class (for plates, each character) has a few smooth
patterns, which are moved, mirrored and lit, under noise. Five items show the same picture, and not all five have the
same label, as five people would not agree about it. So no network gets below the loss that `least_loss` returns,
however long it trains on few items: gradients stay as large as those of real data, and do not become denormal numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from laptime.model.workload import Workload
from laptime.trainings.workloads.shapes import list_weights, split_width

VIEWS = 5  # items that show the same picture
PICTURES = 50  # in a block; a block is drawn as a whole
BLOCK = VIEWS * PICTURES
TRAIN_STREAM, TEST_STREAM = 0, 1
# A pattern reaches past each edge of a picture by this share of its side, so that the picture can move.
PATTERN_EDGE = 0.1
LIGHT_RANGE = (0.5, 1.1)
NOISE = 22 / 255

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Hardness:
    """How hard a training's made data is.

    Of the five items of a picture, `votes` have its own class, the class that hides it, and a third one. Only a share
    of the pictures is `doubtful`; all items of the others have their own class. `hidden` is how much of a picture the
    other class covers, from and to; `looks` is how many patterns a class has.
    """

    votes: tuple[int, int, int]
    doubtful: float = 1.0
    looks: int = 4
    hidden: tuple[float, float] = (0.2, 0.65)
    mirrored: bool = True


# Set so that the published accuracies are neared: docs/data.md has both curves.
HARDNESS = {
    "cifar-cnn": Hardness((3, 1, 1)),
    "cifar-mlp": Hardness((3, 1, 1)),
    "scenes-cnn": Hardness((4, 1, 0), looks=2, hidden=(0.1, 0.5)),
    "pets-densenet": Hardness((4, 1, 0), doubtful=0.3, looks=2, hidden=(0.1, 0.5)),
    "plates-cnn": Hardness((4, 1, 0), looks=1, hidden=(0.1, 0.5), mirrored=False),
}


@dataclass(frozen=True, slots=True)
class Items:
    """Decoded images, float32 in 0..1, (item, height, width, channel); labels are class numbers."""

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]


class Drawing(NamedTuple):
    """A block of items: its pictures, the picture that each item shows, and the label of each item."""

    pictures: Bytes
    shown: Numbers
    labels: Numbers


def make_items(workload: Workload, seed: int, count: int) -> Items:
    """Make the first `count` items of a workload's data. An item does not depend on `count`."""
    return _make(workload, seed, TRAIN_STREAM, count)


def make_test_items(workload: Workload, seed: int, count: int) -> Items:
    """Make the first `count` items of the test set: the same classes in pictures that no training has seen."""
    return _make(workload, seed, TEST_STREAM, count)


def hardness_of(workload: Workload) -> Hardness:
    """Return how hard a training's made data is, at any width of its network."""
    return HARDNESS[split_width(workload.name)[0]]


def least_loss(workload: Workload) -> float:
    """Return the loss of a network that knows for each picture how many of its items have which label."""
    hardness = hardness_of(workload)
    shares = [votes / VIEWS for votes in hardness.votes if votes]
    return -hardness.doubtful * sum(share * math.log(share) for share in shares)


def most_accuracy(workload: Workload) -> float:
    """Return the accuracy of a network that names the class of each picture that most of its items have."""
    hardness = hardness_of(workload)
    return 1 - hardness.doubtful * (1 - hardness.votes[0] / VIEWS)


def _make(workload: Workload, seed: int, part: int, count: int) -> Items:
    drawer = Drawer(workload, seed)
    images = np.empty((count, *workload.image_shape), np.float32)
    labels = np.empty((count, *workload.outputs[:-1]), np.int64)
    for start in range(0, count, BLOCK):
        block = drawer.draw(part, start // BLOCK)
        some = min(BLOCK, count - start)
        floats = np.multiply(block.pictures, np.float32(1 / 255), dtype=np.float32)
        np.take(floats, block.shown[:some], 0, images[start : start + some], "clip")
        labels[start : start + some] = block.labels[:some]
    return Items(images, labels)


class Drawer:
    """Draws the blocks of a workload's items. Its patterns and its sheet of noise come from the seed alone."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self._hardness = hardness_of(workload)
        self._seed = seed
        self._classes = workload.outputs[-1]
        self._slots = math.prod(workload.outputs[:-1])
        self._plate = len(workload.outputs) > 1
        height, width, channels = workload.image_shape
        self._height = height
        self._width = width // self._slots
        self._channels = channels
        chance = np.random.default_rng([seed, 0xC1A55])
        coarse = chance.random((self._classes * self._hardness.looks, 6, 6, channels), np.float32)
        tall = _stretch(coarse, height + 2 * round(height * PATTERN_EDGE), 1)
        self._patterns = _stretch(tall, self._width + 2 * round(self._width * PATTERN_EDGE), 2)
        self._noise = chance.standard_normal((2 * height, 2 * width, channels), np.float32) * np.float32(NOISE)

    def draw(self, part: int, number: int) -> Drawing:
        """Draw a block of the training or the test items."""
        chance = np.random.default_rng([self._seed, 0xDA7A, part, number])
        slots = [self._draw_slot(chance) for _ in range(self._slots)]
        pictures = np.concatenate([slot[0] for slot in slots], 2) if self._plate else slots[0][0]
        labels = np.stack([slot[1] for slot in slots], 2) if self._plate else slots[0][1]
        # A piece of the sheet of noise is as good as new noise, and ten times as fast.
        _, height, width, _ = pictures.shape
        down = chance.integers(0, height + 1, PICTURES)
        right = chance.integers(0, width + 1, PICTURES)
        for picture, top, left in zip(pictures, down, right, strict=True):
            np.add(picture, self._noise[top : top + height, left : left + width], picture)
        order = chance.permutation(BLOCK)
        shown = order // VIEWS
        return Drawing((pictures.clip(0, 1) * 255).astype(np.uint8), shown, labels[shown, order % VIEWS])

    def _draw_slot(self, chance: np.random.Generator) -> tuple[Floats, Numbers]:
        """Draw one class in each picture of a block, and the five labels of each picture."""
        own: Numbers
        if self._plate:
            own = chance.integers(0, self._classes, PICTURES)
        else:
            own = chance.permutation(PICTURES) % self._classes
        other: Numbers = (own + chance.integers(1, self._classes, PICTURES)) % self._classes
        third: Numbers = (own + chance.integers(1, self._classes, PICTURES)) % self._classes
        shown = self._view(chance, own)
        hiding = self._view(chance, other)
        shape = (PICTURES, 1, 1, 1)
        share = chance.uniform(*self._hardness.hidden, shape).astype(np.float32)
        light = chance.uniform(*LIGHT_RANGE, (*shape[:3], self._channels)).astype(np.float32)
        labels = np.repeat(np.stack([own, other, third], 1), self._hardness.votes, 1)
        if self._plate:  # another reader is wrong at each character
            turned = (np.arange(VIEWS) + chance.integers(0, VIEWS, (PICTURES, 1))) % VIEWS
            labels = np.take_along_axis(labels, turned, 1)
        sure = chance.random(PICTURES) >= self._hardness.doubtful
        labels[sure] = own[sure, None]
        return (shown + (hiding - shown) * share) * light, labels

    def _view(self, chance: np.random.Generator, classes: Numbers) -> Floats:
        """Cut a piece of one of the patterns of each class, every second one mirrored."""
        height = self._height
        width = self._width
        which = classes * self._hardness.looks + chance.integers(0, self._hardness.looks, PICTURES)
        down = chance.integers(0, self._patterns.shape[1] - height + 1, PICTURES)
        right = chance.integers(0, self._patterns.shape[2] - width + 1, PICTURES)
        mirrored = (chance.random(PICTURES) < 0.5) & self._hardness.mirrored
        views = np.empty((PICTURES, height, width, self._channels), np.float32)
        for view, look, top, left, is_mirrored in zip(views, which, down, right, mirrored, strict=True):
            piece = self._patterns[look, top : top + height, left : left + width]
            view[:] = piece[:, ::-1] if is_mirrored else piece
        return views


def _stretch(pictures: Floats, side: int, axis: int) -> Floats:
    """Interpolate linearly along one axis, to `side` pixels."""
    places = np.linspace(0, pictures.shape[axis] - 1, side, dtype=np.float32)
    below = np.minimum(places.astype(np.int64), pictures.shape[axis] - 2)
    share = (places - below).reshape([-1 if other == axis else 1 for other in range(pictures.ndim)]).astype(np.float32)
    between: Floats = pictures.take(below, axis) * (1 - share) + pictures.take(below + 1, axis) * share
    return between


# Starting weights for every framework: numpy draws them from a seed, in one layout that every back end loads.

WeightArray = npt.NDArray[np.float32]


def make_weights(workload: Workload, seed: int) -> list[WeightArray]:
    """Draw the starting weights: Glorot uniform kernels, zero biases, unit scales (Keras's defaults)."""
    rng = np.random.default_rng([seed, 0x1A9])
    weights: list[WeightArray] = []
    for spec in list_weights(workload):
        if spec.start == "zeros":
            weights.append(np.zeros(spec.shape, np.float32))
        elif spec.start == "ones":
            weights.append(np.ones(spec.shape, np.float32))
        else:
            fans = math.prod(spec.shape[:-2]) * (spec.shape[-2] + spec.shape[-1])
            limit = np.float32(math.sqrt(6 / fans))
            weights.append((rng.random(spec.shape, np.float32) * np.float32(2) - np.float32(1)) * limit)
    return weights
