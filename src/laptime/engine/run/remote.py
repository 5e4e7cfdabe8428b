"""Children on the nodes of a cluster. For a runner, a `RemoteChild` is like a `Child`: an agent relays (`node`)."""

from __future__ import annotations

import contextlib
import os
import queue
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from laptime.engine import wire
from laptime.engine.run.child import (
    CHILD_GRACE_S,
    GUARDIAN_S,
    PAUSE_S,
    Ended,
    Silence,
    Tell,
    WindowReader,
    refuse_within_a_heat,
)
from laptime.engine.run.launchers import (
    Arrived,
    Awaited,
    Cluster,
    Fleet,
    Meeting,
    Submission,
    Wanted,
    agent_words,
    open_cluster,
)
from laptime.engine.run.node import (
    Around,
    BeginChild,
    ChildBegan,
    ChildEnded,
    ChildGone,
    ContinueChild,
    Done,
    EndChild,
    Heard,
    LookAround,
    NodeLink,
    PauseChild,
    ToChild,
    ToNode,
    Trouble,
    raw,
)
from laptime.model.errors import LaneError, NodeGoneError, RankGoneError, WireError
from laptime.model.frameworks import FleetNode
from laptime.model.machine import Machine
from laptime.model.plan import HeatOrder, Place, PlannedLane, RankPlace, largest_of, place_of
from laptime.model.process import NODE_IS_GONE, RANK_IS_GONE, REASON_S, Sandbox, Template
from laptime.model.quantities import Missing, brief
from laptime.model.sample import Noise

AGENT_LOOK_S = 0.2  # how often it is asked whether a submitted agent has failed
TOLD_AFTER_S = 2.0
SLACK_S = 5.0  # for the way to a node and back
NO_NOISE = Missing("the node sent no reading")
NODE_NOT_STARTED = Missing("it was not started")
NODE_GONE = Missing(NODE_IS_GONE)


@dataclass(frozen=True, slots=True)
class Request:
    """What is waited for: a place for a lane or for a look, on the cluster that `word` names."""

    name: str
    place: Place
    word: str
    tell: Tell
    patience_s: float | None = None  # how long the race waits for a place, where that is not asked of each wait


class Waiting:
    """An agent that was submitted and has not come yet."""

    def __init__(self, meeting: Meeting, awaited: Awaited, submission: Submission, request: Request) -> None:
        self._meeting = meeting
        self._awaited = awaited
        self._submission = submission
        self._request = request
        self._began_s = time.monotonic()
        self._is_told = False

    def wait(self, timeout_s: float) -> Arrived:
        """Return the agent when it comes. Raise WireError if it does not come, or cannot be used."""
        deadline = time.monotonic() + timeout_s
        asked = self._request
        while True:
            problem = self._submission.problem()  # before the look into the queue: it may have come and failed
            left_s = deadline - time.monotonic()
            try:
                arrived = self._awaited.arrivals.get(timeout=min(max(left_s, 0.001), AGENT_LOOK_S))
            except queue.Empty:
                if problem is not None:
                    raise (NodeGoneError if problem == NODE_IS_GONE else WireError)(problem) from None
                if left_s <= 0:
                    wanted = f"no place with {asked.place.words} was free on {asked.word}"
                    raise WireError(f"{wanted} within {brief(asked.patience_s or timeout_s)} s") from None
                if not self._is_told and time.monotonic() - self._began_s > TOLD_AFTER_S:
                    self._is_told = True
                    asked.tell(f"{asked.name} waits for a free place on {asked.word}, with {asked.place.words}")
                continue
            if arrived.refused is not None:
                raise WireError(arrived.refused)
            return arrived

    def cancel(self) -> None:
        """Wait no more: it must not start later."""
        self._meeting.forget(self._awaited.ticket)
        with contextlib.suppress(queue.Empty):  # it came, and nobody has heard it
            self._awaited.arrivals.get_nowait().link.close()
        self._submission.cancel()

    def give_back(self) -> None:
        self._submission.give_back()


