"""Our loader: processes that share memory with the training, or threads if there is no shared memory.

The same processes read in the authors' way if a lane gives workers to the authors' loader.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from laptime.engine.pipelines.decode import DamagedImages, Pixels
from laptime.engine.pipelines.job import Labels, LoaderJob
from laptime.engine.pipelines.making import BatchMaker, NoRoomError, PictureStore, make_shared, map_shared, slot_of
from laptime.engine.pipelines.worker import OUT_OF_ROOM, BatchReply
from laptime.machine.sensors.cgroup import usable_cores
from laptime.model.errors import LaneError, TrainingError

SLOTS_A_WORKER = 2
WORKER_GRACE_S = 5.0
MadeBatch = tuple[Pixels, Labels]


class LoaderProcesses:
    """Worker processes that make batches in turn, each into its own slots. A batch is valid until the next call.

    No worker is ever restarted: if one dies, an error names it and the training ends.
    """

    def __init__(self, job: LoaderJob, workers: int, first: int) -> None:
        self._job = replace(job, workers=workers, slots=workers * SLOTS_A_WORKER)
        self._damaged = DamagedImages(len(job.paths))
        self._workers: list[subprocess.Popen[bytes]] = []
        self._next = first
        self._taken = -1
        self.holds = job.held_bytes > 0
        self._first = first
        self._among: int | None = None
        self.ready_batches = self._job.slots
        slots = make_shared(self._job.slots * job.slot_bytes, reserved=True)
        held = OUT_OF_ROOM
        try:
            self._memory = map_shared(slots)
            held = make_shared(job.held_bytes, reserved=False) if job.held_bytes else OUT_OF_ROOM
            for worker in range(workers):
                self._workers.append(_start(replace(self._job, worker=worker), slots, held))
        finally:
            for descriptor in (slots, held):
                if descriptor != OUT_OF_ROOM:
                    os.close(descriptor)
        for number in range(first, first + self._job.slots):
            self._ask(number)

    def __call__(self) -> MadeBatch:
        if self._taken >= 0:
            self._ask(self._taken + self._job.slots)  # its slot is free again
        number = self._next
        self._next += 1
        self._taken = number
        done = self._hear(number)
        for path, reason in done.bad:
            self._damaged.add(path, reason)
        images, labels = slot_of(self._memory, self._job, (number - self._first) % self._job.slots)
        # The caller uses floats without a copy, and must not see them overwritten.
        return (images, labels) if self._job.way == "ours" else (images.copy(), labels)

    def repeat(self) -> None:
        self._among = max(1, self._next - self._first)

    def notes(self) -> tuple[str, ...]:
        return self._damaged.notes()

    def close(self) -> None:
        for worker in self._workers:
            assert worker.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it is gone already
                worker.stdin.close()
        for worker in self._workers:
            try:
                worker.wait(WORKER_GRACE_S)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            assert worker.stdout is not None
            worker.stdout.close()

    def _worker_of(self, number: int) -> int:
        return (number - self._first) % self._job.workers

    def _ask(self, number: int) -> None:
        worker = self._workers[self._worker_of(number)]
        assert worker.stdin is not None
        place = number - self._first
        wanted = number if self._among is None else self._first + place % self._among
        try:
            worker.stdin.write(b"%d %d\n" % (wanted, place % self._job.slots))
            worker.stdin.flush()
        except BrokenPipeError:
            raise self._lost(number) from None

    def _hear(self, number: int) -> BatchReply:
        worker = self._workers[self._worker_of(number)]
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            raise self._lost(number)
        done = msgspec.json.decode(line, type=BatchReply)
        if done.error is not None:
            raise TrainingError(f"loader worker {self._worker_of(number) + 1}: {done.error}")
        return done

    def _lost(self, number: int) -> LaneError:
        """Return an error that says which worker is gone, and how it ended."""
        index = self._worker_of(number)
        code = self._workers[index].wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return LaneError(
            f"loader worker {index + 1} of {self._job.workers} {how} before batch {number + 1} was made",
            "if memory ran out, give fewer workers: workers=N",
        )


class LoaderThreads:
    """Makes the same batches in the training's own process, between its steps: `workers=0`, or no shared memory.

    On a processor this is often best: a step uses every core, and another process would only slow it down.
    """

    ready_batches = 0

    def __init__(self, job: LoaderJob, threads: int, first: int, notes: tuple[str, ...] = ()) -> None:
        self._job = job
        self._first = first
        self._notes = notes
        self.holds = job.held_bytes > 0
        self._given = 0
        self._among: int | None = None
        self._damaged = DamagedImages(len(job.paths))
        self._pool = ThreadPoolExecutor(threads, "loader") if threads > 1 else None
        spread: Any = self._pool.map if self._pool else map
        held = PictureStore(memoryview(bytearray(job.held_bytes)), len(job.paths)) if job.held_bytes else None
        self._make = BatchMaker(job, held, spread)
        self._images = np.empty((job.batch, job.height, job.width, 3), np.uint8)
        self._labels = np.empty((job.batch, job.label_width), np.int64)

    def __call__(self) -> MadeBatch:
        place = self._given if self._among is None else self._given % self._among
        for path, reason in self._make(self._first + place, self._images, self._labels):
            self._damaged.add(path, reason)
        self._given += 1
        return self._images, self._labels

    def repeat(self) -> None:
        self._among = max(1, self._given)

    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._damaged.notes())

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def open_fast(job: LoaderJob, workers: int, first: int) -> LoaderProcesses | LoaderThreads:
    """Return loader processes, or threads if `workers` is 0 or there is no shared memory."""
    if workers == 0:
        return LoaderThreads(job, usable_cores(), first)
    try:
        return LoaderProcesses(job, workers, first)
    except NoRoomError as error:
        return LoaderThreads(job, workers, first, (f"{error}; the loader goes on with threads",))


def open_read_by_workers(job: LoaderJob, workers: int, first: int) -> LoaderProcesses:
    """Return processes that each make whole batches in the authors' way. No images are held."""
    try:
        return LoaderProcesses(job, workers, first)
    except NoRoomError as error:
        raise LaneError(f"workers={workers}: {error}", "name fewer, or a smaller batch") from error


def _start(job: LoaderJob, slots: int, held: int) -> subprocess.Popen[bytes]:
    passed = [descriptor for descriptor in (slots, held) if descriptor != OUT_OF_ROOM]
    worker = subprocess.Popen(
        [sys.executable, "-m", "laptime.engine.pipelines.worker", str(slots), str(held)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=passed,
    )
    assert worker.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it died at once: reported when its first batch is due
        worker.stdin.write(msgspec.json.encode(job) + b"\n")
        worker.stdin.flush()
    return worker
