"""One rank of a heat: a process that builds the lane's training with the others, and takes its steps on request.

Every rank has a `Rank`, the first one too. What it takes and when, the first rank decides
(`laptime.engine.heat.leader`).
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from laptime.engine import wire
from laptime.engine.authentication import BACKLOG, LOOPBACK, LineSocket, SignedLines, connect_to
from laptime.engine.backends.base import Backend, ExchangeProfiler, Exercise, Runner, SharedTraining
from laptime.engine.heat.loop import RankedLine, run_down, time_steps
from laptime.engine.heat.work import Clock, peak_memory_bytes
from laptime.model.errors import LaneError, RankGoneError, WireError
from laptime.model.plan import NODE_ADDRESS, RANKS_SECRET, HeatOrder, PlannedLane, RankPlace
from laptime.model.process import RANK_IS_GONE, REASON_S, Collectives, RankReport
from laptime.model.quantities import Missing

NO_SCHEDSTAT = Missing("this system does not say how long threads wait for a core")
NOT_PROFILED = Missing("only laptime scale profiles it, in the first rank of lanes that exchange gradients")
TASKS = Path("/proc/self/task")


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
            self._steps = LockstepSteps(self.runner, self.training.exchange(HOP_BYTES), self.clock)
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
        marks = self._marks
        self._marks = ()
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
        report = self.report()
        found = watch_collectives(self.clock, together, self.training.exchange_profiler())
        if isinstance(found, Missing):
            self._reported = replace(report, absent={"collectives": found})
        else:
            self._reported = replace(report, collectives=found, absent={})

    def report(self) -> RankReport:
        if self._reported is not None:
            return self._reported
        waited = waited_s()
        before = self._waited_before_s
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
            self._began_ns = self.clock()
            self._outside_ns = self.steps.outside_ns

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


def serve(backend: Backend, order: HeatOrder, link: Link) -> None:
    """Be a rank other than the first: build, then do what the first one says until it is gone."""
    try:
        keep_to_cores(order)
        assert order.place is not None
        rank = build_rank(backend, order, order.place)
        while (message := link.hear_order()) is not None:
            _obey(rank, message, link)
    except Exception as error:
        with contextlib.suppress(OSError):
            link.say(RankFailed(f"{type(error).__name__}: {error}"))
            time.sleep(1.0)  # the others see the end of this process at once, and would report that alone
        raise


def _obey(rank: Rank, message: ToRank, link: Link) -> None:
    match message:
        case ProveRank(precision=precision):
            rank.training.prove(precision)
        case StartRank():
            rank.start()
        case TakeSteps(count=count, marked=False):
            rank.run(count)
        case TakeSteps(count=count):
            rank.run_marked(count)
        case FenceRank():
            link.say(RankDone(rank.fence()))
        case Echo():
            link.say(RankDone())
        case TellTimes():
            link.say(RankTook(rank.step_ns()))
        case RepeatHeld():
            rank.running.repeat()
        case AllReduce(size_bytes=size_bytes, times=times):
            rank.all_reduce(size_bytes, times)
        case CloseRank():
            notes = rank.running.close() if rank.runner is not None else ()
            link.say(RankClosed(rank.report(), notes))


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


# What the first rank of a heat asks of the others, and what they answer: one JSON object a line, over a socket.
#
# Between nodes both ends have proven that they know the secret of the race, and sign their lines.

RANK_LINE_MOST_BYTES = 64 << 20  # a report is some kilobytes, the times of steps have some digits each
HOP_BYTES = 4  # an exchange of this many bytes takes what a hop takes


class JoinRank(msgspec.Struct, frozen=True, tag=True):
    """A rank on another node introduces itself."""

    number: int


class ProveRank(msgspec.Struct, frozen=True, tag=True):
    precision: str


class StartRank(msgspec.Struct, frozen=True, tag=True):
    """Make the training that is timed."""


class TakeSteps(msgspec.Struct, frozen=True, tag=True):
    """Take this many steps, marked one by one or not."""

    count: int
    marked: bool = False


class FenceRank(msgspec.Struct, frozen=True, tag=True):
    """Wait until all steps are done, then answer."""


class Echo(msgspec.Struct, frozen=True, tag=True):
    """Answer at once."""


class TellTimes(msgspec.Struct, frozen=True, tag=True):
    """Report the times of the steps before the last fence."""


class RepeatHeld(msgspec.Struct, frozen=True, tag=True):
    """Step on batches that are held."""


class AllReduce(msgspec.Struct, frozen=True, tag=True):
    """Exchange this many bytes, this many times."""

    size_bytes: int
    times: int


class CloseRank(msgspec.Struct, frozen=True, tag=True):
    """Free the loader, report, and wait for the end."""


class RankDone(msgspec.Struct, frozen=True, tag=True):
    """What was asked is done. `ns` is how long the steps before a fence took."""

    ns: int = 0


class RankTook(msgspec.Struct, frozen=True, tag=True):
    step_ns: tuple[int, ...]


class RankClosed(msgspec.Struct, frozen=True, tag=True):
    report: RankReport
    notes: tuple[str, ...]


class RankFailed(msgspec.Struct, frozen=True, tag=True):
    reason: str


ToRank = ProveRank | StartRank | TakeSteps | FenceRank | Echo | TellTimes | RepeatHeld | AllReduce | CloseRank
FromRank = JoinRank | RankDone | RankTook | RankClosed | RankFailed
_encoder = msgspec.json.Encoder()
_to_rank: msgspec.json.Decoder[ToRank] = msgspec.json.Decoder(ToRank)
_from_rank: msgspec.json.Decoder[FromRank] = msgspec.json.Decoder(FromRank)


class Link:
    """One end of the connection between the first rank and another: on one node a socket, else with signed lines."""

    def __init__(self, lines: LineSocket | SignedLines) -> None:
        self._lines = lines

    def say(self, message: ToRank | FromRank) -> None:
        self._lines.send(_encoder.encode(message))

    def hear_order(self) -> ToRank | None:
        """Return the next order of the first rank, or None if it is gone."""
        order: ToRank | None = self._hear(_to_rank)
        return order

    def hear_answer(self) -> FromRank | None:
        """Return the next answer of a rank, or None if it is gone."""
        answer: FromRank | None = self._hear(_from_rank)
        return answer

    def close(self) -> None:
        self._lines.close()

    def _hear(self, decoder: msgspec.json.Decoder[Any]) -> Any:
        try:
            line = self._lines.receive(None)
        except EOFError:
            return None
        return wire.decode(decoder, line, "rank at the other end")


def link_on_node(connection: socket.socket) -> Link:
    """Return the link between two ranks of one node, over a pair of sockets that nobody else has."""
    return Link(LineSocket(connection, RANK_LINE_MOST_BYTES))


def link_to_node(connection: SignedLines) -> Link:
    """Return the link between two ranks on different nodes."""
    connection.lines.most_bytes = RANK_LINE_MOST_BYTES
    return Link(connection)


def number_in(line: bytes) -> int | None:
    """Return the number with which a rank introduced itself, or None if it said something else."""
    try:
        message = wire.decode(_from_rank, line, "rank at the other end")
    except WireError:
        return None
    return message.number if isinstance(message, JoinRank) else None


# Ranks of a heat on several nodes: by which address they meet, and how those on further nodes join.
#
# On each further node the parent starts one process, with the first rank's address in its order. The process copies
# itself for each rank of its node, and all connect to the first rank. Both ends of such a connection prove that they
# know the secret that the agents of their nodes gave them.

LEADER_CONNECT_S = 60.0


def own_address(lane: PlannedLane) -> str:
    """Return by which address the other ranks of a lane find this node."""
    return os.environ.get(NODE_ADDRESS, LOOPBACK) if lane.spread else LOOPBACK


def take_secret() -> str:
    """Return the secret of the ranks, and remove it from the environment: no process that starts later has it."""
    secret = os.environ.pop(RANKS_SECRET, "")
    if not secret:
        raise LaneError("no agent of a node has given this process the secret of its ranks")
    return secret


def open_meeting(host: str) -> tuple[socket.socket, str]:
    """Listen on a free port; return the socket, and where it is found."""
    meeting = socket.create_server((host, 0), backlog=BACKLOG)
    return meeting, f"{host}:{meeting.getsockname()[1]}"


def join_ranks(backend: Backend, order: HeatOrder, line: RankedLine) -> None:
    """Be all ranks of this node: do what the first rank says until it is gone."""
    place = order.place
    assert place is not None
    _, here = order.lane.seat_of(place.rank)
    secret = take_secret()
    for rank in range(place.rank + 1, place.rank + here):
        if os.fork() == 0:
            line.live_as_copy(partial(_join, backend, order, replace(place, rank=rank), secret))
    _join(backend, order, place, secret)


def _join(backend: Backend, order: HeatOrder, place: RankPlace, secret: str) -> None:
    host, _, port = place.links.rpartition(":")
    link = link_to_node(connect_to(host, int(port), secret, LEADER_CONNECT_S))
    link.say(JoinRank(place.rank))
    serve(backend, order_of(order, place), link)


# Another rank of a heat, as the first one sees it.

ECHOES = 5


class Follower:
    """Another rank. A thread reads what it says, so that its failure is heard at once."""

    def __init__(self, number: int, pid: int | None, link: Link, fail: Callable[[LaneError], None]) -> None:
        self.number = number
        self._pid = pid
        self._link = link
        self._fail = fail
        self._answers: queue.SimpleQueue[FromRank | None] = queue.SimpleQueue()
        self.failure: LaneError | None = None
        self._gone = threading.Event()
        threading.Thread(target=self._listen, daemon=True, name=f"rank {number}").start()

    def tell(self, message: ToRank) -> None:
        try:
            self._link.say(message)
        except OSError as error:
            self._gone.wait(REASON_S)
            raise self.failure or self._lost() from error

    def answer(self) -> Any:
        """Wait for the next answer."""
        answer = self._answers.get()
        if answer is None:
            raise self.failure or self._lost()
        return answer

    def round_trip_ns(self) -> int:
        """Return how long an order and its answer are under way: the shortest of some."""
        took_ns = []
        for _ in range(ECHOES):
            began_ns = time.monotonic_ns()
            self.tell(Echo())
            self.answer()
            took_ns.append(time.monotonic_ns() - began_ns)
        return min(took_ns)

    def _listen(self) -> None:
        try:
            while (heard := self._link.hear_answer()) is not None and not isinstance(heard, RankFailed):
                self._answers.put(heard)
            says = heard.reason if isinstance(heard, RankFailed) else self._how_ended()
        except WireError as error:
            says = error.says
        self.failure = self._lost() if says is None else LaneError(f"rank {self.number}: {says}")
        self._gone.set()
        self._answers.put(None)
        self._fail(self.failure)

    def _lost(self) -> RankGoneError:
        return RankGoneError(f"rank {self.number}: {RANK_IS_GONE}")

    def _how_ended(self) -> str | None:
        """Return how the process of a rank ended that said nothing; None where that is not known here."""
        if self._pid is None:
            return None
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        except ChildProcessError:
            return None
        if code >= 0:
            return f"its process ended on its own, with exit code {code}"
        return f"its process was ended by {signal.Signals(-code).name}"


# Steps of one rank that wait for the other ranks before each step, off the clock.
#
# Ranks that exchange nothing would drift apart, and no longer read from one disk at the same time as they do in
# training.


class LockstepSteps:
    """Takes a runner's steps. What it waits before each of them is no step, and is in `outside_ns`."""

    def __init__(self, runner: Runner, meeting: Exercise, clock: Callable[[], int]) -> None:
        self._runner = runner
        self._meeting = meeting
        self._clock = clock
        self.outside_ns = 0

    def run(self, steps: int) -> None:
        self.run_marked(steps)

    def run_marked(self, steps: int) -> list[int]:
        """Return how long each step took; these are its marks."""
        stride = self._runner.stride
        return [self._run(min(stride, steps - done)) for done in range(0, steps, stride)]

    def fence(self) -> None:
        self._runner.fence()

    def step_ns(self, marks: Sequence[Any]) -> tuple[int, ...]:
        return tuple(marks)

    def _run(self, steps: int) -> int:
        waits_ns = self._clock()
        self._meeting.once()
        self._meeting.fence()
        began_ns = self._clock()
        self._runner.run(steps)
        self._runner.fence()
        self.outside_ns += began_ns - waits_ns
        return self._clock() - began_ns


