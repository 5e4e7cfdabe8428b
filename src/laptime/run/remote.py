"""Children on the nodes of a cluster. For a runner, a `RemoteChild` is like a `Child`: an agent relays (`node`)."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from laptime import wire
from laptime.errors import WireError
from laptime.model.digits import brief
from laptime.model.launchers import Place
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.process import NODE_IS_GONE, Template
from laptime.model.sample import Noise
from laptime.run.child import GRACE_S, PAUSE_S, SWEEP_S, Ended, Silence, WindowReader
from laptime.run.launchers import Submission, Tell
from laptime.run.meeting import Arrived, Awaited, Meeting
from laptime.run.node_messages import (
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

LOOK_S = 0.2  # how often it is asked whether a submitted agent has failed
TOLD_AFTER_S = 2.0
SLACK_S = 5.0  # for the way to a node and back
NO_NOISE = Missing("the node sent no reading")
NOT_STARTED, NODE_GONE = Missing("it was not started"), Missing(NODE_IS_GONE)


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
        self._meeting, self._awaited, self._submission, self._request = meeting, awaited, submission, request
        self._began_s = time.monotonic()
        self._is_told = False

    def wait(self, timeout_s: float) -> Arrived:
        """Return the agent when it comes. Raise WireError if it does not come, or cannot be used."""
        deadline = time.monotonic() + timeout_s
        while True:
            problem = self._submission.problem()  # before the look into the queue: it may have come and failed
            left_s = deadline - time.monotonic()
            try:
                arrived = self._awaited.arrivals.get(timeout=min(max(left_s, 0.001), LOOK_S))
            except queue.Empty:
                if problem is not None:
                    raise WireError(problem) from None
                if left_s <= 0:
                    wanted = f"no place with {self._request.place.words} was free on {self._request.word}"
                    raise WireError(f"{wanted} within {brief(self._request.patience_s or timeout_s)} s") from None
                self._report()
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

    def _report(self) -> None:
        if not self._is_told and time.monotonic() - self._began_s > TOLD_AFTER_S:
            self._is_told = True
            asked = self._request
            asked.tell(f"{asked.name} waits for a free place on {asked.word}, with {asked.place.words}")


class RemoteChild:
    """A heat's process on a node, with what a `Child` has. Until its agent has come, messages to it are kept."""

    def __init__(self, waiting: Waiting, environment: dict[str, str], *, is_spread: bool = False) -> None:
        self.pid, self.is_paused = 0, False
        self.template: Template | None = None  # its process is a fresh one
        self.node: str | None = None
        self.versions: dict[str, str] = {}
        self.started_ns, self.began_ns = time.monotonic_ns(), 0
        self.last_noise = Noise(NO_NOISE, NO_NOISE, NO_NOISE)
        self.last_flag: str | None = None
        self._waiting, self._begin = waiting, BeginChild(environment, is_spread)
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
                self.last_noise, self.last_flag = noise or Noise(NO_NOISE, NO_NOISE, NO_NOISE), flag
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

    def end(self, *, grace_s: float = GRACE_S) -> Ended:
        if self._ended is None:
            self._ended = self._end(grace_s)
            if self._link is not None:
                self._link.close()  # the agent ends itself
            if not self.pid or self._ended.peak_memory_bytes == NODE_GONE:
                self._waiting.cancel()
            else:
                self._waiting.give_back()
        return self._ended

    def abandon(self) -> None:
        try:
            self.end(grace_s=0)
        except KeyboardInterrupt:
            self.end(grace_s=0)

    def _end(self, grace_s: float) -> Ended:
        if not self.pid:
            return Ended(None, None, NOT_STARTED, "")
        try:
            ended: Ended = self._ask(EndChild(grace_s), ChildEnded, grace_s + SWEEP_S + SLACK_S).ended
        except WireError:
            return Ended(None, None, NODE_GONE, "")
        return ended

    def begin(self, timeout_s: float) -> None:
        """Wait for the agent, and have it start the child, unless that is done."""
        if self._link is None:
            arrived = self._waiting.wait(timeout_s)
            self._link, self.node = arrived.link, arrived.hello.node
            self.versions = {"python": arrived.hello.python}
        if self.pid:
            return
        self.started_ns = time.monotonic_ns()
        began = self._ask(self._begin, ChildBegan, max(timeout_s, SLACK_S))
        self.pid, self.began_ns = began.pid, began.at_ns
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
            raise WireError(f"{NODE_IS_GONE}: the connection to {self.node} ended") from None

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