class RemoteChild:
    """A heat's process on a node, with what a `Child` has. Until its agent has come, messages to it are kept."""

    sandbox: Sandbox | None = None  # a verdict runs on one machine

    def __init__(self, waiting: Waiting, environment: dict[str, str], *, is_spread: bool = False) -> None:
        self.pid = 0
        self.is_paused = False
        self.template: Template | None = None  # its process is a fresh one
        self.node: str | None = None
        self.versions: dict[str, str] = {}
        self.started_ns = time.monotonic_ns()
        self.began_ns = 0
        self.last_noise = Noise(NO_NOISE, NO_NOISE, NO_NOISE)
        self.last_flag: str | None = None
        self._waiting = waiting
        self._begin = BeginChild(environment, is_spread)
        self._link: NodeLink | None = None
        self._unsent: list[wire.FromParent] = []
        self._early: deque[Any] = deque()  # what the child said while something else was asked of its agent
        self._heard_at_ns = 0
        self._ended: Ended | None = None

    def say(self, message: wire.FromParent) -> None:
        if not self.pid:
            self._unsent.append(message)
            return
        self._send(ToChild(raw(message)))

    def hear(self, timeout_s: float) -> wire.FromChild | None:
        deadline = time.monotonic() + timeout_s
        self.begin(timeout_s)
        match self._early.popleft() if self._early else self._receive(max(0.0, deadline - time.monotonic())):
            case Heard(message=message, at_ns=at_ns, noise=noise, flag=flag):
                self._heard_at_ns = at_ns
                self.last_noise = noise or Noise(NO_NOISE, NO_NOISE, NO_NOISE)
                self.last_flag = flag
                return wire.read_from_child(bytes(message))
            case Trouble(says=says):
                raise WireError(says)
            case ChildGone():
                return None
            case other:
                raise WireError(f"the agent on {self.node} sent {type(other).__name__}, which was not asked for")

    def has_lived_at(self, at_ns: int) -> bool:
        return self.began_ns <= at_ns <= self._heard_at_ns

    def was_stopped(self) -> bool:
        """Return False: the agent asks, and flags the window."""
        return False

    def pause(self) -> None:
        self._ask(PauseChild(), Done, PAUSE_S + SLACK_S)
        self.is_paused = True

    def go_on(self) -> None:
        self._ask(ContinueChild(), Done, PAUSE_S + SLACK_S)
        self.is_paused = False

    def open_instruments(self, cores: int) -> WindowReader:  # noqa: ARG002  the agent counts its own
        return ReadingsOfNode(self)

    def look_around(self, timeout_s: float, *, drivers: bool = False) -> Machine:
        """Return the description of the node, if wanted with what its drivers say."""
        self.begin(timeout_s)
        machine: Machine = self._ask(LookAround(drivers), Around, timeout_s).machine
        return machine

    def end(self, *, grace_s: float = CHILD_GRACE_S) -> Ended:
        if self._ended is not None:
            return self._ended
        ended = Ended(None, None, NODE_GONE if self.pid else NODE_NOT_STARTED, "")
        if self.pid:
            with contextlib.suppress(WireError):
                ended = self._ask(EndChild(grace_s), ChildEnded, grace_s + GUARDIAN_S + SLACK_S).ended
        self._ended = ended  # not before: an interrupt may call this again
        if self._link is not None:
            self._link.close()  # the agent ends itself
        if not self.pid or ended.peak_memory_bytes == NODE_GONE:
            self._waiting.cancel()
        else:
            self._waiting.give_back()
        return ended

    def abandon(self) -> None:
        try:
            self.end(grace_s=0)
        except KeyboardInterrupt:
            self.end(grace_s=0)

    def begin(self, timeout_s: float) -> None:
        """Wait for the agent, and have it start the child, unless that is done."""
        if self._link is None:
            arrived = self._waiting.wait(timeout_s)
            self._link = arrived.link
            self.node = arrived.hello.node
            self.versions = {"python": arrived.hello.python}
        if self.pid:
            return
        self.started_ns = time.monotonic_ns()
        began = self._ask(self._begin, ChildBegan, max(timeout_s, SLACK_S))
        self.pid = began.pid
        self.began_ns = began.at_ns
        for message in self._unsent:
            self._send(ToChild(raw(message)))

    def _ask(self, question: ToNode, kind: type, timeout_s: float) -> Any:
        """Ask the agent for something, and return its answer. What the child says meanwhile is heard later."""
        self._send(question)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self._receive(max(0.0, deadline - time.monotonic()))
            except Silence:
                says = f"the agent on {self.node} did not answer {type(question).__name__} within {brief(timeout_s)} s"
                raise WireError(says) from None
            if isinstance(message, kind):
                return message
            if isinstance(message, Trouble):
                raise WireError(message.says)
            self._early.append(message)
            if isinstance(message, ChildGone) and kind is Done:
                return message  # there is nothing left to pause; the next `hear` notices

    def _receive(self, timeout_s: float) -> Any:
        assert self._link is not None
        try:
            return self._link.hear(timeout_s)
        except EOFError:
            raise NodeGoneError(f"{NODE_IS_GONE}: the connection to {self.node} ended") from None

    def _send(self, message: ToNode) -> None:
        """Send to the agent. If it is gone, the next message that is waited for does not come."""
        assert self._link is not None
        with contextlib.suppress(OSError):
            self._link.say(message)


