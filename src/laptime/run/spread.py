"""A heat whose ranks are on several nodes. For a runner it is one child: that of the first rank, which leads.

SpreadChild (first rank)  -> its agent -> laptime.heat: forks the ranks of its node, says where it is (RanksMeet)
  RemoteChild (further node) -> its agent -> laptime.heat: forks the ranks of its node, which connect to the first
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from laptime import wire
from laptime.errors import WireError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, PlannedLane, RankPlace
from laptime.model.ranks import RANK_IS_GONE, REASON_S
from laptime.run.child import GRACE_S, Ended, Silence
from laptime.run.remote import RemoteChild, Waiting

END_S = 1.0
LOOK_S = 0.2  # how often the other nodes are looked at while the first rank says nothing
BLAME_S = 8.0  # the first rank says what failed: only if it does not, its loss of another one is reported
NOT_KNOWN = Missing(RANK_IS_GONE)


class SpreadChild(RemoteChild):
    """The process of the first rank, and with it those on other nodes."""

    def __init__(
        self, waiting: Waiting, environment: dict[str, str], others: Sequence[RemoteChild], lane: PlannedLane
    ) -> None:
        super().__init__(waiting, environment, is_spread=True)
        self._others, self._counts = tuple(others), lane.spread
        self._order: HeatOrder | None = None
        self._failed: wire.Failed | None = None
        self._blame_at_s = 0.0

    def say(self, message: wire.FromParent) -> None:
        match message:
            case wire.Warm():
                for each in self._others:
                    each.say(message)
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
        for each in self._others:
            each.begin(max(0.0, deadline - time.monotonic()))

    def hear(self, timeout_s: float) -> wire.FromChild | None:
        deadline = time.monotonic() + timeout_s
        self.begin(timeout_s)
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                message = super().hear(min(left_s, LOOK_S))
            except Silence:
                self._look_at_others()
                if self._failed is not None and time.monotonic() >= self._blame_at_s:
                    return self._failed
                if left_s <= LOOK_S:
                    raise
                continue
            if isinstance(message, wire.RanksMeet):
                self._send_others(message.place)
                continue
            if isinstance(message, wire.Failed) and message.reason.endswith(RANK_IS_GONE):
                known = self._why_lost() or message
                return wire.Failed(message.phase, known.reason, known.kind, message.peak_memory_bytes, known.source)
            return message

    def _why_lost(self) -> wire.Failed | None:
        """Return how another rank ended, as its own node knows it."""
        deadline_s = time.monotonic() + REASON_S
        self._look_at_others()
        while self._failed is None and time.monotonic() < deadline_s:
            time.sleep(LOOK_S)
            self._look_at_others()
        return self._failed

    def pause(self) -> None:
        super().pause()
        for each in self._others:
            each.pause()

    def go_on(self) -> None:
        for each in self._others:
            each.go_on()
        super().go_on()

    def end(self, *, grace_s: float = GRACE_S) -> Ended:
        try:
            return super().end(grace_s=grace_s)
        finally:
            for each in self._others:  # without the first rank they end on their own
                each.end(grace_s=min(grace_s, GRACE_S))

    def _send_others(self, place: RankPlace) -> None:
        """Send each further node its ranks, and where the first rank is."""
        assert self._order is not None
        rank = place.rank
        for count, each in zip(self._counts[1:], self._others, strict=True):
            each.say(wire.Run(replace(self._order, place=replace(place, rank=rank))))
            rank += count

    def _look_at_others(self) -> None:
        """Hear what went wrong on another node."""
        rank = self._counts[0]
        for count, each in zip(self._counts[1:], self._others, strict=True):
            if self._failed is None:
                self._failed = _failure_of(each, rank)
                self._blame_at_s = time.monotonic() + BLAME_S
            rank += count


def _failure_of(child: RemoteChild, rank: int) -> wire.Failed | None:
    try:
        while (message := child.hear(0)) is not None:
            if isinstance(message, wire.Failed):
                said = f"rank {rank} on {child.node}: {message.reason}"
                return wire.Failed(message.phase, said, message.kind, message.peak_memory_bytes, message.source)
    except Silence:
        return None
    except WireError as error:
        return wire.Failed("start", f"rank {rank}: {error.says}", "error", NOT_KNOWN)
    ended = child.end(grace_s=END_S)
    how = f"its process was ended by {ended.signal}" if ended.signal else RANK_IS_GONE
    return wire.Failed("start", f"rank {rank} on {child.node}: {how}", "error", NOT_KNOWN)
