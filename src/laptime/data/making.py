"""Make a set: measure the pace, choose how many, say what will be written, and let every processor draw."""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from laptime.data import archive
from laptime.data.manifest import Manifest, write_manifest
from laptime.data.tally import take_tally
from laptime.data.tasks import Counts, Maker, Task
from laptime.data.walk import find_images
from laptime.data.words import count_words, size_words
from laptime.errors import StoreError, UsageError
from laptime.model.workload import Workload

MAKING_S = 10.0
TRIAL_S = 0.4
TRIAL_TASKS = 2
FIRST_WORD_S = 2.0
LEAST_BATCHES = 8
SHOWN_FROM_BYTES = 200_000_000
ALL = 0

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    items_per_s: float
    bytes_per_item: float


def make_set(workload: Workload, items: int | None, folder: Path, place: Path, tell: Tell) -> Manifest:
    """Make a set in `folder`, which is going to stand at `place`; the manifest is written last."""
    from laptime.data.makers import open_maker  # noqa: PLC0415  numpy is 80 ms that other commands need not wait for

    with ThreadPoolExecutor(_processors()) as pool:
        pace = _try_out(pool, open_maker(workload, folder / ".trial"), TRIAL_S if items is None else 0.0)
        counts = choose_counts(workload, items, pace.items_per_s)
        shutil.rmtree(folder / ".trial")
        announce(workload, counts, pace, place, tell)
        _make_all(pool, open_maker(workload, folder), counts, _Progress(workload, counts, tell))
    sizes = list_data_files(workload.data_layout, folder)
    manifest = Manifest(workload.name, counts.train, counts.test, sum(sizes.values()), str(take_tally(sizes)))
    write_manifest(folder, manifest)
    return manifest


def list_data_files(layout: str, folder: Path) -> dict[str, int]:
    """Give the names and sizes that a set's digest stands for."""
    return archive.list_batches(folder) if layout == "archive" else find_images(folder, ("train", "test")).sizes


def choose_counts(workload: Workload, items: int | None, items_per_s: float) -> Counts:
    """Give as many as are made in ten seconds, or as many as are asked for, and the published share of test items."""
    if items == ALL:
        return Counts(workload.train_items, workload.test_items)
    share = workload.test_items / workload.train_items
    least = least_items(workload)
    if items is None:
        batches = int(items_per_s * MAKING_S / (1 + share) / workload.batch)
        items = min(max(batches, LEAST_BATCHES) * workload.batch, workload.train_items)
    if items < least:
        says = f"{items} items are too few for {workload.name}"
        raise UsageError(says, f"--items is expected to be {least} or more, so that every class is there, or all.")
    return Counts(items, max(least, round(items * share)))


def least_items(workload: Workload) -> int:
    """Give how many items it takes to have one of each class."""
    return 1 if workload.data_layout == "plates" else workload.outputs[-1]


def announce(workload: Workload, counts: Counts, pace: Pace, place: Path, tell: Tell) -> None:
    """Tell the size before much is written, and refuse what cannot fit."""
    size = (counts.train + counts.test) * pace.bytes_per_item
    if size > SHOWN_FROM_BYTES:
        what = count_words(workload, counts.train, counts.test)
        tell(f"made data for {workload.name}: {what}, about {size_words(size)}, will be written to {place}")
    free = shutil.disk_usage(place.parent).free
    if size > free:
        says = f"the made data for {workload.name} needs about {size_words(size)}"
        hint = "Make room there, ask for fewer by --items, or set LAPTIME_CACHE to a folder with more room."
        raise StoreError(f"{says}, and only {size_words(free)} are free in {place.parent}", hint)


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _try_out(pool: Executor, maker: Maker, seconds: float) -> Pace:
    """Make the first some dozens for so long, after one task that opens libraries and fonts."""
    maker.make(maker.trial)
    step = maker.trial.stop
    done = written = 0
    began = time.monotonic()
    for task, size in _in_order(pool, maker, (Task("train", step * n, step * (n + 1)) for n in count(1))):
        done, written = done + task.stop - task.start, written + size
        if time.monotonic() - began > seconds and done >= TRIAL_TASKS * step:
            break
    return Pace(done / (time.monotonic() - began), written / done)


def _make_all(pool: Executor, maker: Maker, counts: Counts, progress: _Progress) -> None:
    for task, _ in _in_order(pool, maker, maker.tasks(counts)):
        maker.collect(task, counts)
        progress.count(task.stop - task.start)


def _in_order(pool: Executor, maker: Maker, tasks: Iterator[Task]) -> Iterator[tuple[Task, int]]:
    """Give finished tasks in their order, with few of them under way: whoever stops waits for no more than these."""
    under_way: deque[tuple[Task, Future[int]]] = deque()
    try:
        for task in tasks:
            under_way.append((task, pool.submit(maker.make, task)))
            if len(under_way) > 2 * _processors():
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
    """Tells how far it is and when it will end: after two seconds, then every two, later every ten."""

    def __init__(self, workload: Workload, counts: Counts, tell: Tell) -> None:
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
