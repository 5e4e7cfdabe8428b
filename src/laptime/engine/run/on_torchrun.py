"""Places under torchrun: it has started this command on every node, and told each where the others meet.

The command of rank 0 races. On each further node, one process serves as a `Standby`: it starts the agents that rank 0
asks it for. They find rank 0 by what it wrote into torchrun's own store, which a short process reads that has PyTorch.

The store is open to every program that reaches its port. So it has an address and nothing else, and is not believed:
what answers at that address has to prove that it knows the secret of the nodes (`engine/run/node.py`).
"""

from __future__ import annotations

import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, cast

import msgspec

from laptime.engine import wire
from laptime.engine.authentication import derive
from laptime.engine.run.child import Silence
from laptime.engine.run.launchers import (
    Awaited,
    Meeting,
    NotSubmitted,
    Submission,
    Wanted,
    agent_words,
    make_starter,
    words_of,
)
from laptime.engine.run.node import (
    NODE_CONNECT_S,
    SAME,
    AgentEnded,
    NodeLink,
    NodeRefusal,
    StartAgent,
    address_towards,
    connect_to_parent,
    take_cluster_secret,
)
from laptime.model.errors import LaneError, UsageError, WireError
from laptime.model.frameworks import NodeType
from laptime.model.machine import NodeRoom
from laptime.model.plan import Place
from laptime.model.process import NODE_IS_GONE

STORE = "laptime.engine.backends.torch.meeting_place"
START_HOW = (
    "start it so: torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m laptime"
)
# What torchrun sets for its own processes means something else in a heat. It also sets OMP_NUM_THREADS to 1 where a
# node has several processes, unless the user did; a heat's threads are those of its lane.
OF_TORCHRUN = ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
SPOILS = (*OF_TORCHRUN, "ROLE_WORLD_SIZE", "ROLE_NAME", "OMP_NUM_THREADS")
NODE_LAST_WORDS_S = 5.0
STORE_LOOK_S = 0.2
STORED_MOST_BYTES = 1024


class MeetingPlace(msgspec.Struct, frozen=True):
    """What rank 0 writes into torchrun's store: where it listens."""

    host: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z.:_-]{1,255}$")]
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


_decoder = msgspec.json.Decoder(MeetingPlace)


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
            raise UsageError("--on torchrun: torchrun did not start this command", START_HOW)
        if seat.nodes * seat.on_node != seat.of:
            says = f"--on torchrun: {seat.of} processes on {seat.nodes} nodes, and {seat.on_node} of them on this one"
            raise UsageError(says, "give all nodes the same --nproc-per-node")
        self._seat = seat
        self._patience_s = wanted.patience_s
        self.secret = _secret_of_run()
        self.address = address_towards(os.environ.get("MASTER_ADDR", "localhost"))
        self._store: subprocess.Popen[str] | None = None
        self._coming: list[Awaited] = []
        self._nodes: list[FurtherNode] = []
        self._kept = {name: os.environ.pop(name) for name in SPOILS if name in os.environ}

    def open(self, meeting: Meeting) -> None:
        """Write into torchrun's store where this process is, and wait for the other nodes."""
        self._coming = [meeting.expect(_ticket_of(number)) for number in range(1, self._seat.nodes)]
        if not self._coming:
            return
        self._store = _open_store("tell", self._patience_s, self._kept)
        assert self._store.stdin is not None
        self._store.stdin.write(msgspec.json.encode(MeetingPlace(meeting.address, meeting.port)).decode() + "\n")
        self._store.stdin.flush()
        deadline = time.monotonic() + self._patience_s
        for number, awaited in enumerate(self._coming, 1):
            self._nodes.append(self._await(number, awaited, deadline))

    def rooms(self) -> tuple[NodeRoom, ...]:
        names = [socket.gethostname(), *(node.name for node in self._nodes)]
        return tuple(NodeRoom(name, self._seat.on_node, self._seat.on_node, self._seat.on_node) for name in names)

    def submit(self, words: list[str], secret: str, _place: Place) -> Submission:
        return LocalAgent(words, secret)

    def submit_apart(self, words: list[list[str]], secret: str, places: Sequence[Place]) -> list[Submission]:
        first, *others = words
        nodes = self._nodes[: len(places) - 1]
        return [LocalAgent(first, secret), *(node.start(one[-1]) for node, one in zip(nodes, others, strict=True))]

    def why_alone(self, _places: Sequence[Place]) -> str | None:
        return None

    def find_types(self, word: str) -> tuple[NodeType, ...]:
        raise UsageError(f"--each {word}: only Ray says which types of nodes there are", "leave out --each")

    def living(self, nodes: Sequence[str]) -> Sequence[str]:
        return nodes

    def close(self) -> None:
        """Let the other nodes go, and restore what torchrun had set."""
        for node in self._nodes:
            node.close()
        if self._store is not None:
            with self._store:
                _end(self._store)
        os.environ.update(self._kept)

    def _await(self, number: int, awaited: Awaited, deadline: float) -> FurtherNode:
        assert self._store is not None
        while time.monotonic() < deadline:
            try:
                arrived = awaited.arrivals.get(timeout=STORE_LOOK_S)
            except queue.Empty:
                if self._store.poll() is not None:
                    raise LaneError(f"--on torchrun: its store was not reached: {_last_words(self._store)}") from None
                continue
            if arrived.refused is not None:
                raise LaneError(f"--on torchrun: {arrived.refused}")
            return FurtherNode(arrived.hello.node, arrived.link)
        says = f"--on torchrun: node {number} did not come within {self._patience_s:g} s"
        raise LaneError(says, f"run the same command on each node; if their homes differ, {SAME}")


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
        self.name = name
        self._link = link
        self._ended: dict[str, str] = {}
        self._is_gone = False

    def start(self, ticket: str) -> Submission:
        try:
            self._link.say(StartAgent(ticket))
        except OSError:
            return NotSubmitted(NODE_IS_GONE)
        return FurtherAgent(self, ticket)

    def how_ended(self, ticket: str) -> str | None:
        """Return the last words of an agent that has ended, or None."""
        with suppress(Silence):
            while not self._is_gone:
                try:
                    heard = self._link.hear(0)
                except (EOFError, WireError):
                    self._is_gone = True
                else:
                    if isinstance(heard, AgentEnded):
                        self._ended[heard.ticket] = heard.says
        return self._ended.get(ticket, NODE_IS_GONE if self._is_gone else None)

    def close(self) -> None:
        self._link.close()


