"""Make a set's files: JPEG files that are written as they are drawn, or the batches of CIFAR-10's archive.

The archive's images are 32x32. Each class has a few smooth patterns, which are shifted, mirrored, lit, half hidden
and made noisy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from laptime.data import archive
from laptime.data.batches import PIXELS, Table, write_batch
from laptime.data.drawing import DATA_SEED, Drawn, check_pillow
from laptime.data.drawn_plates import draw_plate
from laptime.data.making import ItemCounts, MakingTask, SetMaker
from laptime.data.photographs import PETS, SCENES
from laptime.model.dataset import Part
from laptime.model.workload import Workload

BLOCK = 250
CLASSES = 10
LOOKS = 4
SIDE = 32
SHEET = 38
PART_KEYS: dict[Part, int] = {"train": 0, "test": 1}

PixelRows = npt.NDArray[np.uint8]
Draw = Callable[[Part, int], Drawn]


def draw_arrays(part: Part, start: int, stop: int) -> tuple[PixelRows, npt.NDArray[np.int64]]:
    """Draw items `start` to `stop` of a part, as rows of 3 x 32 x 32. Drawing whole blocks keeps items the same."""
    first, last = start // BLOCK, -(-stop // BLOCK)
    blocks = [_draw_block(part, number) for number in range(first, last)]
    cut = slice(start - first * BLOCK, stop - first * BLOCK)
    return np.concatenate([block[0] for block in blocks])[cut], np.concatenate([block[1] for block in blocks])[cut]


def _draw_block(part: Part, number: int) -> tuple[PixelRows, npt.NDArray[np.int64]]:
    chance = np.random.default_rng([DATA_SEED, PART_KEYS[part], number])
    labels = np.tile(np.arange(CLASSES), BLOCK // CLASSES)
    own, strange = _sheets()
    seen = _view(chance, own[labels * LOOKS + chance.integers(0, LOOKS, BLOCK)])
    hidden = _view(chance, strange[chance.integers(0, len(strange), BLOCK)])
    share = chance.uniform(0.2, 0.65, (BLOCK, 1, 1, 1)).astype(np.float32)
    light = chance.uniform(0.5, 1.1, (BLOCK, 3, 1, 1)).astype(np.float32)
    noise = chance.standard_normal((BLOCK, 3, SIDE, SIDE), np.float32)
    images = ((1 - share) * seen + share * hidden) * light * 255 + noise * 22
    order = chance.permutation(BLOCK)
    return images.clip(0, 255).astype(np.uint8).reshape(BLOCK, -1)[order], labels[order]


def _view(chance: np.random.Generator, sheets: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
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
    """Draw the patterns of all classes, and the same number that belong to no class."""
    chance = np.random.default_rng([DATA_SEED, 0xC1A55])
    coarse: npt.NDArray[np.float32] = chance.random((2 * CLASSES * LOOKS, 3, 6, 6), np.float32)
    places = np.linspace(0, 5, SHEET, dtype=np.float32)
    below = np.minimum(places.astype(np.int64), 4)
    share = (places - below).astype(np.float32)
    tall = coarse[:, :, below] * (1 - share)[:, None] + coarse[:, :, below + 1] * share[:, None]
    smooth = (tall[..., below] * (1 - share) + tall[..., below + 1] * share).astype(np.float32)
    return smooth[: CLASSES * LOOKS], smooth[CLASSES * LOOKS :]


class FileMaker:
    """Draws JPEG files into folders."""

    trial = MakingTask("train", 0, 16)

    def __init__(self, folder: Path, draw: Draw, classes: tuple[str, ...]) -> None:
        self._folder = folder
        self._draw = draw
        for part in ("train", "test"):
            for each in classes or ("",):
                (folder / part / each).mkdir(parents=True, exist_ok=True)

    def tasks(self, counts: ItemCounts) -> Iterator[MakingTask]:
        yield from _cut("train", 0, counts.train, 16)
        yield from _cut("test", 0, counts.test, 16)

    def make(self, task: MakingTask) -> int:
        written = 0
        for index in range(task.start, task.stop):
            drawn = self._draw(task.part, index)
            written += (self._folder / drawn.name).write_bytes(drawn.data)
        return written

    def collect(self, task: MakingTask, counts: ItemCounts) -> None:
        """Do nothing: `make` has written the files."""


class ArchiveMaker:
    """Draws arrays, and writes a batch as soon as all its items are drawn."""

    trial = MakingTask("train", 0, BLOCK)

    def __init__(self, folder: Path, classes: tuple[str, ...]) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._classes = classes
        self._drawn: dict[MakingTask, tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]] = {}
        self._batch: list[MakingTask] = []

    def tasks(self, counts: ItemCounts) -> Iterator[MakingTask]:
        for whole in _batches(counts).values():
            yield from _cut(whole.part, whole.start, whole.stop, BLOCK)

    def make(self, task: MakingTask) -> int:
        rows, labels = draw_arrays(task.part, task.start, task.stop)
        self._drawn[task] = rows, labels
        return rows.nbytes

    def collect(self, task: MakingTask, counts: ItemCounts) -> None:
        self._batch.append(task)
        for name, whole in _batches(counts).items():
            if (whole.part, whole.stop) == (task.part, task.stop):
                self._write(name, whole)
                if name in archive.TEST:
                    self._write_names(counts)

    def _write(self, name: str, whole: MakingTask) -> None:
        drawn = [self._drawn.pop(task) for task in self._batch]
        self._batch.clear()
        title = "testing batch 1 of 1" if whole.part == "test" else f"training batch {name[-1]} of {len(archive.TRAIN)}"
        table: Table = {
            b"batch_label": title.encode(),
            b"labels": np.concatenate([labels for _, labels in drawn]).tolist(),
            b"data": np.concatenate([rows for rows, _ in drawn]),
            b"filenames": [f"made_{whole.part}_{index:06d}.png".encode() for index in range(whole.start, whole.stop)],
        }
        (self._folder / name).write_bytes(write_batch(table))

    def _write_names(self, counts: ItemCounts) -> None:
        cases = -(-counts.train // len(archive.TRAIN))
        names = [each.encode() for each in self._classes]
        table: Table = {b"num_cases_per_batch": cases, b"label_names": names, b"num_vis": PIXELS}
        (self._folder / archive.META).write_bytes(write_batch(table))


def open_maker(workload: Workload, folder: Path) -> SetMaker:
    """Return the maker of this workload's items."""
    if workload.data_layout == "archive":
        return ArchiveMaker(folder, workload.classes)
    check_pillow(f"making the data of {workload.name}")
    if workload.data_layout == "plates":
        return FileMaker(folder, draw_plate, ())
    kind = next(each for each in (SCENES, PETS) if tuple(each.motifs) == workload.classes)
    return FileMaker(folder, kind.draw, workload.classes)


def _batches(counts: ItemCounts) -> dict[str, MakingTask]:
    """Return the range of items in each of the archive's files."""
    edges = [counts.train * number // len(archive.TRAIN) for number in range(len(archive.TRAIN) + 1)]
    batches = {
        name: MakingTask("train", start, stop)
        for name, start, stop in zip(archive.TRAIN, edges, edges[1:], strict=False)
    }
    return {**batches, archive.TEST[0]: MakingTask("test", 0, counts.test)}


def _cut(part: Part, start: int, stop: int, step: int) -> Iterator[MakingTask]:
    while start < stop:
        end = min(stop, (start // step + 1) * step)
        yield MakingTask(part, start, end)
        start = end
