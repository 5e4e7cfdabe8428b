"""Make a set: measure how fast items are drawn, choose how many, announce the size, and draw its files on all cores."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from laptime.machine.sensors.cgroup import usable_cores
from laptime.model.ask import DataPart
from laptime.model.errors import StoreError, UsageError
from laptime.model.workload import Workload
from laptime.store.disk import host, is_in_work, read_regular
from laptime.trainings.data import archive
from laptime.trainings.data.archive import MANIFEST, Manifest, digest_files, find_images, read_manifest, write_manifest
from laptime.trainings.data.drawing import DATA_SEED, PETS, SCENES, Drawn, check_pillow, draw_plate
from laptime.trainings.data.scan import PIXELS, ArchiveTable, write_batch
from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.data import BLOCK, TEST_STREAM, TRAIN_STREAM, Drawer

MAKING_S = 10.0
TRIAL_S = 0.4
TRIAL_TASKS = 2
FIRST_WORD_S = 2.0
LEAST_BATCHES = 8
SHOWN_FROM_BYTES = 200_000_000
NO_LIMIT = 0

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ItemCounts:
    """How many items a set has."""

    train: int
    test: int


@dataclass(frozen=True, slots=True)
class MakingTask:
    """A range of items that one thread makes at once."""

    part: DataPart
    start: int
    stop: int


class SetMaker(Protocol):
    """Makes items in any thread. `collect` is called with each finished task, in order, in one thread."""

    trial: MakingTask

    def tasks(self, counts: ItemCounts) -> Iterator[MakingTask]: ...
    def make(self, task: MakingTask) -> int:
        """Make these items and return their size in bytes."""

    def collect(self, task: MakingTask, counts: ItemCounts) -> None: ...


OpenMaker = Callable[[Workload, Path], SetMaker]


def size_words(count_bytes: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count_bytes >= unit:
            size = count_bytes / unit
            return f"{size:,.0f} {name}" if size >= 99.5 else f"{size:.3g} {name}"
    return f"{count_bytes:,.0f} bytes"


def items_words(workload: Workload, train: int, test: int) -> str:
    return f"{train:,} train and {test:,} test {workload.items}"


@dataclass(frozen=True, slots=True)
class MakingRate:
    items_per_s: float
    bytes_per_item: float


def make_set(
    workload: Workload,
    items: int | None,
    folder: Path,
    place: Path,
    tell: Announce,
    *,
    notify: Announce,
    open_maker: OpenMaker,
) -> Manifest:
    """Make a set in `folder`, which the caller renames to `place`. The manifest is written last."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        rate = _try_out(pool, open_maker(workload, folder / ".trial"), TRIAL_S if items is None else 0.0)
        counts = choose_counts(workload, items, rate.items_per_s)
        shutil.rmtree(folder / ".trial")
        announce(workload, counts, rate, place, notify)
        maker = open_maker(workload, folder)
        progress = _Progress(workload, counts, tell)
        for task, _ in _in_order(pool, maker, maker.tasks(counts)):
            maker.collect(task, counts)
            progress.count(task.stop - task.start)
    sizes = list_data_files(workload.data_layout, folder)
    manifest = Manifest(workload.name, counts.train, counts.test, sum(sizes.values()), str(digest_files(sizes)))
    write_manifest(folder, manifest)
    return manifest


def list_data_files(layout: str, folder: Path) -> dict[str, int]:
    """Return the names and sizes of the files in a set's digest."""
    return archive.list_batches(folder) if layout == "archive" else find_images(folder, ("train", "test")).sizes


def choose_counts(workload: Workload, items: int | None, items_per_s: float) -> ItemCounts:
    """Return the counts: `items`, or what ten seconds allow, for training, and the published share for the test."""
    if items == NO_LIMIT:
        return ItemCounts(workload.train_items, workload.test_items)
    share = workload.test_items / workload.train_items
    least = workload.least_items
    if items is None:
        batches = int(items_per_s * MAKING_S / (1 + share) / workload.batch)
        items = min(max(batches, LEAST_BATCHES) * workload.batch, workload.train_items)
    if items < least:
        says = f"{items} items are too few for {workload.name}"
        raise UsageError(says, f"--items is expected to be {least} or more, so that every class is there, or all.")
    return ItemCounts(items, max(least, round(items * share)))


