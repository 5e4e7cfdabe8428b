"""Launchers: what starts the processes of a race, here or on a cluster; and a stretch of this process that is watched.

    Launcher.start -> AnyChild          local: a Child; on a cluster: a RemoteChild, which is the same to its runner
      Cluster.submit -> Submission      Ray and Slurm differ only in how an agent (`node`) gets its place

The parent listens (`Meeting`), an agent (`node`) connects from its node, starts a usual Child there and relays it
(`remote`, where a lane's devices are on several nodes, too). Decision 30 says why. Without --on nothing of this is
imported.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module, util
from threading import Event
from typing import Any, Protocol, TypeVar

from laptime.attach import finder
from laptime.attach.agent import Agent
from laptime.attach.fetches import fetches
from laptime.engine.authentication import BACKLOG, Admission, SignedLines
from laptime.engine.run.child import AnyChild, Child, Tell
from laptime.engine.run.node import FROM_NODE, SECRET, NodeHello, NodeLink, NodeRefusal, read_hello, why_refused
from laptime.model.errors import UsageError, WireError
from laptime.model.frameworks import FleetNode, NodeType, install_command
from laptime.model.machine import NodeRoom
from laptime.model.plan import Place, PlannedLane, find_launcher
from laptime.model.process import Sandbox


class Launcher(Protocol):
    """Starts children. `is_elsewhere`: not on this machine, whose memory and instruments say nothing of them.

    `fleet` is set where each lane has nodes of one type.
    """

    is_elsewhere: bool
    fleet: Fleet | None

    def start(self, environment: dict[str, str], lane: PlannedLane | None = None) -> AnyChild:
        """Start a child for a lane, or one that only answers a question."""

    def sandbox_for(self, lane: PlannedLane | None) -> Sandbox | None:
        """Return the sandbox of such a child, or None where it has none."""

    def why_alone(self, lanes: Sequence[PlannedLane]) -> str | None:
        """Return why the heats of these lanes cannot all be alive at once, or None."""

    def report_to(self, tell: Tell) -> None:
        """Say from now on with `tell` what is waited for."""

    def close(self) -> None:
        """End what is left of all that was started, also what waits for its turn."""


class LocalLauncher:
    """Starts children on this machine."""

    is_elsewhere = False
    fleet: Fleet | None = None

    def start(self, environment: dict[str, str], lane: PlannedLane | None = None) -> AnyChild:
        return Child(environment, sandbox=self.sandbox_for(lane))

    def sandbox_for(self, _lane: PlannedLane | None) -> Sandbox | None:
        return None

    def why_alone(self, _lanes: Sequence[PlannedLane]) -> str | None:
        return None

    def report_to(self, _tell: Tell) -> None:
        """Do nothing: nothing is waited for."""

    def close(self) -> None:
        """Do nothing: each child is ended by its runner."""


LOCAL = LocalLauncher()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A launcher that was asked for: the word of --on, what its scouts need, and how long things may take.

    No place is waited for longer than `patience_s`. `most_s` is for how long an agent may keep its place.
    """

    word: str
    scouts: Place
    patience_s: float
    most_s: float


class Submission(Protocol):
    """An agent that waits for its place, or is there."""

    def problem(self) -> str | None:
        """Return why the agent will not come any more, or None."""

    def give_back(self) -> None:
        """Let others have its place: its child has ended, and the agent is about to."""

    def cancel(self) -> None:
        """End it, wherever it is."""


class Cluster(Protocol):
    """What gives places to agents: one class for each row of LAUNCHERS, made with what is `Wanted`.

    `address` is that of this machine, as the nodes see it. `secret` is what its nodes know before the race begins, or
    empty: then one is made, which each agent gets as it is submitted.
    """

    address: str
    secret: str

    def open(self, meeting: Meeting) -> None:
        """Take note of where agents will come to, before the first is submitted."""

    def rooms(self) -> tuple[NodeRoom, ...]:
        """Return the nodes over which a lane can be spread; none if a lane has to be on one node."""

    def submit(self, words: list[str], secret: str, place: Place) -> Submission:
        """Have `python WORDS...` run in such a place, with the secret in its environment."""

    def submit_apart(self, words: list[list[str]], secret: str, places: Sequence[Place]) -> list[Submission]:
        """The same for several agents at once, each on a node of its own."""

    def why_alone(self, places: Sequence[Place]) -> str | None:
        """Return why these places cannot all be had at once, or None."""

    def find_types(self, word: str) -> tuple[NodeType, ...]:
        """Return the types of the nodes that are there, by a label or a resource. Refuse one that no node has."""

    def living(self, nodes: Sequence[str]) -> Sequence[str]:
        """Return those of some nodes that are there."""

    def close(self) -> None:
        """Leave the cluster."""


