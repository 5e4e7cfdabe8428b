"""Make a set: measure how fast items are drawn, choose how many, announce the size, and draw on all cores."""

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
from itertools import count
from pathlib import Path
from typing import Protocol

from laptime.data import archive
from laptime.data.archive import MANIFEST, Manifest, digest_files, find_images, read_manifest, write_manifest
from laptime.disk import host, is_in_work, read_regular
from laptime.errors import StoreError, UsageError
from laptime.model.ask import DataPart
from laptime.model.workload import Workload
from laptime.sensors.cgroup import usable_cores

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


def count_words(workload: Workload, train: int, test: int) -> str:
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
        _make_all(pool, open_maker(workload, folder), counts, _Progress(workload, counts, tell))
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
        what = count_words(workload, counts.train, counts.test)
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
        done, written = done + task.stop - task.start, written + size
        if time.monotonic() - began > seconds and done >= TRIAL_TASKS * step:
            break
    return MakingRate(done / (time.monotonic() - began), written / done)


def _make_all(pool: Executor, maker: SetMaker, counts: ItemCounts, progress: _Progress) -> None:
    for task, _ in _in_order(pool, maker, maker.tasks(counts)):
        maker.collect(task, counts)
        progress.count(task.stop - task.start)


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
    return not folder.is_symlink() and (_is_marked(folder) or read_manifest(folder) is not None)


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
    return is_ours(place) or _is_empty(place)


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


def _is_marked(folder: Path) -> bool:
    try:
        return read_regular(folder / MADE_MARK, len(MARKED)) == MARKED
    except OSError:
        return False


def _is_empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except OSError:
        return False