def announce(workload: Workload, counts: ItemCounts, rate: MakingRate, place: Path, notify: Announce) -> None:
    """Announce a large size before much is written, and refuse a set that does not fit on the disk."""
    size = (counts.train + counts.test) * rate.bytes_per_item
    if size > SHOWN_FROM_BYTES:
        what = items_words(workload, counts.train, counts.test)
        notify(f"made data for {workload.name}: {what}, about {size_words(size)}, will be written to {place}")
    free = shutil.disk_usage(place.parent).free
    if size > free:
        says = f"the made data for {workload.name} needs about {size_words(size)}"
        hint = "Make room there, ask for fewer by --items, or set LAPTIME_CACHE to a folder with more room."
        raise StoreError(f"{says}, and only {size_words(free)} are free in {place.parent}", hint)


def _try_out(pool: Executor, maker: SetMaker, seconds: float) -> MakingRate:
    """Measure the rate by making items for some seconds, after one untimed task that opens libraries and fonts."""
    maker.make(maker.trial)
    step = maker.trial.stop
    done = written = 0
    began = time.monotonic()
    for task, size in _in_order(pool, maker, (MakingTask("train", step * n, step * (n + 1)) for n in count(1))):
        done += task.stop - task.start
        written += size
        if time.monotonic() - began > seconds and done >= TRIAL_TASKS * step:
            break
    return MakingRate(done / (time.monotonic() - began), written / done)


def _in_order(pool: Executor, maker: SetMaker, tasks: Iterator[MakingTask]) -> Iterator[tuple[MakingTask, int]]:
    """Yield finished tasks in order. Only a few run at a time, and an interrupt waits for these only."""
    under_way: deque[tuple[MakingTask, Future[int]]] = deque()
    try:
        for task in tasks:
            under_way.append((task, pool.submit(maker.make, task)))
            if len(under_way) > 2 * usable_cores():
                first, future = under_way.popleft()
                yield first, future.result()
        while under_way:
            first, future = under_way.popleft()
            yield first, future.result()
    finally:
        for _, future in under_way:
            future.cancel()
        for _, future in under_way:
            if not future.cancelled():
                future.exception()


class _Progress:
    """Reports how many items are made and the time left: after 2 s, then every 2 s, and every 10 s after 20 s."""

    def __init__(self, workload: Workload, counts: ItemCounts, tell: Announce) -> None:
        self._words = f"{counts.train + counts.test:,} {workload.items} for {workload.name} made"
        self._total = counts.train + counts.test
        self._tell = tell
        self._began = time.monotonic()
        self._next_s = FIRST_WORD_S
        self._done = 0

    def count(self, items: int) -> None:
        self._done += items
        passed = time.monotonic() - self._began
        if passed >= self._next_s and self._done < self._total:
            left = passed * (self._total - self._done) / self._done
            self._tell(f"{self._done:,} of {self._words}, about {left:,.0f} s to go")
            self._next_s = passed + (2.0 if passed < 20 else 10.0)


# Which folders laptime made. Nothing else in the folder of made data is renamed, removed or shown as a set.
#
# A folder gets a mark file when it is created, before anything else is in it. While a process makes or removes it, its
# name holds that process. A name alone is no proof, and neither is a mark under another name.

MADE_MARK = ".made-by-laptime"
MARKED = b"laptime made this folder, and may remove it with all that is in it.\n"
PART = re.compile(
    r"\..+\.(?:making|replaced|removed)\.(?P<host>[A-Za-z0-9-]{1,60})\.part-(?P<pid>[0-9]{1,10})", re.DOTALL
)
ELSEWHERE_HINT = "Move or rename it, or set LAPTIME_CACHE to another folder."


def is_ours(folder: Path) -> bool:
    """Whether laptime made this folder: it has the mark or, if an older laptime made it, a manifest."""
    if folder.is_symlink():
        return False
    with contextlib.suppress(OSError):
        if read_regular(folder / MADE_MARK, len(MARKED)) == MARKED:
            return True
    return read_manifest(folder) is not None


def check_ours(folder: Path) -> None:
    """Raise StoreError for a folder that laptime did not make."""
    if folder.is_symlink():
        raise StoreError(f"{folder} is a symbolic link, which laptime neither replaces nor removes", ELSEWHERE_HINT)
    if not is_ours(folder):
        kind = "folder" if folder.is_dir() else "file"
        raise StoreError(
            f"laptime did not make the {kind} {folder}, so it neither replaces nor removes it", ELSEWHERE_HINT
        )


def name_part(folder: Path, why: str = "making") -> Path:
    """Return the path of this process's part, next to a set: a folder that is not a set yet, or no longer one."""
    return folder.with_name(f".{folder.name}.{why}.{host()}.part-{os.getpid()}")


def open_part(part: Path) -> None:
    """Make a part's folder and mark it. Remove what an earlier process with the same number left there."""
    discard(part)
    part.mkdir(parents=True)
    (part / MADE_MARK).write_bytes(MARKED)


