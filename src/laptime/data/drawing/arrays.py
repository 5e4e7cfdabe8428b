"""Made images of 32x32: each class has a few smooth pictures, seen shifted, mirrored, lit, half hidden and noisy."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from laptime.data.drawing.photo import DATA_SEED
from laptime.model.dataset import Part

BLOCK = 250
CLASSES = 10
LOOKS = 4
SIDE = 32
SHEET = 38
PART_KEYS: dict[Part, int] = {"train": 0, "test": 1}

Pixels = npt.NDArray[np.uint8]


def draw_arrays(part: Part, start: int, stop: int) -> tuple[Pixels, npt.NDArray[np.int64]]:
    """Draw items `start` to `stop` of a part, as rows of 3 x 32 x 32; blocks make them independent of the range."""
    first, last = start // BLOCK, -(-stop // BLOCK)
    blocks = [_draw_block(part, number) for number in range(first, last)]
    cut = slice(start - first * BLOCK, stop - first * BLOCK)
    return np.concatenate([block[0] for block in blocks])[cut], np.concatenate([block[1] for block in blocks])[cut]


def _draw_block(part: Part, number: int) -> tuple[Pixels, npt.NDArray[np.int64]]:
    chance = np.random.default_rng([DATA_SEED, PART_KEYS[part], number])
    labels = np.tile(np.arange(CLASSES), BLOCK // CLASSES)
    own, strange = _sheets()
    seen = _look(chance, own[labels * LOOKS + chance.integers(0, LOOKS, BLOCK)])
    hidden = _look(chance, strange[chance.integers(0, len(strange), BLOCK)])
    share = chance.uniform(0.2, 0.65, (BLOCK, 1, 1, 1)).astype(np.float32)
    light = chance.uniform(0.5, 1.1, (BLOCK, 3, 1, 1)).astype(np.float32)
    noise = chance.standard_normal((BLOCK, 3, SIDE, SIDE), np.float32)
    images = ((1 - share) * seen + share * hidden) * light * 255 + noise * 22
    order = chance.permutation(BLOCK)
    return images.clip(0, 255).astype(np.uint8).reshape(BLOCK, -1)[order], labels[order]


def _look(chance: np.random.Generator, sheets: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Cut a 32x32 view out of each sheet, every second one mirrored."""
    down, right = chance.integers(0, SHEET - SIDE + 1, (2, len(sheets), 1))
    columns = right + np.arange(SIDE)
    columns = np.where(chance.random((len(sheets), 1)) < 0.5, columns, columns[:, ::-1])
    rows = down + np.arange(SIDE)
    items = np.arange(len(sheets))[:, None, None, None]
    picked: npt.NDArray[np.float32] = sheets[
        items, np.arange(3)[None, :, None, None], rows[:, None, :, None], columns[:, None, None, :]
    ]
    return picked


@cache
def _sheets() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Draw the pictures of all classes, and as many again that belong to none."""
    chance = np.random.default_rng([DATA_SEED, 0xC1A55])
    coarse: npt.NDArray[np.float32] = chance.random((2 * CLASSES * LOOKS, 3, 6, 6), np.float32)
    places = np.linspace(0, 5, SHEET, dtype=np.float32)
    below = np.minimum(places.astype(np.int64), 4)
    share = (places - below).astype(np.float32)
    tall = coarse[:, :, below] * (1 - share)[:, None] + coarse[:, :, below + 1] * share[:, None]
    smooth = (tall[..., below] * (1 - share) + tall[..., below + 1] * share).astype(np.float32)
    return smooth[: CLASSES * LOOKS], smooth[CLASSES * LOOKS :]
