"""Make a set's files: JPEG files that are written as they are drawn, or the batches of CIFAR-10's archive.

The archive has the items that trainings make in memory, of one seed (`workloads/data.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from laptime.data import archive
from laptime.data.drawing import DATA_SEED, PETS, SCENES, Drawn, check_pillow, draw_plate
from laptime.data.making import ItemCounts, MakingTask, SetMaker
from laptime.data.scan import PIXELS, ArchiveTable, write_batch
from laptime.model.ask import DataPart
from laptime.model.workload import Workload
from laptime.workloads import CATALOGUE
from laptime.workloads.data import BLOCK, TEST_STREAM, TRAIN_STREAM, Drawer

PART_KEYS: dict[DataPart, int] = {"train": TRAIN_STREAM, "test": TEST_STREAM}

PixelRows = npt.NDArray[np.uint8]
DrawItem = Callable[[DataPart, int], Drawn]


def draw_arrays(part: DataPart, start: int, stop: int) -> tuple[PixelRows, npt.NDArray[np.int64]]:
    """Draw items `start` to `stop` of a part, as rows of 3 x 32 x 32: as those in memory, of one seed."""
    first, last = start // BLOCK, -(-stop // BLOCK)
    drawn = [_drawer().draw(PART_KEYS[part], number) for number in range(first, last)]
    rows = [each.pictures.transpose(0, 3, 1, 2).reshape(len(each.pictures), -1)[each.shown] for each in drawn]
    cut = slice(start - first * BLOCK, stop - first * BLOCK)
    return np.concatenate(rows)[cut], np.concatenate([each.labels for each in drawn])[cut]


@cache
def _drawer() -> Drawer:
    return Drawer(CATALOGUE["cifar-cnn"], DATA_SEED)


class FileMaker:
    """Draws JPEG files into folders."""

    trial = MakingTask("train", 0, 16)

    def __init__(self, folder: Path, draw: DrawItem, classes: tuple[str, ...]) -> None:
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
                if name in archive.TEST_FILES:
                    self._write_names(counts)

    def _write(self, name: str, whole: MakingTask) -> None:
        drawn = [self._drawn.pop(task) for task in self._batch]
        self._batch.clear()
        title = (
            "testing batch 1 of 1"
            if whole.part == "test"
            else f"training batch {name[-1]} of {len(archive.TRAIN_FILES)}"
        )
        table: ArchiveTable = {
            b"batch_label": title.encode(),
            b"labels": np.concatenate([labels for _, labels in drawn]).tolist(),
            b"data": np.concatenate([rows for rows, _ in drawn]),
            b"filenames": [f"made_{whole.part}_{index:06d}.png".encode() for index in range(whole.start, whole.stop)],
        }
        (self._folder / name).write_bytes(write_batch(table))

    def _write_names(self, counts: ItemCounts) -> None:
        cases = -(-counts.train // len(archive.TRAIN_FILES))
        names = [each.encode() for each in self._classes]
        table: ArchiveTable = {b"num_cases_per_batch": cases, b"label_names": names, b"num_vis": PIXELS}
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
    edges = [counts.train * number // len(archive.TRAIN_FILES) for number in range(len(archive.TRAIN_FILES) + 1)]
    batches = {
        name: MakingTask("train", start, stop)
        for name, start, stop in zip(archive.TRAIN_FILES, edges, edges[1:], strict=False)
    }
    return {**batches, archive.TEST_FILES[0]: MakingTask("test", 0, counts.test)}


def _cut(part: DataPart, start: int, stop: int, step: int) -> Iterator[MakingTask]:
    while start < stop:
        end = min(stop, (start // step + 1) * step)
        yield MakingTask(part, start, end)
        start = end