class ReadingsOfNode:
    """The noise of a node: its agent has read it as the window closed, and sent it with the window."""

    def __init__(self, child: RemoteChild) -> None:
        self._child = child

    def reopen(self) -> None:
        """Do nothing: the agent does, as it continues the heat."""

    def close_window(self) -> Noise:
        return self._child.last_noise

    def judge(self, _noise: Noise, _window_ns: int) -> str | None:
        return self._child.last_flag

    def close(self) -> None:
        """Do nothing: the agent does."""


# A heat whose ranks are on several nodes. For a runner it is one child: that of the first rank, which leads.
#
# SpreadChild (first rank)  -> its agent -> the heat: forks the ranks of its node, says where it is (RanksMeet)
# RemoteChild (further node) -> its agent -> the heat: forks the ranks of its node, which connect to the first

END_S = 1.0
NODE_BLAME_S = 8.0  # the first rank says what failed: only if it does not, its loss of another one is reported
RANK_GONE = Missing(RANK_IS_GONE)


class SpreadChild(RemoteChild):
    """The process of the first rank, and with it those on other nodes."""

    def __init__(
        self, waiting: Waiting, environment: dict[str, str], others: Sequence[RemoteChild], lane: PlannedLane
    ) -> None:
        super().__init__(waiting, environment, is_spread=True)
        self._others = tuple(others)
        self._counts = lane.spread
        self._order: HeatOrder | None = None
        self._failed: wire.Failed | None = None
        self._blame_at_s = 0.0

    def say(self, message: wire.FromParent) -> None:
        match message:
            case wire.Warm():
                for other in self._others:
                    other.say(message)
            case wire.Run(order=order) | wire.Prove(order=order):
                self._order = order
            case wire.Observe(order=profile):
                self._order = profile.heat
            case _:
                pass
        super().say(message)

    def begin(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        super().begin(timeout_s)
        for other in self._others:
            other.begin(max(0.0, deadline - time.monotonic()))

    def hear(self, timeout_s: float) -> wire.FromChild | None:
        deadline = time.monotonic() + timeout_s
        self.begin(timeout_s)
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                message = super().hear(min(left_s, AGENT_LOOK_S))
            except Silence:
                self._look_at_others()
                if self._failed is not None and time.monotonic() >= self._blame_at_s:
                    return self._failed
                if left_s <= AGENT_LOOK_S:
                    raise
                continue
            if isinstance(message, wire.RanksMeet):
                self._send_others(message.place)
                continue
            if isinstance(message, wire.Failed) and message.kind == RankGoneError.__name__:
                # How the other rank ended, its own node knows; it may take a moment.
                deadline_s = time.monotonic() + REASON_S
                self._look_at_others()
                while self._failed is None and time.monotonic() < deadline_s:
                    time.sleep(AGENT_LOOK_S)
                    self._look_at_others()
                known = self._failed or message
                return wire.Failed(message.phase, known.reason, known.kind, message.peak_memory_bytes, known.source)
            return message

    def pause(self) -> None:
        super().pause()
        for other in self._others:
            other.pause()

    def go_on(self) -> None:
        for other in self._others:
            other.go_on()
        super().go_on()

    def end(self, *, grace_s: float = CHILD_GRACE_S) -> Ended:
        try:
            return super().end(grace_s=grace_s)
        finally:
            for other in self._others:  # without the first rank they end on their own
                other.end(grace_s=min(grace_s, CHILD_GRACE_S))

    def _send_others(self, place: RankPlace) -> None:
        """Send each further node its ranks, and where the first rank is."""
        assert self._order is not None
        rank = place.rank
        for count, other in zip(self._counts[1:], self._others, strict=True):
            other.say(wire.Run(replace(self._order, place=replace(place, rank=rank))))
            rank += count

    def _look_at_others(self) -> None:
        """Hear what went wrong on another node."""
        rank = self._counts[0]
        for count, other in zip(self._counts[1:], self._others, strict=True):
            if self._failed is None:
                self._failed = _failure_of(other, rank)
                self._blame_at_s = time.monotonic() + NODE_BLAME_S
            rank += count


def _failure_of(child: RemoteChild, rank: int) -> wire.Failed | None:
    try:
        while (message := child.hear(0)) is not None:
            if isinstance(message, wire.Failed):
                reason = f"rank {rank} on {child.node}: {message.reason}"
                return wire.Failed(message.phase, reason, message.kind, message.peak_memory_bytes, message.source)
    except Silence:
        return None
    except WireError as error:
        return wire.Failed("start", f"rank {rank}: {error.says}", "error", RANK_GONE)
    ended = child.end(grace_s=END_S)
    how = f"its process was ended by {ended.signal}" if ended.signal else RANK_IS_GONE
    return wire.Failed("start", f"rank {rank} on {child.node}: {how}", "error", RANK_GONE)


# Children on the nodes of a cluster: have an agent submitted for each, and give the child that it will relay.

NODE_LEAVE_S = 5.0
FORWARDED = ("LAPTIME_FAKE",)
A_LOOK = "a look at a node"


class RemoteLauncher:
    """Has each child started by an agent on a cluster."""

    is_elsewhere = True

    def __init__(self, wanted: Wanted) -> None:
        refuse_within_a_heat()
        self.fleet: Fleet | None = None
        self._wanted = wanted
        self._cluster: Cluster = open_cluster(wanted)
        self._tell: Tell = lambda _note: None
        self._submitted: list[Submission] = []
        with ExitStack() as opened:
            opened.callback(self._cluster.close)
            self._meeting = Meeting(self._cluster.address, self._cluster.secret)
            opened.callback(self._meeting.close)
            self._cluster.open(self._meeting)
            self._rooms = self._cluster.rooms()
            opened.pop_all()

    def sandbox_for(self, _lane: PlannedLane | None) -> None:
        """Return none."""

    def start(self, environment: dict[str, str], lane: PlannedLane | None = None) -> RemoteChild:
        if lane is not None and lane.spread:
            # A process on each node over which the lane is spread: the first of them leads the others.
            places = [place_of(lane, count) for count in lane.spread]
            awaited = [self._meeting.expect() for _ in places]
            submitted = self._cluster.submit_apart(list(map(self._words, awaited)), self._meeting.secret, places)
            first, *others = [
                self._wait_for(one, submission, lane.name, place)
                for one, submission, place in zip(awaited, submitted, places, strict=True)
            ]
            variables = _forwarded() | environment
            further = [RemoteChild(other, variables, is_spread=True) for other in others]
            return SpreadChild(first, variables, further, lane)
        place = largest_of(self._wanted.scouts, self._rooms) if lane is None else place_of(lane)
        if self.fleet is not None:
            place = self.fleet.place(place, lane)
        return self._start(environment, place, lane.name if lane else A_LOOK)

    def _start(self, environment: dict[str, str], place: Place, name: str) -> RemoteChild:
        awaited = self._meeting.expect()
        submission = self._cluster.submit(self._words(awaited), self._meeting.secret, place)
        return RemoteChild(self._wait_for(awaited, submission, name, place), _forwarded() | environment)

    def _words(self, awaited: Awaited) -> list[str]:
        return agent_words(self._meeting.address, self._meeting.port, awaited.ticket)

    def _wait_for(self, awaited: Awaited, submission: Submission, name: str, place: Place) -> Waiting:
        self._submitted = [earlier for earlier in self._submitted if earlier.problem() is None]
        self._submitted.append(submission)
        request = Request(name, place, self._wanted.word, self._tell, self._wanted.patience_s)
        return Waiting(self._meeting, awaited, submission, request)

    def look(self) -> Machine:
        """Describe a node as those on which the lanes will run."""
        child = self.start({})
        try:
            return replace(child.look_around(self._wanted.patience_s), nodes=self._rooms)
        except WireError as error:
            raise LaneError(f"--on {self._wanted.word}: {error.says}", error.hint) from error
        finally:
            child.abandon()

    def look_at_each(self, word: str) -> Fleet:
        """Find the types of the cluster's nodes, and describe all nodes that have one."""
        fleet = Fleet(self._cluster.find_types(word), self._cluster.living)
        deadline = time.monotonic() + self._wanted.patience_s
        asked = [
            (kind, node, self._start({}, replace(self._wanted.scouts, nodes=(node,), on=kind.name), A_LOOK))
            for kind in fleet.types
            for node in kind.nodes
        ]
        try:
            fleet.note([_look(FleetNode(node, kind.name), child, deadline) for kind, node, child in asked])
        finally:
            for _, _, child in asked:
                child.abandon()
        self.fleet = fleet
        return fleet

    def why_alone(self, lanes: Sequence[PlannedLane]) -> str | None:
        return self._cluster.why_alone([place_of(lane) for lane in lanes])

    def report_to(self, tell: Tell) -> None:
        self._tell = tell

    def close(self) -> None:
        """Leave the cluster. Agents end as their children do, so they are given a moment first."""
        self._meeting.close()
        deadline = time.monotonic() + NODE_LEAVE_S
        for submission in self._submitted:
            while submission.problem() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            submission.cancel()
        self._cluster.close()


def _look(node: FleetNode, child: RemoteChild, deadline: float) -> FleetNode:
    """Return a node with its description, or with why it has none. Its place is free afterwards."""
    try:
        machine = child.look_around(max(deadline - time.monotonic(), AGENT_LOOK_S), drivers=True)
        return replace(node, host=child.node, machine=machine)
    except WireError as error:
        return replace(node, host=child.node, problem=error.says)
    finally:
        child.abandon()


def _forwarded() -> dict[str, str]:
    return {name: os.environ[name] for name in FORWARDED if name in os.environ}
