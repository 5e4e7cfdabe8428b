"""What the parent and an agent on a node say to each other: one JSON object a line, over one connection.

The agent begins with `NodeHello`. The parent answers `BeginChild`, or `NodeRefusal`. From then on the agent relays what
the parent says to the child (`ToChild`) and what the child says (`Heard`): messages of the wire, as they are.
"""

from __future__ import annotations

import platform
import socket
import time
from collections import deque
from importlib import metadata
from typing import Any

import msgspec

from laptime import wire
from laptime.errors import WireError
from laptime.model.machine import Machine
from laptime.model.sample import Noise
from laptime.run.child import LINE_MOST_BYTES, READ_BYTES, Ended, Silence

SECRET = "LAPTIME_NODE_SECRET"  # noqa: S105  the name of the variable in which the agent finds it
# A connection whose other end vanished without a word is given up after half a minute.
KEEP_ALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class NodeHello(msgspec.Struct, frozen=True, tag=True):
    """An agent has its place. `ticket` is which of the agents that were submitted it is."""

    secret: str
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
    environment: dict[str, str]


class StartAgent(msgspec.Struct, frozen=True, tag=True):
    """To a further node: run `python WORDS...`, an agent, whose ticket is the last word."""

    words: list[str]


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
    """One end of a connection. It is read by one thread; a message longer than `most_bytes` ends it."""

    def __init__(self, connection: socket.socket, decoder: msgspec.json.Decoder[Any], most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._connection, self._decoder = connection, decoder
        self._buffer = bytearray()
        self._messages: deque[Any] = deque()
        connection.setblocking(True)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):  # macOS has other names for some
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def own_address(self) -> str:
        """By which address the other end reaches this one."""
        return str(self._connection.getsockname()[0])

    def say(self, message: FromNode | ToNode) -> None:
        """Send a message. Raise OSError if the other end is gone."""
        self._connection.settimeout(None)
        self._connection.sendall(_encoder.encode(message) + b"\n")

    def hear(self, timeout_s: float) -> Any:
        """Return the next message. Raise Silence if none comes in time, and EOFError if the other end is gone."""
        deadline = time.monotonic() + timeout_s
        while not self._messages:
            left_s = deadline - time.monotonic()
            self._connection.settimeout(max(left_s, 0.0))  # 0: return what is there
            try:
                read = self._connection.recv(READ_BYTES)
            except (TimeoutError, BlockingIOError):
                raise Silence from None
            except OSError as error:
                raise EOFError from error
            if not read:
                raise EOFError
            self._take(read)
        return self._messages.popleft()

    def close(self) -> None:
        self._connection.close()

    def _take(self, read: bytes) -> None:
        searched = len(self._buffer)
        self._buffer += read
        if self._buffer.find(b"\n", searched) < 0:
            if len(self._buffer) > self.most_bytes:
                raise EOFError
            return
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        try:
            self._messages += [self._decoder.decode(bytes(line)) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WireError(f"unreadable message between the parent and a node: {error}") from error


def to_node(connection: socket.socket, most_bytes: int = LINE_MOST_BYTES) -> NodeLink:
    """Return the parent's end of a connection."""
    return NodeLink(connection, FROM_NODE, most_bytes)


def to_parent(connection: socket.socket) -> NodeLink:
    """Return the agent's end of a connection."""
    return NodeLink(connection, TO_NODE, LINE_MOST_BYTES)


def raw(message: wire.FromChild | wire.FromParent) -> msgspec.Raw:
    """Return a message of the wire, to be sent in one of these."""
    return msgspec.Raw(wire.write(message).rstrip(b"\n"))


def hello_of(secret: str, ticket: str) -> NodeHello:
    """Return how the agent on this node introduces itself."""
    return NodeHello(secret, ticket, socket.gethostname(), own_version(), platform.python_version(), wire.VERSION)


def own_version() -> str:
    try:
        return metadata.version("laptime")
    except metadata.PackageNotFoundError:
        return "not installed"


def why_refused(hello: NodeHello) -> str | None:
    """Return why an agent cannot be used: figures of another laptime may mean something else."""
    if hello.laptime != own_version():
        return (
            f"{hello.node} has laptime {hello.laptime}, and here is {own_version()}: install the same version on all "
            "nodes"
        )
    if hello.wire != wire.VERSION:
        return (
            f"the laptime of {hello.node} speaks version {hello.wire} of the wire, and this one {wire.VERSION}: "
            "install the same on all nodes"
        )
    return None
