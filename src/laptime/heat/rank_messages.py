"""What the first rank of a heat asks of the others, and what they answer: one JSON object a line, over a socket."""

from __future__ import annotations

import hmac
import socket
from typing import Any

import msgspec

from laptime.errors import WireError
from laptime.model.ranks import RankReport

SMALL_BYTES = 4  # an exchange of this many bytes takes what a hop takes


class JoinRank(msgspec.Struct, frozen=True, tag=True):
    """A rank on another node introduces itself."""

    number: int
    secret: str


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
    """One end of the connection between the first rank and another."""

    def __init__(self, connection: socket.socket, patience_s: float | None = None) -> None:
        connection.settimeout(patience_s)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self._lines = connection.makefile("rb")

    def say(self, message: ToRank | FromRank) -> None:
        self.connection.sendall(_encoder.encode(message) + b"\n")

    def hear_order(self) -> ToRank | None:
        """Return the next order of the first rank, or None if it is gone."""
        order: ToRank | None = self._hear(_to_rank)
        return order

    def hear_answer(self) -> FromRank | None:
        """Return the next answer of a rank, or None if it is gone."""
        answer: FromRank | None = self._hear(_from_rank)
        return answer

    def hear_number(self, secret: str) -> int | None:
        """Return which rank is at the other end, or None if it does not know the secret."""
        try:
            said = self._hear(_from_rank)
        except WireError:
            return None
        return said.number if isinstance(said, JoinRank) and hmac.compare_digest(said.secret, secret) else None

    def close(self) -> None:
        self._lines.close()
        self.connection.close()

    def _hear(self, decoder: msgspec.json.Decoder[Any]) -> Any:
        try:
            line = self._lines.readline()
        except (OSError, ValueError):
            return None
        if not line:
            return None
        try:
            return decoder.decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise WireError(f"unreadable message between two ranks: {line[:120]!r} ({error})") from error
