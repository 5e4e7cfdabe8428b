"""Places under torchrun: it has started this command on every node, and told each where the others meet.

The command of rank 0 races. On each further node, one process serves as a `Standby`: it starts the agents that rank 0
asks it for. They find rank 0 by what it wrote into torchrun's own store, which a short process reads that has PyTorch.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from laptime.errors import LaneError, UsageError
from laptime.model.fleet import NodeType
from laptime.model.launchers import Place
from laptime.model.machine import NodeRoom
from laptime.model.process import NODE_IS_GONE
from laptime.run.addresses import address_towards
from laptime.run.child import Silence
from laptime.run.launchers import Submission, Wanted
from laptime.run.meeting import Awaited, Meeting
from laptime.run.node_messages import AgentEnded, NodeLink, NodeRefusal, StartAgent, hello_of, to_parent
from laptime.run.starting import NotSubmitted, make_starter, words_of

STORE = "laptime.backends.torch.meeting_place"
HOW = "start it so: torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m laptime"
# What torchrun sets for its own processes means something else in a heat. It also sets OMP_NUM_THREADS to 1 where a
# node has several processes, unless the user did; a heat's threads are those of its lane.
OF_TORCHRUN = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
SPOILS = (*OF_TORCHRUN, "ROLE_WORLD_SIZE", "ROLE_NAME", "OMP_NUM_THREADS")
LAST_WORDS_S, LOOK_S = 5.0, 0.2


@dataclass(frozen=True, slots=True)
class Seat:
    """Which of torchrun's processes this is, and how many there are: in all, on a node, and nodes."""

    rank: int
    local_rank: int
    node: int
    of: int
    on_node: int
    nodes: int


def find_seat() -> Seat | None:
    """Return this process's seat, or None: torchrun did not start it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
    try:
        return Seat(*(int(os.environ[name]) for name in names))
    except (KeyError, ValueError):
        return None


class TorchrunCluster:
    """The nodes of one torchrun: agents start on the node of rank 0, or on several nodes at once."""

    def __init__(self, wanted: Wanted) -> None:
        seat = find_seat()
        if seat is None:
            raise UsageError("--on torchrun: torchrun did not start this command", HOW)
        if seat.nodes * seat.on_node != seat.of:
            says = f"--on torchrun: {seat.of} processes on {seat.nodes} nodes, and {seat.on_node} of them on this one"
            raise UsageError(says, "give all nodes the same --nproc-per-node")
        self._seat, self._patience_s = seat, wanted.patience_s
        self.address = address_towards(os.environ.get("MASTER_ADDR", "localhost"))
        self._store: subprocess.Popen[str] | None = None
        self._coming: list[Awaited] = []
        self._nodes: list[FurtherNode] = []
        self._kept = {name: os.environ.pop(name) for name in SPOILS if name in os.environ}

    def open(self, meeting: Meeting) -> None:
        """Write into torchrun's store where this process is, and wait for the other nodes."""
        self._coming = [meeting.expect() for _ in range(1, self._seat.nodes)]
        if not self._coming:
            return
        tickets = [each.ticket for each in self._coming]
        told = {"host": meeting.address, "port": meeting.port, "secret": meeting.secret, "tickets": tickets}
        self._store = _open_store("tell", self._kept)
        assert self._store.stdin is not None
        self._store.stdin.write(json.dumps(told) + "\n")
        self._store.stdin.flush()
        for number, each in enumerate(self._coming, 1):
            self._nodes.append(self._await(number, each))

    def rooms(self) -> tuple[NodeRoom, ...]:
        names = [socket.gethostname(), *(each.name for each in self._nodes)]
        return tuple(NodeRoom(name, self._seat.on_node, self._seat.on_node, self._seat.on_node) for name in names)

    def submit(self, words: list[str], secret: str, _place: Place) -> Submission:
        return LocalAgent(words, secret)

    def submit_apart(self, words: list[list[str]], secret: str, places: Sequence[Place]) -> list[Submission]:
        first, *others = words
        nodes = self._nodes[: len(places) - 1]
        return [LocalAgent(first, secret), *(each.start(one) for each, one in zip(nodes, others, strict=True))]

    def why_alone(self, _places: Sequence[Place]) -> str | None:
        return None

    def find_types(self, each: str) -> tuple[NodeType, ...]:
        raise UsageError(f"--each {each}: only Ray says which types of nodes there are", "leave out --each")

    def living(self, nodes: Sequence[str]) -> Sequence[str]:
        return nodes

    def close(self) -> None:
        """Let the other nodes go, and restore what torchrun had set."""
        for each in self._nodes:
            each.close()
        if self._store is not None:
            _end(self._store)
        os.environ.update(self._kept)

    def _await(self, number: int, awaited: Awaited) -> FurtherNode:
        assert self._store is not None
        deadline = time.monotonic() + self._patience_s
        while time.monotonic() < deadline:
            try:
                arrived = awaited.arrivals.get(timeout=LOOK_S)
            except queue.Empty:
                if self._store.poll() is not None:
                    raise LaneError(f"--on torchrun: its store was not reached: {_last_words(self._store)}") from None
                continue
            if arrived.refused is not None:
                raise LaneError(f"--on torchrun: {arrived.refused}")
            return FurtherNode(arrived.hello.node, arrived.link)
        says = f"--on torchrun: node {number} did not come within {self._patience_s:g} s"
        raise LaneError(says, "run the same command on each node")


