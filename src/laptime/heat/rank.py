"""One rank of a heat: a process that builds the lane's training with the others, and takes its steps on request.

Every rank has a `Rank`, the first one too. What it takes and when, the first rank decides (`laptime.heat.leader`).
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from laptime.backends.base import Backend, Exercise, Runner
from laptime.backends.shared import SharedTraining
from laptime.heat import rank_messages as to
from laptime.heat.collectives import watch_collectives
from laptime.heat.lockstep import LockstepSteps
from laptime.heat.memory import peak_memory_bytes
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, RankPlace
from laptime.model.ranks import RankReport

NO_SCHEDSTAT = Missing("this system does not say how long threads wait for a core")
NOT_PROFILED = Missing("only laptime scale profiles it, in the first rank of lanes that exchange gradients")
TASKS = Path("/proc/self/task")
Clock = Callable[[], int]


@dataclass(slots=True)
class Rank:
    """A training of this process, and how long its steps take; `in_lockstep` with those of the other ranks, or not."""

    number: int
    device: str
    clock: Clock
    training: SharedTraining
    in_lockstep: bool = False
    runner: Runner | None = None
    first_step_ns: int = 0
    timed_ns: int = 0
    _began_ns: int | None = None
    _ended_ns: int = 0
    _outside_ns: int = 0
    _marks: Sequence[object] = ()
    _steps: Runner | LockstepSteps | None = None
    _waited_before_s: float | Missing = NO_SCHEDSTAT
    _reported: RankReport | None = None

    @property
    def running(self) -> Runner:
        assert self.runner is not None
        return self.runner

    @property
    def steps(self) -> Runner | LockstepSteps:
        assert self._steps is not None
        return self._steps

    def start(self) -> Runner:
        self._waited_before_s = waited_s()
        self.runner = self._steps = self.training.start()
        if self.in_lockstep:
            self._steps = LockstepSteps(self.runner, self.training.exchange(to.SMALL_BYTES), self.clock)
        return self.runner

    def run(self, steps: int) -> None:
        self._begin()
        self.steps.run(steps)
        self._end()

    def run_marked(self, steps: int) -> Sequence[object]:
        self._begin()
        self._marks = self.steps.run_marked(steps)
        self._end()
        return self._marks

    def fence(self) -> int:
        """Return how long the steps since the last fence took, all of which are done."""
        if self._began_ns is None:
            return 0
        took_ns = self._ended_ns - self._began_ns - (self.steps.outside_ns - self._outside_ns)
        self._began_ns = None
        self.first_step_ns = self.first_step_ns or took_ns
        self.timed_ns += took_ns
        return took_ns

    def step_ns(self) -> tuple[int, ...]:
        """Return the times of the marked steps before the last fence."""
        marks, self._marks = self._marks, ()
        return self.steps.step_ns(marks) if marks else ()

    def all_reduce(self, size_bytes: int, times: int) -> int:
        """Return how long this many exchanges took together, after one that is not timed."""
        exercise: Exercise = self.training.exchange(size_bytes)
        exercise.once()
        exercise.fence()
        began_ns = self.clock()
        for _ in range(times):
            exercise.once()
        exercise.fence()
        return self.clock() - began_ns

    def profile_exchange(self, together: Runner) -> None:
        """Profile some steps that all ranks take. The rest of the report is from before: a profiler needs memory."""
        report, found = self.report(), watch_collectives(self.clock, together, self.training.exchange_profiler())
        if isinstance(found, Missing):
            self._reported = replace(report, absent={"collectives": found})
        else:
            self._reported = replace(report, collectives=found, absent={})

    def report(self) -> RankReport:
        if self._reported is not None:
            return self._reported
        waited, before = waited_s(), self._waited_before_s
        missing = isinstance(waited, Missing) or isinstance(before, Missing)
        return RankReport(
            rank=self.number,
            device=self.device,
            host=platform.node(),
            first_step_ns=self.first_step_ns,
            peak_memory_bytes=peak_memory_bytes(),
            device_memory_bytes=self.training.device_memory_bytes(),
            waited_s=NO_SCHEDSTAT if missing else waited - before,  # type: ignore[operator]
            timed_s=self.timed_ns / 1e9,
            absent={"collectives": NOT_PROFILED},
        )

    def _begin(self) -> None:
        if self._began_ns is None:
            self._began_ns, self._outside_ns = self.clock(), self.steps.outside_ns

    def _end(self) -> None:
        """Wait until all steps are done. The order to do so may come long after them, from another node."""
        self.steps.fence()
        self._ended_ns = self.clock()


def build_rank(backend: Backend, order: HeatOrder, place: RankPlace) -> Rank:
    """Build the training of one rank.

    On cards, hosts run ahead of their devices and do not wait for an exchange, and between nodes each wait would cost
    what the link delays. So only ranks that compute on one node keep in step where nothing is exchanged.
    """
    lane = order.lane
    is_one_node = lane.seat_of(place.rank)[1] == place.of
    return Rank(
        place.rank,
        lane.device.name,
        backend.clock,
        cast("SharedTraining", backend.build(order)),
        in_lockstep=is_one_node and lane.device.kind == "cpu" and lane.settings.value_of("sync") == "none",
    )


def serve(backend: Backend, order: HeatOrder, link: to.Link) -> None:
    """Be a rank other than the first: build, then do what the first one says until it is gone."""
    try:
        keep_to_cores(order)
        assert order.place is not None
        rank = build_rank(backend, order, order.place)
        while (told := link.hear_order()) is not None:
            _obey(rank, told, link)
    except Exception as error:
        with contextlib.suppress(OSError):
            link.say(to.RankFailed(f"{type(error).__name__}: {error}"))
            time.sleep(1.0)  # the others see the end of this process at once, and would report that alone
        raise


def _obey(rank: Rank, told: to.ToRank, link: to.Link) -> None:
    match told:
        case to.ProveRank(precision=precision):
            rank.training.prove(precision)
        case to.StartRank():
            rank.start()
        case to.TakeSteps(count=count, marked=False):
            rank.run(count)
        case to.TakeSteps(count=count):
            rank.run_marked(count)
        case to.FenceRank():
            link.say(to.RankDone(rank.fence()))
        case to.Echo():
            link.say(to.RankDone())
        case to.TellTimes():
            link.say(to.RankTook(rank.step_ns()))
        case to.RepeatHeld():
            rank.running.repeat()
        case to.AllReduce(size_bytes=size_bytes, times=times):
            rank.all_reduce(size_bytes, times)
        case to.CloseRank():
            notes = rank.running.close() if rank.runner is not None else ()
            link.say(to.RankClosed(rank.report(), notes))


def order_of(order: HeatOrder, place: RankPlace) -> HeatOrder:
    """Return the order of one rank: on its own device, and with the meeting's socket for the first rank only."""
    lane = replace(order.lane, device=order.lane.devices[place.rank])
    return replace(order, lane=lane, place=place if place.rank == 0 else replace(place, meeting_fd=None))


def keep_to_cores(order: HeatOrder) -> None:
    """Keep a rank on a processor to its own share of the cores."""
    place = order.place
    if place is None or order.lane.device.kind != "cpu" or not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    number, here = order.lane.seat_of(place.rank)
    share = len(cores) // here
    if share:
        os.sched_setaffinity(0, cores[number * share : (number + 1) * share])


def waited_s() -> float | Missing:
    """Return how long this process's threads were ready to run and had no core so far."""
    waited = 0
    try:
        for task in TASKS.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                waited += int((task / "schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return NO_SCHEDSTAT
    return waited / 1e9
