"""The first rank of a heat: it starts the others as copies of this process, and they step when it steps.

Ranks on other nodes come on their own, and prove that they know a secret (`laptime.engine.heat.rank`).

To the loop that times windows, a `RankedBackend` is a back end like any other: its training proves, starts and steps in
all ranks at once. A fence returns when every rank is done.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from laptime.engine import wire
from laptime.engine.authentication import Admission
from laptime.engine.backends.base import Backend, Evaluator, Profiler, Runner, UnseenWeights
from laptime.engine.heat import rank as to
from laptime.engine.heat.loop import RankedLine, run_heat
from laptime.engine.heat.rank import (
    Follower,
    Rank,
    build_rank,
    keep_to_cores,
    open_meeting,
    order_of,
    own_address,
    serve,
    take_secret,
)
from laptime.model.errors import LaneError
from laptime.model.hardware import StepWork
from laptime.model.plan import HeatOrder, RankPlace
from laptime.model.process import Exchange, RankReport, RankTimes
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun, Reference

RANKS_MEET_S = 300.0
RANK_BLAME_S = 2.0  # a rank that failed reports it before the others notice that it is gone
NOT_APART = Missing("its ranks step together: laptime scale says what they wait for")
REPORT_MOST_BYTES = 256 << 20
EXCHANGE_S = 0.1
EXCHANGES_LEAST, EXCHANGES_MOST = 3, 50


class Leader:
    """Starts the other ranks, and leads them."""

    def __init__(self, backend: Backend, order: HeatOrder, line: RankedLine) -> None:
        self._line = line
        self._followers: list[Follower] = []
        self._far: list[Follower] = []
        meeting, address = open_meeting(own_address(order.lane))
        place = RankPlace(0, len(order.lane.devices), address, meeting.detach())
        self.order = order_of(order, place)
        _, here = order.lane.seat_of(0)
        secret = take_secret() if here < place.of else ""
        links: list[to.Link] = []
        pids: list[int | None] = []
        for rank in range(1, here):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                ours.close()
                for link in links:
                    link.close()
                own = order_of(order, replace(place, rank=rank))
                line.live_as_copy(partial(serve, backend, own, to.link_on_node(theirs)))
            theirs.close()
            pids.append(pid)
            links.append(to.link_on_node(ours))
        if here < place.of:
            others = self._meet_others(place, here, secret)
            pids += [None] * len(others)
            links += others
        self._followers = [
            Follower(number, pid, link, self._fail)
            for number, (pid, link) in enumerate(zip(pids, links, strict=True), 1)
        ]
        self._far = self._followers[here - 1 :]
        keep_to_cores(self.order)

    def tell(self, message: to.ToRank) -> None:
        for follower in self._followers:
            follower.tell(message)

    def ask(self, message: to.ToRank) -> list[Any]:
        self.tell(message)
        return self.answers()

    def answers(self) -> list[Any]:
        return [follower.answer() for follower in self._followers]

    def delay_ns(self) -> int:
        """Return how long an order takes to the farthest rank on another node; 0 where all ranks are on this one."""
        return max((follower.round_trip_ns() // 2 for follower in self._far), default=0)

    @contextmanager
    def blaming(self) -> Iterator[None]:
        """If a step fails here because another rank did, raise that rank's failure."""
        try:
            yield
        except LaneError:
            raise
        except Exception as error:
            deadline = time.monotonic() + RANK_BLAME_S
            while time.monotonic() < deadline:
                for follower in self._followers:
                    if follower.failure is not None:
                        raise follower.failure from error
                time.sleep(0.01)
            raise

    def _meet_others(self, place: RankPlace, first: int, secret: str) -> list[to.Link]:
        """Return the links to ranks on other nodes, which the parent brings here, once all have come."""
        came: dict[int, to.Link] = {}
        server, address = open_meeting(place.address.rpartition(":")[0])
        with closing(Admission(server, secret)) as admission:
            self._line.say(wire.RanksMeet(replace(place, rank=first, meeting_fd=None, links=address)))
            deadline = time.monotonic() + RANKS_MEET_S
            while len(came) < place.of - first:
                admitted = admission.next(deadline - time.monotonic())
                if admitted is None:
                    missing = min(set(range(first, place.of)) - came.keys())
                    raise LaneError(f"rank {missing} did not come within {RANKS_MEET_S:g} s")
                connection, greeting = admitted
                number = to.number_in(greeting)
                if number is None or number in came or not first <= number < place.of:
                    connection.close()
                else:
                    came[number] = to.link_to_node(connection)
        return [came[number] for number in sorted(came)]

    def _fail(self, error: LaneError) -> None:
        time.sleep(
            2 * RANK_BLAME_S
        )  # by then this process has ended, unless it waits for the other one within an exchange
        self._line.give_up(error)