class LocalAgent:
    """An agent on this node. A thread waits for its end."""

    def __init__(self, words: list[str], secret: str) -> None:
        self._said: str | None = None
        threading.Thread(target=self._run, args=(words, secret), daemon=True, name="agent").start()

    def problem(self) -> str | None:
        return None if self._said is None else f"its agent ended: {self._said}"

    def give_back(self) -> None:
        """Do nothing: places are not counted."""

    def cancel(self) -> None:
        """Do nothing: it ends as nobody awaits it."""

    def _run(self, words: list[str], secret: str) -> None:
        try:
            self._said = make_starter()(words, secret)
        except OSError as error:
            self._said = words_of(error)


class FurtherNode:
    """Another node, whose `Standby` starts agents."""

    def __init__(self, name: str, link: NodeLink) -> None:
        self.name, self._link = name, link
        self._ended: dict[str, str] = {}
        self._is_gone = False

    def start(self, words: list[str]) -> Submission:
        try:
            self._link.say(StartAgent(words))
        except OSError:
            return NotSubmitted(NODE_IS_GONE)
        return FurtherAgent(self, words[-1])

    def how_ended(self, ticket: str) -> str | None:
        """Return the last words of an agent that has ended, or None."""
        with suppress(Silence):
            while not self._is_gone:
                try:
                    heard = self._link.hear(0)
                except EOFError:
                    self._is_gone = True
                else:
                    self._ended |= {heard.ticket: heard.says} if isinstance(heard, AgentEnded) else {}
        return self._ended.get(ticket, NODE_IS_GONE if self._is_gone else None)

    def close(self) -> None:
        self._link.close()


@dataclass(frozen=True, slots=True)
class FurtherAgent:
    """An agent that another node was asked to start."""

    node: FurtherNode
    ticket: str

    def problem(self) -> str | None:
        said = self.node.how_ended(self.ticket)
        return None if said is None else f"its agent ended: {said}"

    def give_back(self) -> None:
        """Do nothing: places are not counted."""

    def cancel(self) -> None:
        """Do nothing: it ends as nobody awaits it."""


class Standby:
    """On a further node, starts the agents that rank 0 asks for, until rank 0 is gone."""

    def __init__(self, link: NodeLink, secret: str) -> None:
        self._link, self._secret = link, secret
        self._writing = threading.Lock()

    def serve(self) -> str | None:
        """Return why rank 0 cannot use this node, or None at the end."""
        with suppress(EOFError, OSError):
            while True:
                with suppress(Silence):
                    match self._link.hear(3600.0):
                        case NodeRefusal(says=says):
                            return str(says)
                        case StartAgent(words=words):
                            threading.Thread(target=self._run, args=(words,), daemon=True, name="agent").start()
                        case _:
                            pass
        return None

    def _run(self, words: list[str]) -> None:
        says = make_starter()(words, self._secret)
        with self._writing, suppress(OSError):
            self._link.say(AgentEnded(words[-1], says))


def stand_by() -> bool:
    """Serve rank 0 to its end, and return True; or return False, if this is rank 0 or torchrun did not start it."""
    seat = find_seat()
    if seat is None or seat.rank == 0:
        return False
    if seat.local_rank:  # one process serves for its node
        return True
    kept = {name: os.environ.pop(name) for name in SPOILS if name in os.environ}
    store = _open_store("ask", kept)
    assert store.stdout is not None
    found = store.stdout.readline()
    if not found:
        raise LaneError(f"--on torchrun: its store was not reached: {_last_words(store)}")
    _end(store)
    told = json.loads(found)
    link = to_parent(socket.create_connection((told["host"], told["port"]), timeout=30.0))
    link.say(hello_of(told["secret"], told["tickets"][seat.node - 1]))
    refused = Standby(link, told["secret"]).serve()
    if refused is not None:
        raise LaneError(f"--on torchrun: {refused}")
    return True


def _open_store(what: str, seat: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process that uses torchrun's store; it ends when its standard input does."""
    pipe = subprocess.PIPE
    words = [sys.executable, "-P", "-m", STORE, what]
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=os.environ | seat)


def _end(store: subprocess.Popen[str]) -> None:
    assert store.stdin is not None
    with suppress(OSError):
        store.stdin.close()
    try:
        store.wait(LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        store.kill()
        store.wait()


def _last_words(store: subprocess.Popen[str]) -> str:
    _end(store)
    lines = store.stderr.read().strip().splitlines() if store.stderr is not None else []
    return lines[-1] if lines else f"exit code {store.returncode}"