def set_aside(folder: Path, why: str) -> Path:
    """Rename a folder that laptime made to a part of this process, and return the part."""
    check_ours(folder)
    if PART.fullmatch(folder.name):
        return folder
    part = name_part(folder, why)
    discard(part)
    folder.rename(part)
    return part


def is_part(place: Path) -> bool:
    """Whether this is a part that laptime left: it has a part's name, and has the mark or is empty."""
    if PART.fullmatch(place.name) is None or place.is_symlink() or not place.is_dir():
        return False
    if is_ours(place):
        return True
    try:
        return next(place.iterdir(), None) is None
    except OSError:
        return False


def is_being_made(place: Path) -> bool:
    """Whether another process still makes this part. For a process on another machine, the part's age decides."""
    matched = PART.fullmatch(place.name)
    if matched is None:
        return False
    if matched["host"] == host() and int(matched["pid"]) == os.getpid():
        return False
    try:
        return is_in_work(matched, place.stat().st_mtime)
    except OSError:  # it was removed meanwhile
        return True


def remove_stale_parts(folder: Path) -> None:
    """Remove the parts that dead processes left."""
    with contextlib.suppress(OSError):
        for place in [Path(entry) for entry in os.scandir(folder) if PART.fullmatch(entry.name)]:
            if not is_being_made(place):
                discard(place)


def discard(part: Path) -> None:
    """Try to remove a part. If that fails, a later run tries again."""
    with contextlib.suppress(OSError):
        if is_part(part):
            remove_part(part)


def remove_part(part: Path) -> None:
    """Remove a part, its mark last: if this process is killed, the rest can still be recognized."""
    last = (part / MANIFEST, part / MADE_MARK)
    for place in part.iterdir():
        if place in last:
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
    for place in last:
        place.unlink(missing_ok=True)
    part.rmdir()


# Make a set's files: JPEG files that are written as they are drawn, or the batches of CIFAR-10's archive.
#
# The archive has the items that trainings make in memory, of one seed (`trainings/workloads/data.py`).

PART_KEYS: dict[DataPart, int] = {"train": TRAIN_STREAM, "test": TEST_STREAM}

PixelRows = npt.NDArray[np.uint8]
DrawItem = Callable[[DataPart, int], Drawn]


def draw_arrays(part: DataPart, start: int, stop: int) -> tuple[PixelRows, npt.NDArray[np.int64]]:
    """Draw items `start` to `stop` of a part, as rows of 3 x 32 x 32: as those in memory, of one seed."""
    first = start // BLOCK
    last = -(-stop // BLOCK)
    blocks = [_drawer().draw(PART_KEYS[part], number) for number in range(first, last)]
    rows = [block.pictures.transpose(0, 3, 1, 2).reshape(len(block.pictures), -1)[block.shown] for block in blocks]
    cut = slice(start - first * BLOCK, stop - first * BLOCK)
    return np.concatenate(rows)[cut], np.concatenate([block.labels for block in blocks])[cut]


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
            for name in classes or ("",):
                (folder / part / name).mkdir(parents=True, exist_ok=True)

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
            if (whole.part, whole.stop) != (task.part, task.stop):
                continue
            drawn = [self._drawn.pop(done) for done in self._batch]
            self._batch.clear()
            title = f"training batch {name[-1]} of {len(archive.TRAIN_FILES)}"
            files = [f"made_{whole.part}_{index:06d}.png".encode() for index in range(whole.start, whole.stop)]
            table: ArchiveTable = {
                b"batch_label": b"testing batch 1 of 1" if whole.part == "test" else title.encode(),
                b"labels": np.concatenate([labels for _, labels in drawn]).tolist(),
                b"data": np.concatenate([rows for rows, _ in drawn]),
                b"filenames": files,
            }
            (self._folder / name).write_bytes(write_batch(table))
            if name in archive.TEST_FILES:
                cases = -(-counts.train // len(archive.TRAIN_FILES))
                names = [label.encode() for label in self._classes]
                meta: ArchiveTable = {b"num_cases_per_batch": cases, b"label_names": names, b"num_vis": PIXELS}
                (self._folder / archive.META).write_bytes(write_batch(meta))


def open_maker(workload: Workload, folder: Path) -> SetMaker:
    if workload.data_layout == "archive":
        return ArchiveMaker(folder, workload.classes)
    check_pillow(f"making the data of {workload.name}")
    if workload.data_layout == "plates":
        return FileMaker(folder, draw_plate, ())
    kind = next(photograph_set for photograph_set in (SCENES, PETS) if tuple(photograph_set.motifs) == workload.classes)
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