# Profile some steps of the first rank, after a heat's windows, to see how long collectives were in progress.

WATCH_NS = 0.4e9
RANK_STEPS_MOST = 8
T = TypeVar("T")


def watch_collectives(clock: Clock, runner: Runner, profiler: ExchangeProfiler | Missing) -> Collectives | Missing:
    """Step with all ranks, and return what the profiler of this one saw.

    A failure of the profiler is no failure of the heat. A failure of a step is: other ranks may be waiting in it.
    """
    if isinstance(profiler, Missing):
        return profiler
    run_down(clock, runner)
    steps = runner.stride
    took_ns = _watch(clock, runner, profiler, steps)
    if isinstance(took_ns, Missing):
        return took_ns
    if took_ns < WATCH_NS:  # The first start of a profiler loads its libraries, and its first steps differ.
        strides = min(RANK_STEPS_MOST // runner.stride, int(WATCH_NS / max(took_ns, 1)))
        steps *= max(1, strides)
        took_ns = _watch(clock, runner, profiler, steps)
    if isinstance(took_ns, Missing):
        return took_ns
    if isinstance(found := _tried(profiler.collectives), Missing):
        return found
    return Collectives(profiler.by, steps, took_ns / steps, found.in_progress_ns / steps, found.exposed_ns / steps)


def _watch(clock: Clock, runner: Runner, profiler: ExchangeProfiler, steps: int) -> int | Missing:
    runner.fence()
    if isinstance(failed := _tried(profiler.start), Missing):
        return failed
    took_ns = time_steps(clock, runner, steps)
    failed = _tried(profiler.stop)
    return failed if isinstance(failed, Missing) else took_ns


def _tried(do: Callable[[], T]) -> T | Missing:
    try:
        return do()
    except Exception as error:  # noqa: BLE001  whatever a framework raises
        return Missing(f"profiling ended in {type(error).__name__}: {error}")
