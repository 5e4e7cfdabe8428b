"""What the parent and an agent on a node say to each other: one JSON object a line, over one connection.

Both ends have proven that they know the secret of the race, and sign what they say (`laptime.authentication`). The
agent begins with `NodeHello`. The parent answers `BeginChild`, or `NodeRefusal`. From then on the agent relays what the
parent says to the child (`ToChild`) and what the child says (`Heard`): messages of the wire, as they are.
"""

from __future__ import annotations

import platform
import socket
from typing import Any

import msgspec

from laptime import wire
from laptime.authentication import SignedLines, connect_to
from laptime.model.installation import installed_version
from laptime.model.machine import Machine
from laptime.model.sample import Noise
from laptime.run.child import LINE_MOST_BYTES, Ended, Silence

SECRET = "LAPTIME_NODE_SECRET"  # noqa: S105  the name of the variable in which the agent finds it
CONNECT_S = 30.0
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
        self._signed, self._decoder = signed, decoder
        signed.lines.most_bytes = LINE_MOST_BYTES
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


def connect_to_parent(host: str, port: int, secret: str, ticket: str, timeout_s: float = CONNECT_S) -> NodeLink:
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
    return NodeHello(ticket, socket.gethostname(), installed_version(), platform.python_version(), wire.VERSION)


def why_refused(hello: NodeHello) -> str | None:
    """Return why an agent cannot be used: figures of another laptime may mean something else."""
    if hello.laptime != installed_version():
        return (
            f"{hello.node} has laptime {hello.laptime}, and here is {installed_version()}: "
            "install the same version on all nodes"
        )
    if hello.wire != wire.VERSION:
        return (
            f"the laptime of {hello.node} speaks version {hello.wire} of the wire, and this one {wire.VERSION}: "
            "install the same on all nodes"
        )
    return None
