"""One turn of a round is taken again by the base: which one is drawn before the round, and asked for when it was timed.

What the others did in it they have to show: where it began, and where it ended. The base begins there with its own code
and its own data. A heat reports a digest of its state at the end of each turn, before anybody asks for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from laptime import wire
from laptime.run.runner import HeatRunner
from laptime.run.turns import Player

Players = Sequence[Player[HeatRunner]]


class DrawnTurn:
    """The turn of a round that the first of its heats takes again for all others."""

    def __init__(self, players: Players, expected: int) -> None:
        self._base = players[0]
        self._others = [each for each in players[1:] if _computes_alike(each, self._base)]
        self._drawn = secrets.randbelow(max(1, expected))
        self._kept: int | None = None

    def after(self, turn: int) -> None:
        """Keep the drawn turn, now that it was timed."""
        if turn == self._drawn:
            self._keep(turn)

    def replay(self) -> None:
        """Let the base take the kept turn of each other heat again; the last turn, if the drawn one did not come."""
        turns = len(self._base.runner.digests)
        if self._kept is None and turns:
            self._keep(turns - 1)
        mine = self._base.runner.shown
        if self._kept is None or self._base.is_over or mine is None or mine.reason:
            return
        for player in self._others:
            if not player.is_over:
                player.runner.replay_of = self._replay(player.runner, self._kept)

    def _keep(self, turn: int) -> None:
        self._kept = turn
        for player in (self._base, *self._others):
            if not player.is_over:
                player.ask(wire.KeepTurn(is_shown=player is not self._base))

    def _replay(self, runner: HeatRunner, turn: int) -> wire.TurnReplayed:
        shown = runner.shown
        if shown is None or shown.reason:
            return wire.TurnReplayed(None, shown.reason if shown else "it showed nothing")
        before = runner.digests[turn - 1] if turn else ""
        self._base.ask(wire.ReplayTurn(shown.path, before, runner.digests[turn]))
        return self._base.runner.replayed or wire.TurnReplayed(None, "the base ended in it")


def _computes_alike(player: Player[HeatRunner], base: Player[HeatRunner]) -> bool:
    """Whether the base can take another's turn: on one kind of device, in one precision."""
    mine, its = player.runner.order.lane, base.runner.order.lane
    return mine.framework == its.framework and mine.settings.precision == its.settings.precision
