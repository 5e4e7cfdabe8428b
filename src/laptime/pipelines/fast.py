"""Our loader: processes that share memory with the training, or threads in it where there is no such memory.

The same processes read in the authors' way, where a lane gives workers to the authors' loader.
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

from laptime.errors import LaneError, TrainingError
from laptime.pipelines.held import Held
from laptime.pipelines.job import Job, Labels
from laptime.pipelines.making import Making
from laptime.pipelines.room import usable_cores
from laptime.pipelines.shared import NoRoomError, make_shared, map_shared, slot_of
from laptime.pipelines.spoilt import Spoilt
from laptime.pipelines.warp import Pixels
from laptime.pipelines.worker import OUT_OF_ROOM, Done

SLOTS_A_WORKER = 2
GRACE_S = 5.0
Made = tuple[Pixels, Labels]


class Processes:
    """Workers that make batches in turn, each into slots of its own. What is given lasts until the next is asked for.

    None is ever started again: one that dies is named, and the training ends.
    """

    def __init__(self, job: Job, workers: int, first: int) -> None:
        self._job = replace(job, workers=workers, slots=workers * SLOTS_A_WORKER)
        self._spoilt = Spoilt(len(job.paths))
        self._workers: list[subprocess.Popen[bytes]] = []
        self._next, self._taken = first, -1
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

    def __call__(self) -> Made:
        if self._taken >= 0:
            self._ask(self._taken + self._job.slots)  # its slot is free again
        number, self._next = self._next, self._next + 1
        self._taken = number
        done = self._hear(number)
        for path, reason in done.bad:
            self._spoilt.add(path, reason)
        images, labels = slot_of(self._memory, self._job, (number - self._first) % self._job.slots)
        # Floats are used as they are, and whoever holds them shall not see them written over.
        return (images, labels) if self._job.way == "ours" else (images.copy(), labels)

    def repeat(self) -> None:
        self._among = max(1, self._next - self._first)

    def notes(self) -> tuple[str, ...]:
        return self._spoilt.notes()

    def close(self) -> None:
        for worker in self._workers:
            assert worker.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it is gone already
                worker.stdin.close()
        for worker in self._workers:
            try:
                worker.wait(GRACE_S)
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

    def _hear(self, number: int) -> Done:
        worker = self._workers[self._worker_of(number)]
        assert worker.stdout is not None
        line = worker.stdout.readline()
        if not line:
            raise self._lost(number)
        done = msgspec.json.decode(line, type=Done)
        if done.error is not None:
            raise TrainingError(f"loader worker {self._worker_of(number) + 1}: {done.error}")
        return done

    def _lost(self, number: int) -> LaneError:
        """Say which worker is gone, and how it ended."""
        index = self._worker_of(number)
        code = self._workers[index].wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return LaneError(
            f"loader worker {index + 1} of {self._job.workers} {how} before batch {number + 1} was made",
            "if memory ran out, give fewer workers: workers=N",
        )


class Threads:
    """The same batches made in the training's own process, between its steps: `workers=0`, or where nothing is shared.

    On a processor this is often best: a step uses every core, and a process beside it would only hold the step up.
    """

    ready_batches = 0

    def __init__(self, job: Job, threads: int, first: int, notes: tuple[str, ...] = ()) -> None:
        self._job, self._first, self._notes = job, first, notes
        self.holds = job.held_bytes > 0
        self._given = 0
        self._among: int | None = None
        self._spoilt = Spoilt(len(job.paths))
        self._pool = ThreadPoolExecutor(threads, "loader") if threads > 1 else None
        spread: Any = self._pool.map if self._pool else map
        held = Held(memoryview(bytearray(job.held_bytes)), len(job.paths)) if job.held_bytes else None
        self._make = Making(job, held, spread)
        self._images = np.empty((job.batch, job.height, job.width, 3), np.uint8)
        self._labels = np.empty((job.batch, job.label_width), np.int64)

    def __call__(self) -> Made:
        place = self._given if self._among is None else self._given % self._among
        for path, reason in self._make(self._first + place, self._images, self._labels):
            self._spoilt.add(path, reason)
        self._given += 1
        return self._images, self._labels

    def repeat(self) -> None:
        self._among = max(1, self._given)

    def notes(self) -> tuple[str, ...]:
        return (*self._notes, *self._spoilt.notes())

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def open_fast(job: Job, workers: int, first: int) -> Processes | Threads:
    """Give processes, or threads where none are wanted or the system gives no shared memory."""
    if workers == 0:
        return Threads(job, usable_cores(), first)
    try:
        return Processes(job, workers, first)
    except NoRoomError as error:
        return Threads(job, workers, first, (f"{error}; the loader goes on with threads",))


def open_read_by_workers(job: Job, workers: int, first: int) -> Processes:
    """Give processes that each make whole batches in the authors' way; nothing is held."""
    try:
        return Processes(job, workers, first)
    except NoRoomError as error:
        raise LaneError(f"workers={workers}: {error}", "name fewer, or a smaller batch") from error


def _start(job: Job, slots: int, held: int) -> subprocess.Popen[bytes]:
    passed = [descriptor for descriptor in (slots, held) if descriptor != OUT_OF_ROOM]
    worker = subprocess.Popen(
        [sys.executable, "-m", "laptime.pipelines.worker", str(slots), str(held)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=passed,
    )
    assert worker.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # died in its first breath: said when its first batch is asked for
        worker.stdin.write(msgspec.json.encode(job) + b"\n")
        worker.stdin.flush()
    return worker
