"""What the first rank of a heat asks of the others, and what they answer: one JSON object a line, over a socket.

Between nodes both ends have proven that they know the secret of the race, and sign their lines.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from laptime import wire
from laptime.authentication import LineSocket, SignedLines
from laptime.errors import WireError
from laptime.model.ranks import RankReport

LINE_MOST_BYTES = 64 << 20  # a report is some kilobytes, the times of steps have some digits each
SMALL_BYTES = 4  # an exchange of this many bytes takes what a hop takes


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
    return Link(LineSocket(connection, LINE_MOST_BYTES))


def link_to_node(connection: SignedLines) -> Link:
    """Return the link between two ranks on different nodes."""
    connection.lines.most_bytes = LINE_MOST_BYTES
    return Link(connection)


def number_in(line: bytes) -> int | None:
    """Return the number with which a rank introduced itself, or None if it said something else."""
    try:
        said = wire.decode(_from_rank, line, "rank at the other end")
    except WireError:
        return None
    return said.number if isinstance(said, JoinRank) else None
