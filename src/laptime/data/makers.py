"""What a set is made by: JPEG files that are written as they are drawn, or the batches of CIFAR-10's archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from laptime.data import archive
from laptime.data.batches import PIXELS
from laptime.data.drawing.arrays import BLOCK, draw_arrays
from laptime.data.drawing.photo import Drawn, check_pillow
from laptime.data.drawing.photographs import PETS, SCENES
from laptime.data.drawing.plates import draw_plate
from laptime.data.pickles import Table, write_batch
from laptime.data.tasks import Counts, Maker, Task
from laptime.model.dataset import Part
from laptime.model.workload import Workload

Draw = Callable[[Part, int], Drawn]


class FileMaker:
    """Draws JPEG files into folders."""

    trial = Task("train", 0, 16)

    def __init__(self, folder: Path, draw: Draw, classes: tuple[str, ...]) -> None:
        self._folder = folder
        self._draw = draw
        for part in ("train", "test"):
            for each in classes or ("",):
                (folder / part / each).mkdir(parents=True, exist_ok=True)

    def tasks(self, counts: Counts) -> Iterator[Task]:
        yield from _cut("train", 0, counts.train, 16)
        yield from _cut("test", 0, counts.test, 16)

    def make(self, task: Task) -> int:
        written = 0
        for index in range(task.start, task.stop):
            drawn = self._draw(task.part, index)
            written += (self._folder / drawn.name).write_bytes(drawn.data)
        return written

    def collect(self, task: Task, counts: Counts) -> None:
        """Files are where they belong already."""


class ArchiveMaker:
    """Draws arrays, and writes a batch as soon as all of its items are there."""

    trial = Task("train", 0, BLOCK)

    def __init__(self, folder: Path, classes: tuple[str, ...]) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._classes = classes
        self._drawn: dict[Task, tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]] = {}
        self._batch: list[Task] = []

    def tasks(self, counts: Counts) -> Iterator[Task]:
        for whole in _batches(counts).values():
            yield from _cut(whole.part, whole.start, whole.stop, BLOCK)

    def make(self, task: Task) -> int:
        rows, labels = draw_arrays(task.part, task.start, task.stop)
        self._drawn[task] = rows, labels
        return rows.nbytes

    def collect(self, task: Task, counts: Counts) -> None:
        self._batch.append(task)
        for name, whole in _batches(counts).items():
            if (whole.part, whole.stop) == (task.part, task.stop):
                self._write(name, whole)
                if name in archive.TEST:
                    self._write_names(counts)

    def _write(self, name: str, whole: Task) -> None:
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

    def _write_names(self, counts: Counts) -> None:
        cases = -(-counts.train // len(archive.TRAIN))
        names = [each.encode() for each in self._classes]
        table: Table = {b"num_cases_per_batch": cases, b"label_names": names, b"num_vis": PIXELS}
        (self._folder / archive.META).write_bytes(write_batch(table))


def open_maker(workload: Workload, folder: Path) -> Maker:
    """Give what makes this workload's items in this folder."""
    if workload.data_layout == "archive":
        return ArchiveMaker(folder, workload.classes)
    check_pillow(f"making the data of {workload.name}")
    if workload.data_layout == "plates":
        return FileMaker(folder, draw_plate, ())
    kind = next(each for each in (SCENES, PETS) if tuple(each.motifs) == workload.classes)
    return FileMaker(folder, kind.draw, workload.classes)


def _batches(counts: Counts) -> dict[str, Task]:
    """Give which items are in which of the archive's files."""
    edges = [counts.train * number // len(archive.TRAIN) for number in range(len(archive.TRAIN) + 1)]
    batches = {
        name: Task("train", start, stop) for name, start, stop in zip(archive.TRAIN, edges, edges[1:], strict=False)
    }
    return {**batches, archive.TEST[0]: Task("test", 0, counts.test)}


def _cut(part: Part, start: int, stop: int, step: int) -> Iterator[Task]:
    while start < stop:
        end = min(stop, (start // step + 1) * step)
        yield Task(part, start, end)
        start = end
