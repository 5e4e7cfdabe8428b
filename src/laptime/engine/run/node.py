"""`python -m laptime.engine.run.node HOST PORT TICKET`: the agent that runs one heat of a race on a node of a cluster.

It connects to the parent, starts a usual `Child` and relays what both say. It pauses, continues and ends the child when
the parent asks for it, and reads the noise of its own node as each window closes. If the parent or the process that
started this one is gone, it ends the child with all that it started. If the agent itself is killed, the guardian above
the heat does that. The secret of the race is in an environment variable, which no other process inherits. The parent
proves that it knows the secret before the agent does anything for it.
"""

from __future__ import annotations

import os
import platform
import secrets
import select
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from laptime.engine import wire
from laptime.engine.authentication import LOOPBACK, SignedLines, connect_to, derive
from laptime.engine.run.child import CHILD_LINE_MOST_BYTES, Child, Ended, Silence, WindowReader
from laptime.engine.streams import fill_closed_streams
from laptime.machine.cards import CardSearch
from laptime.machine.look import add_cards, look_at_machine, time_core
from laptime.machine.sensors.cgroup import allowed_cores
from laptime.model.errors import LaptimeError, UsageError, WireError
from laptime.model.frameworks import installed_version
from laptime.model.machine import Machine
from laptime.model.plan import NODE_ADDRESS, NODE_VARIABLES, RANKS_SECRET
from laptime.model.quantities import Missing
from laptime.model.sample import Noise
from laptime.store.disk import cache_folder, write_new

STARTER = 0  # the process that started the agent holds the other end of its standard input, and writes nothing
UNREACHABLE = 3