class RankedRunner(UnseenWeights):
    """A training that all ranks step together."""

    def __init__(self, rank: Rank, leader: Leader) -> None:
        self._rank = rank
        self._leader = leader
        leader.tell(to.StartRank())
        with leader.blaming():
            runner = rank.start()
        self._runner: Runner = runner
        self._delay_ns = leader.delay_ns()
        self._began_ns: int | None = None
        self.stride = runner.stride
        self.ready_batches = runner.ready_batches
        self.holds = runner.holds
        self.outside_ns = 0
        self._rank_ns: tuple[int, ...] = ()
        self._own_step_ns: tuple[int, ...] = ()
        self.reports: tuple[RankReport, ...] = ()

    @property
    def evaluator(self) -> Evaluator | None:
        return self._runner.evaluator

    def run(self, steps: int) -> None:
        self._order(to.TakeSteps(steps))
        with self._leader.blaming():
            self._rank.run(steps)

    def run_marked(self, steps: int) -> Sequence[object]:
        self._order(to.TakeSteps(steps, marked=True))
        with self._leader.blaming():
            return self._rank.run_marked(steps)

    def fence(self) -> None:
        self._leader.tell(to.FenceRank())
        with self._leader.blaming():
            own_ns = self._rank.fence()
        self._rank_ns = (own_ns, *(answer.ns for answer in self._leader.answers()))
        if self._began_ns is not None:
            self.outside_ns += self._rank.clock() - self._began_ns - max(self._rank_ns)
            self._began_ns = None

    def _order(self, steps: to.TakeSteps) -> None:
        """Order steps from the other ranks. The first of a window begin everywhere at once, also on far nodes.

        From the order to the last answer more time passes than the steps of the slowest rank take. It is no step.
        """
        began_ns = self._rank.clock()
        self._leader.tell(steps)
        if self._began_ns is None:
            self._began_ns = began_ns
            time.sleep(self._delay_ns / 1e9)

    def step_ns(self, _marks: Sequence[object]) -> tuple[int, ...]:
        self._own_step_ns = self._rank.step_ns()
        return self._own_step_ns

    @property
    def ranks(self) -> RankTimes:
        """How long each rank took before the last fence; read after `step_ns`, off the clock."""
        steps = [self._own_step_ns, *(answer.step_ns for answer in self._leader.ask(to.TellTimes()))]
        together_ns = sum(map(max, zip(*steps, strict=False)))
        longest_ns = max(map(sum, steps))
        more = together_ns / longest_ns if longest_ns and all(steps) else 1.0
        return RankTimes(self._rank_ns, round(max(self._rank_ns) * more))

    def loss(self) -> float | None:
        return self._runner.loss()

    def repeat(self) -> None:
        self._leader.tell(to.RepeatHeld())
        self._runner.repeat()

    def parts(self) -> Missing:
        return NOT_APART

    def close(self) -> tuple[str, ...]:
        answers = self._leader.ask(to.CloseRank())
        self.reports = (self._rank.report(), *(answer.report for answer in answers))
        notes = (*self._runner.close(), *(note for answer in answers for note in answer.notes))
        return tuple(dict.fromkeys(notes))