@dataclass(frozen=True, slots=True)
class FurtherAgent:
    """An agent that another node was asked to start."""

    node: FurtherNode
    ticket: str

    def problem(self) -> str | None:
        says = self.node.how_ended(self.ticket)
        return None if says is None else f"its agent ended: {says}"

    def give_back(self) -> None:
        """Do nothing: places are not counted."""

    def cancel(self) -> None:
        """Do nothing: it ends as nobody awaits it."""


class Standby:
    """On a further node, starts the agents that rank 0 asks for, until rank 0 is gone."""

    def __init__(self, place: MeetingPlace, link: NodeLink, secret: str) -> None:
        self._place = place
        self._link = link
        self._secret = secret
        self._writing = threading.Lock()

    def serve(self) -> str | None:
        """Return why rank 0 cannot use this node, or None at the end."""
        with suppress(EOFError, OSError):
            while True:
                with suppress(Silence):
                    match self._link.hear(3600.0):
                        case NodeRefusal(says=says):
                            return str(says)
                        case StartAgent(ticket=ticket):
                            threading.Thread(target=self._run, args=(ticket,), daemon=True, name="agent").start()
                        case _:
                            pass
        return None

    def _run(self, ticket: str) -> None:
        says = make_starter()(agent_words(self._place.host, self._place.port, ticket), self._secret)
        with self._writing, suppress(OSError):
            self._link.say(AgentEnded(ticket, says))


def stand_by(patience_s: float) -> bool:
    """Serve rank 0 to its end, and return True; or return False, if this is rank 0 or torchrun did not start it.

    The place of rank 0 is waited for `patience_s`.
    """
    seat = find_seat()
    if seat is None or seat.rank == 0:
        return False
    if seat.local_rank:  # one process serves for its node
        return True
    kept = {name: os.environ.pop(name) for name in SPOILS if name in os.environ}
    secret = _secret_of_run()
    place = find_place(patience_s, kept)
    try:
        link = connect_to_parent(place.host, place.port, secret, _ticket_of(seat.node), min(patience_s, NODE_CONNECT_S))
        refused = Standby(place, link, secret).serve()
    except WireError as error:
        raise LaneError(f"--on torchrun: {error.says}", SAME) from error
    except OSError as error:
        says = (
            f"--on torchrun: its store says that the first node is at {place.host}:{place.port}, which does not answer"
        )
        raise LaneError(f"{says}: {error.strerror or error}") from error
    if refused is not None:
        raise LaneError(f"--on torchrun: {refused}")
    return True


def _secret_of_run() -> str:
    """Return the secret of this torchrun. Nodes of another one, which know the same cluster, have another."""
    run = f"{os.environ.get('MASTER_PORT', '')} {os.environ.get('TORCHELASTIC_RUN_ID', '')}"
    return derive(take_cluster_secret(), b"torchrun", run.encode("utf-8", "surrogateescape")).hex()


def _ticket_of(node: int) -> str:
    return f"node {node}"


def find_place(patience_s: float, seat: dict[str, str]) -> MeetingPlace:
    """Return where rank 0 listens, as torchrun's store has it."""
    with _open_store("ask", patience_s, seat) as store:
        assert store.stdout is not None
        try:
            answered = select.poll()
            answered.register(store.stdout, select.POLLIN)
            if not answered.poll(1000 * patience_s):
                raise LaneError(f"--on torchrun: its store did not answer within {patience_s:g} s")
            found = store.stdout.readline(STORED_MOST_BYTES)
            if not found:
                raise LaneError(f"--on torchrun: its store was not reached: {_last_words(store)}")
        finally:
            store.kill()  # it may wait for an answer that never comes
    return place_in(found)


def place_in(stored: str) -> MeetingPlace:
    """Return the place that was read from torchrun's store, into which any program may have written."""
    try:
        return cast("MeetingPlace", wire.decode(_decoder, stored.encode(), "store of torchrun"))
    except WireError as error:
        raise LaneError(f"--on torchrun: {error.says}", "another program writes into it") from error


def _open_store(what: str, patience_s: float, seat: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process that uses torchrun's store; it ends when its standard input does."""
    pipe = subprocess.PIPE
    words = [sys.executable, "-P", "-m", STORE, what, f"{patience_s:g}", str(STORED_MOST_BYTES)]
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=os.environ | seat)


def _end(store: subprocess.Popen[str]) -> None:
    assert store.stdin is not None
    with suppress(OSError):
        store.stdin.close()
    try:
        store.wait(NODE_LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        store.kill()
        store.wait()


def _last_words(store: subprocess.Popen[str]) -> str:
    _end(store)
    lines = store.stderr.read().strip().splitlines() if store.stderr is not None else []
    return lines[-1] if lines else f"exit code {store.returncode}"