def open_cluster(wanted: Wanted) -> Cluster:
    """Reach the cluster that --on names. Raise UsageError if its package is not installed."""
    row = find_launcher(wanted.word)
    assert row is not None
    if util.find_spec(row.module) is None:
        raise UsageError(f"--on {row.word}: the package {row.module} is not installed", install_command(row.extra))
    module, _, name = row.cluster.partition(":")
    make: Any = getattr(import_module(module), name)
    made: Cluster = make(wanted)
    return made


# Where agents meet the parent: it listens on one port for a whole race, and admits those that know its secret.

CLOSE_S = 1.0  # it takes a millisecond, unless an agent does not take what is sent to it


@dataclass(frozen=True, slots=True)
class Arrived:
    """An agent that is there. `refused` says why it cannot be used; its connection is closed then."""

    hello: NodeHello
    link: NodeLink
    refused: str | None


@dataclass(frozen=True, slots=True)
class Awaited:
    """An agent that was submitted: its ticket, and a queue into which it comes."""

    ticket: str
    arrivals: queue.SimpleQueue[Arrived] = field(default_factory=queue.SimpleQueue)


class Meeting:
    """Listens for agents. A thread of its own admits them, and sleeps otherwise."""

    def __init__(self, address: str, secret: str = "") -> None:
        """Listen on a free port; without a secret that the nodes have by now, make one."""
        self.secret = secret or secrets.token_hex(32)
        self._awaited: dict[str, Awaited] = {}
        self._made = 0
        try:
            server = socket.create_server((address, 0), backlog=BACKLOG)
        except OSError as error:
            says = f"this machine cannot listen on {address}, where the nodes would look for it: {error}"
            raise UsageError(says, "name an address that the nodes reach: LAPTIME_ADDRESS=10.0.0.5") from error
        self.address = address
        self.port = server.getsockname()[1]
        self._admission = Admission(server, self.secret)
        self._listener = threading.Thread(target=self._listen, daemon=True, name="meeting")
        self._listener.start()

    def expect(self, ticket: str | None = None) -> Awaited:
        """Return a ticket under which an agent may come: a new one, or this one."""
        self._made += 1
        awaited = Awaited(ticket or str(self._made))
        self._awaited[awaited.ticket] = awaited
        return awaited

    def forget(self, ticket: str) -> None:
        """Admit nobody under this ticket any more."""
        self._awaited.pop(ticket, None)

    def close(self) -> None:
        self._admission.stop()
        self._listener.join(CLOSE_S)

    def _listen(self) -> None:
        with contextlib.closing(self._admission):
            while (admitted := self._admission.next()) is not None:
                try:
                    self._welcome(*admitted)
                except (OSError, WireError):
                    admitted[0].close()

    def _welcome(self, connection: SignedLines, first: bytes) -> None:
        """Hand an agent to the one that waits for it; it may be of another laptime."""
        hello = read_hello(first)
        awaited = None if hello is None else self._awaited.pop(hello.ticket, None)
        if hello is None or awaited is None:  # nobody waits for it any more
            connection.close()
            return
        link = NodeLink(connection, FROM_NODE)
        refused = why_refused(hello)
        if refused is not None:
            with contextlib.suppress(OSError):
                link.say(NodeRefusal(refused))
            link.close()
        awaited.arrivals.put(Arrived(hello, link, refused))


# Which node the next heat of a lane gets, where each lane has nodes of one type: they take their rounds in turn.

Living = Callable[[Sequence[str]], Sequence[str]]