class NodeAgent:
    """Runs one child for the parent at the other end of a link."""

    def __init__(self, link: NodeLink, secret: str) -> None:
        self._link = link
        self._secret = secret
        self._child: Child | None = None
        self._ended: Ended | None = None
        self._instruments: WindowReader | None = None
        self._is_gone = False  # the child says no more
        self._is_over = False
        self._poll = select.poll()
        self._poll.register(link.fileno(), select.POLLIN)
        self._poll.register(STARTER, 0)  # only a hang-up is reported

    def serve(self) -> None:
        """Relay until the parent has what it wants, or is gone, or the process that started this one is gone."""
        try:
            while not self._is_over:
                ready = dict(self._poll.poll())
                if ready.get(STARTER, 0) & select.POLLHUP:
                    return
                if self._link.fileno() in ready:
                    self._hear_parent()
                if self._child is not None and not self._is_gone:
                    self._relay(self._child)
        except WireError as error:
            with suppress(OSError):
                self._link.say(Trouble(error.says))
        except (EOFError, OSError):
            return  # the parent is gone
        finally:
            if self._child is not None and self._ended is None:
                self._child.abandon()

    def _hear_parent(self) -> None:
        with suppress(Silence):
            while not self._is_over:
                report = self._answer(self._link.hear(0))
                if report is not None:
                    self._link.say(report)

    def _answer(self, message: ToNode) -> FromNode | None:
        """Do what the parent asks for, and return what to report."""
        try:
            match message, self._child:
                case BeginChild() as begin, None:
                    return self._begin(begin)
                case LookAround(drivers=drivers), _:
                    machine = time_core(look_at_machine())
                    return Around(add_cards(machine, CardSearch().end()) if drivers else machine)
                case ToChild() | PauseChild() | ContinueChild(), _ if self._ended is not None:
                    return None if isinstance(message, ToChild) else Done()
                case ToChild(message=line), Child() as child:
                    return self._pass_on(child, wire.read_from_parent(bytes(line)))
                case PauseChild(), Child() as child:
                    child.pause()
                    return Done()
                case ContinueChild(), Child() as child:
                    child.go_on()
                    if self._instruments is not None:
                        self._instruments.reopen()
                    return Done()
                case EndChild(grace_s=grace_s), Child() as child:
                    self._is_over = True
                    return ChildEnded(self._end(child, grace_s))
                case _:
                    self._is_over = True
                    return None
        except LaptimeError as error:
            return Trouble(error.says)

    def _begin(self, begin: BeginChild) -> FromNode:
        other = sorted(begin.environment.keys() - NODE_VARIABLES)
        if other:
            return Trouble(f"an agent does not set {other[0]}: it sets {', '.join(sorted(NODE_VARIABLES))}")
        os.environ.update(begin.environment)
        own = {NODE_ADDRESS: self._link.own_address}
        if begin.is_spread:
            own[RANKS_SECRET] = derive(self._secret, b"ranks").hex()
        child = self._child = Child(begin.environment | own)
        for descriptor in child.descriptors:
            self._poll.register(descriptor, select.POLLIN)
        return ChildBegan(child.pid, child.began_ns)

    def _pass_on(self, child: Child, message: wire.FromParent) -> FromNode | None:
        """Pass a message on to the child, unless it is an order for files that this node does not have."""
        absent = next((path for path in paths_in(message) if not Path(path).exists()), None)
        if absent is None:
            child.say(message)
            return None
        self._stop_hearing(child)
        self._end(child, 0)
        says = f"{absent} is not on {socket.gethostname()}: a race on a cluster needs it at the same path on all nodes"
        return Heard(raw(wire.Failed("start", says, "files", Missing("it was not started"))), time.monotonic_ns())

    def _relay(self, child: Child) -> None:
        """Send the parent all that the child has said."""
        try:
            while (message := child.hear(0)) is not None:
                self._link.say(self._with_noise(child, message))
        except Silence:
            return
        except WireError as error:
            self._link.say(Trouble(error.says))
        else:
            self._link.say(ChildGone())
        self._stop_hearing(child)

    def _stop_hearing(self, child: Child) -> None:
        if self._is_gone:
            return
        self._is_gone = True
        for descriptor in child.descriptors:
            self._poll.unregister(descriptor)

    def _end(self, child: Child, grace_s: float) -> Ended:
        """End the child, once, and return how it ended."""
        if self._ended is None:
            self._ended = child.end(grace_s=grace_s)
        return self._ended

    def _with_noise(self, child: Child, message: wire.FromChild) -> Heard:
        """Read the noise of this node if the message closes a window."""
        at_ns = time.monotonic_ns()
        match message, self._instruments:
            case wire.Phase(name="timing"), _:
                if self._instruments is not None:
                    self._instruments.close()
                self._instruments = child.open_instruments(len(allowed_cores()))
            case wire.Closed(window=window), instruments if instruments is not None:
                noise = instruments.close_window()
                flag = instruments.judge(noise, window.end_ns - window.start_ns)
                return Heard(raw(message), at_ns, noise, flag)
            case _:
                pass
        return Heard(raw(message), at_ns)


def paths_in(message: wire.FromParent) -> list[str]:
    """Return the files and folders that an order needs: a user's own file, data, and the folder of kept batches."""
    order = getattr(message, "order", message)
    subject, data, kept = (getattr(order, name, None) for name in ("subject", "data", "kept_batches"))
    found = [None if subject is None else subject.file, None if data is None else data.folder]
    return [path for path in (*found, str(Path(kept).parent) if kept else None) if path]


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a Ctrl-C at its terminal, the parent ends it in order
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # as a job it was started with it blocked
    host, port, ticket = sys.argv[1:]
    secret = os.environ.pop(SECRET, "")
    fill_closed_streams()
    if not secret:
        sys.stderr.write(f"{SECRET} is not set: laptime starts this program on a node, and sets it\n")
        return UNREACHABLE
    try:
        link = connect_to_parent(host, int(port), secret, ticket)
    except (OSError, WireError) as error:
        sys.stderr.write(f"{socket.gethostname()} cannot reach the parent at {host}:{port}: {error}\n")
        return UNREACHABLE
    NodeAgent(link, secret).serve()
    return 0


# What the parent and an agent on a node say to each other: one JSON object a line, over one connection.
#
# Both ends have proven that they know the secret of the race, and sign what they say (`laptime.engine.authentication`).
# The agent begins with `NodeHello`. The parent answers `BeginChild`, or `NodeRefusal`. From then on the agent relays
# what the parent says to the child (`ToChild`) and what the child says (`Heard`): messages of the wire, as they are.