class RankedTraining:
    """A lane's training in all ranks."""

    def __init__(self, rank: Rank, leader: Leader) -> None:
        self._rank = rank
        self._leader = leader
        training = rank.training
        self.runner: RankedRunner | None = None
        self.parameters = training.parameters
        self.items_per_step = training.items_per_step
        self.steps_per_lap = training.steps_per_lap
        self.notes = training.notes
        self.data = training.data

    def prove(self, precision: str) -> ProofRun:
        self._leader.tell(to.ProveRank(precision))
        with self._leader.blaming():
            return self._rank.training.prove(precision)

    def reference(self) -> Reference:
        raise LaneError("a reference is computed by one process")

    def start(self) -> RankedRunner:
        self.runner = RankedRunner(self._rank, self._leader)
        return self.runner

    def exchanges(self) -> tuple[Exchange, ...]:
        """Time the exchange of next to nothing, and of all gradients, among the ranks."""
        exchanges: list[Exchange] = []
        for size_bytes in dict.fromkeys((to.HOP_BYTES, min(4 * self.parameters, REPORT_MOST_BYTES))):
            once_ns = self._all_reduce(size_bytes, 1)
            times = min(max(round(EXCHANGE_S * 1e9 / max(once_ns, 1)), EXCHANGES_LEAST), EXCHANGES_MOST)
            exchanges.append(Exchange(size_bytes, self._all_reduce(size_bytes, times) / times))
        return tuple(exchanges)

    def _all_reduce(self, size_bytes: int, times: int) -> int:
        self._leader.tell(to.AllReduce(size_bytes, times))
        with self._leader.blaming():
            return self._rank.all_reduce(size_bytes, times)

    def profile_exchange(self) -> None:
        """Profile some steps in the first rank, whose report then has what was seen."""
        assert self.runner is not None
        self._rank.profile_exchange(self.runner)

    def learn(self) -> Any:
        raise LaneError("a whole training on several devices is not in this version")

    def profiler(self, scratch: Path) -> Profiler | Missing:
        return self._rank.training.profiler(scratch)

    def work(self) -> StepWork | Missing:
        return Missing("it is counted for one device")

    def device_memory_bytes(self) -> int | Missing:
        return self._rank.training.device_memory_bytes()


class RankedBackend:
    """A back end whose trainings run in all ranks of a lane."""

    def __init__(self, backend: Backend, line: RankedLine) -> None:
        self._backend = backend
        self._line = line
        self.training: RankedTraining | None = None
        self.name = backend.name
        self.clock = backend.clock
        self.versions = backend.versions
        self.devices = backend.devices

    def build(self, order: HeatOrder) -> RankedTraining:
        leader = Leader(self._backend, order, self._line)
        with leader.blaming():
            assert leader.order.place is not None
            rank = build_rank(self._backend, leader.order, leader.order.place)
        self.training = RankedTraining(rank, leader)
        return self.training


def run_ranked_heat(backend: Backend, order: HeatOrder, line: RankedLine) -> None:
    """Run a heat in all ranks; then report on each, and time what they exchange."""
    ranked = RankedBackend(backend, line)

    def profile_exchange() -> None:
        if order.profiles_exchange and ranked.training is not None:
            line.say(wire.Phase("profile", backend.clock()))
            ranked.training.profile_exchange()

    held = run_heat(ranked, order, line, profile_exchange)
    training = ranked.training
    assert training is not None and training.runner is not None  # noqa: PT018  the heat has run
    line.say(wire.Phase("exchange", backend.clock()))
    ranks = training.runner.reports
    line.say(wire.Finished(memory_of_ranks(ranks), held, ranks, training.exchanges()))


def memory_of_ranks(ranks: Sequence[RankReport]) -> int | Missing:
    """Return the most memory that all ranks held, each at its own time."""
    held_bytes = 0
    for rank in ranks:
        if isinstance(rank.peak_memory_bytes, Missing):
            return rank.peak_memory_bytes
        held_bytes += rank.peak_memory_bytes
    return held_bytes