class Fleet:
    """The types of a cluster's nodes, and what each node is. `living` returns those of some nodes that are there."""

    def __init__(self, types: Sequence[NodeType], living: Living) -> None:
        self.types = tuple(types)
        self._living = living
        self.nodes: tuple[FleetNode, ...] = ()
        self._home: NodeType | None = None
        self._lost: set[str] = set()
        self._begun: Counter[str] = Counter()
        self._latest: dict[str, str] = {}

    def note(self, nodes: Sequence[FleetNode]) -> None:
        """Keep what was found out about each node. No heat runs on one that has a problem."""
        self.nodes = tuple(nodes)

    def first_of(self, kind: NodeType) -> FleetNode:
        """Return a node of a type, if possible one that can be used."""
        mine = [node for node in self.nodes if node.of == kind.name]
        return next((fleet_node for fleet_node in mine if fleet_node.problem is None), mine[0])

    def settle(self, kind: NodeType) -> None:
        """Let what belongs to no lane run on this type's nodes."""
        self._home = kind

    def place(self, place: Place, lane: PlannedLane | None) -> Place:
        """Return a place on the node whose turn it is."""
        kind = lane.where if lane is not None and lane.where is not None else self._home
        if kind is None:
            return place
        name = "" if lane is None else lane.name
        able = self._able(kind) or kind.nodes
        node = able[self._begun[name] % len(able)]
        self._begun[name] += 1
        self._latest[name] = node
        return replace(place, nodes=(node,), on=kind.name)

    def goes_on(self, lane: PlannedLane) -> bool:
        """Note that the node of a lane's latest heat is gone. Return whether its type has another one."""
        self._lost.add(self._latest.get(lane.name, ""))
        return lane.where is not None and bool(self._able(lane.where))

    def _able(self, kind: NodeType) -> tuple[str, ...]:
        bad = self._lost | {node.node for node in self.nodes if node.problem is not None}
        return tuple(node for node in self._living(kind.nodes) if node not in bad)


# What a cluster runs in a place that it gives: the agent, as a process of its own.

LONGEST_REASON = 300


def make_starter() -> Callable[[list[str], str | None], str]:
    """Return the function that starts the agent and returns the last line that it printed.

    It is made here, within a function, and uses nothing else of laptime: so it travels to the node as code, and can
    report that laptime is not there. The agent ends when its standard input does, so it outlives no task and no job.
    """
    variable = SECRET

    def start_agent(words: list[str], secret: str | None) -> str:
        import os  # noqa: PLC0415  see above
        import subprocess  # noqa: PLC0415
        import sys  # noqa: PLC0415

        more = {} if secret is None else {variable: secret}
        with subprocess.Popen(
            [sys.executable, "-P", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **more},
        ) as agent:
            assert agent.stderr is not None
            lines = agent.stderr.read().decode("utf-8", "replace").strip().splitlines()
            code = agent.wait()
        return lines[-1] if lines else f"exit code {code}"

    return start_agent


def agent_words(host: str, port: int, ticket: str) -> list[str]:
    """Return with which words Python is an agent that comes to the parent under this ticket."""
    return ["-m", "laptime.engine.run.node", host, str(port), ticket]


@dataclass(frozen=True, slots=True)
class NotSubmitted:
    """An agent that the cluster did not take."""

    says: str

    def problem(self) -> str | None:
        return self.says

    def give_back(self) -> None:
        """Do nothing: it has no place."""

    def cancel(self) -> None:
        """Do nothing: there is nothing to end."""


def words_of(error: Exception) -> str:
    """Return the last line of an error of another package, which may be a page long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return f"{type(error).__name__}: {last}"[:LONGEST_REASON]


# Watch this process: a stretch of a program or a notebook, in place of a command.

T = TypeVar("T")
UNDER_WATCH = "_laptime_attach"  # the package of the agent that `laptime watch` brings into a process


class Block:
    """A stretch of this process: it is watched from `begun` until `over`.

    `ended_s` is set where its work ended before that. `is_interrupted` says that Ctrl-C ended it.
    """

    def __init__(self) -> None:
        self.begun = Event()
        self.over = Event()
        self.is_interrupted = False
        self.ended_s: float | None = None

    def follow(self, address: str, began: Callable[[int], None]) -> None:
        """Let the hooks of this process send what they see until the block is over."""
        began(os.getpid())
        agent = own_agent()
        if agent is None:
            agent = Agent(address)
            finder.arm(agent)
        else:
            agent.begin(address)
        agent.greet()
        try:
            self.begun.set()
            self.over.wait()
        finally:
            agent.close()
            agent.disable()  # one that had nothing to send is not closed
        if self.is_interrupted:
            raise KeyboardInterrupt


def own_agent() -> Agent | None:
    """Return the agent of blocks, which stays in the process once there is one."""
    return finder.armed[0] if finder.armed else None


def fetches_seen(agent: Any, batches: Iterable[T], numbers: dict[int, int]) -> Iterator[T]:
    """Return the batches, whose fetches the agent notes. `numbers` keeps the number that each agent gave to them."""
    number = numbers.setdefault(id(agent), 0) or agent.new_number()
    numbers[id(agent)] = number
    found: Iterator[T] = fetches(agent, batches, number)
    return found


def command_agent() -> Any:
    """Return the agent that `laptime watch` brought into this process, or None."""
    module = sys.modules.get(f"{UNDER_WATCH}.finder")
    return module.armed[0] if module is not None and module.armed else None