SECRET = "LAPTIME_NODE_SECRET"  # noqa: S105  the name of the variable in which the agent finds it
NODE_CONNECT_S = 30.0
# A connection whose other end vanished without a word is given up after half a minute.
KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class NodeHello(msgspec.Struct, frozen=True, tag=True):
    """An agent has its place. `ticket` is which of the agents that were submitted it is."""

    ticket: str
    node: str
    laptime: str
    python: str
    wire: int


class ChildBegan(msgspec.Struct, frozen=True, tag=True):
    """The child runs: its guardian, and the time on the node's clock."""

    pid: int
    at_ns: int


class Heard(msgspec.Struct, frozen=True, tag=True):
    """A message of the child, as it is, and when it came. If a window closed: the node's noise, and why to flag it."""

    message: msgspec.Raw
    at_ns: int
    noise: Noise | None = None
    flag: str | None = None


class ChildGone(msgspec.Struct, frozen=True, tag=True):
    """The child says no more."""


class Trouble(msgspec.Struct, frozen=True, tag=True):
    """What was asked for, or said by the child, went wrong."""

    says: str


class Done(msgspec.Struct, frozen=True, tag=True):
    """The child is paused, or goes on."""


class ChildEnded(msgspec.Struct, frozen=True, tag=True):
    """The child and all that it started are gone."""

    ended: Ended


class Around(msgspec.Struct, frozen=True, tag=True):
    machine: Machine


class AgentEnded(msgspec.Struct, frozen=True, tag=True):
    """From a further node: an agent that it had started has ended, with these last words."""

    ticket: str
    says: str


class NodeRefusal(msgspec.Struct, frozen=True, tag=True):
    """The agent cannot be used; it ends."""

    says: str


class BeginChild(msgspec.Struct, frozen=True, tag=True):
    """Start the child, with variables of `NODE_VARIABLES`. If its lane `is_spread`, it meets ranks on other nodes."""

    environment: dict[str, str]
    is_spread: bool = False


class StartAgent(msgspec.Struct, frozen=True, tag=True):
    """To a further node: start an agent, which comes under this ticket."""

    ticket: str


class LookAround(msgspec.Struct, frozen=True, tag=True):
    """Describe the node, if wanted with what its drivers say of cards."""

    drivers: bool = False


class ToChild(msgspec.Struct, frozen=True, tag=True):
    message: msgspec.Raw


class PauseChild(msgspec.Struct, frozen=True, tag=True):
    """Stop the child and all that it started."""


class ContinueChild(msgspec.Struct, frozen=True, tag=True):
    """Let it go on."""


class EndChild(msgspec.Struct, frozen=True, tag=True):
    grace_s: float


FromNode = NodeHello | ChildBegan | Heard | ChildGone | Trouble | Done | ChildEnded | Around | AgentEnded
ToNode = NodeRefusal | BeginChild | LookAround | ToChild | PauseChild | ContinueChild | EndChild | StartAgent

_encoder = msgspec.json.Encoder()
FROM_NODE: msgspec.json.Decoder[FromNode] = msgspec.json.Decoder(FromNode)
TO_NODE: msgspec.json.Decoder[ToNode] = msgspec.json.Decoder(ToNode)


class NodeLink:
    """One end of a connection. It is read by one thread."""

    def __init__(self, signed: SignedLines, decoder: msgspec.json.Decoder[Any]) -> None:
        self._signed = signed
        self._decoder = decoder
        signed.lines.most_bytes = CHILD_LINE_MOST_BYTES
        connection = signed.lines.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):  # macOS has other names for some
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def fileno(self) -> int:
        return self._signed.lines.connection.fileno()

    @property
    def own_address(self) -> str:
        """By which address the other end reaches this one."""
        return str(self._signed.lines.connection.getsockname()[0])

    def say(self, message: FromNode | ToNode) -> None:
        """Send a message. Raise OSError if the other end is gone."""
        self._signed.send(_encoder.encode(message))

    def hear(self, timeout_s: float) -> Any:
        """Return the next message. Raise Silence if none comes in time, and EOFError if the other end is gone."""
        try:
            line = self._signed.receive(timeout_s)
        except TimeoutError:
            raise Silence from None
        return wire.decode(self._decoder, line, "other end of a node's connection")

    def close(self) -> None:
        self._signed.close()


def connect_to_parent(host: str, port: int, secret: str, ticket: str, timeout_s: float = NODE_CONNECT_S) -> NodeLink:
    """Connect to the parent, and introduce the agent on this node. Raise WireError if it is not the parent."""
    link = NodeLink(connect_to(host, port, secret, timeout_s), TO_NODE)
    link.say(hello_of(ticket))
    return link


def read_hello(line: bytes) -> NodeHello | None:
    """Return how an agent introduced itself, or None if it said something else."""
    hello = wire.decode(FROM_NODE, line, "agent on a node")
    return hello if isinstance(hello, NodeHello) else None


def raw(message: wire.FromChild | wire.FromParent) -> msgspec.Raw:
    """Return a message of the wire, to be sent in one of these."""
    return msgspec.Raw(wire.write(message).rstrip(b"\n"))


def hello_of(ticket: str) -> NodeHello:
    """Return how the agent on this node introduces itself."""
    return NodeHello(ticket, socket.gethostname(), installed_version(), platform.python_version(), wire.WIRE_VERSION)


def why_refused(hello: NodeHello) -> str | None:
    """Return why an agent cannot be used: figures of another laptime may mean something else."""
    if hello.laptime != installed_version():
        return (
            f"{hello.node} has laptime {hello.laptime}, and here is {installed_version()}: "
            "install the same version on all nodes"
        )
    if hello.wire != wire.WIRE_VERSION:
        return (
            f"the laptime of {hello.node} speaks version {hello.wire} of the wire, and this one {wire.WIRE_VERSION}: "
            "install the same on all nodes"
        )
    return None


# By which address the nodes of a cluster reach this machine.

ADDRESS_VARIABLE = "LAPTIME_ADDRESS"  # for a machine that has several, or one that looks different from outside


def address_towards(host: str) -> str:
    """Return the address that the user gave, or ours on the way to a host. Nothing is sent."""
    if given := os.environ.get(ADDRESS_VARIABLE):
        return given
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((host, 9))
        return str(way.getsockname()[0])
    return LOOPBACK


# The secret that all nodes of a torchrun know before the race: a variable has it, else a file in laptime's cache.
#
# torchrun gives its processes nothing that other programs could not read: its store is open to all that reach its port.

GIVEN_TO_ALL = "LAPTIME_CLUSTER_SECRET"
LEAST_CHARACTERS = 16
TICKET_MOST_BYTES = 4096
SAME = f"set {GIVEN_TO_ALL} to the same secret on all nodes: openssl rand -hex 32 makes one"


def take_cluster_secret() -> str:
    """Return the secret, and remove the variable from the environment: no process that starts later has it.

    If there is no file either, make it: the first node does, where several share the folder.
    """
    given = os.environ.pop(GIVEN_TO_ALL, None)
    if given is not None:
        if len(given) < LEAST_CHARACTERS:
            says = f"{GIVEN_TO_ALL} has {len(given)} characters, and a secret has {LEAST_CHARACTERS} or more"
            raise UsageError(says, SAME)
        return given
    path = cache_folder() / "cluster-secret"
    try:
        with suppress(FileExistsError):
            if not path.exists():
                write_new(path, secrets.token_hex(32).encode(), is_private=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
            secret = file.read(TICKET_MOST_BYTES).decode("ascii", "replace").strip() if is_ours else ""
    except OSError as error:
        raise UsageError(f"no secret for the nodes is in {path}: {error.strerror or error}", SAME) from error
    if not is_ours:
        says = f"{path} is not a file that you own and only you can read, as a secret has to be"
        raise UsageError(says, f"remove it, and laptime makes another; or {SAME}")
    if len(secret) < LEAST_CHARACTERS:
        raise UsageError(f"{path} has no secret of {LEAST_CHARACTERS} or more characters", f"remove it; or {SAME}")
    return secret


if __name__ == "__main__":
    sys.exit(main())
