"""Turns of a round are taken again by the base: which ones is drawn before, and asked for when they were timed.

What the others did in them they have to show: where it began, and where it ended. The base begins there with its own
code and its own data. A heat reports a digest of its state at the end of each turn, before anybody asks for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from laptime import wire
from laptime.model.sample import TurnTakenAgain
from laptime.run.runner import HeatRunner
from laptime.run.turns import Player

Players = Sequence[Player[HeatRunner]]
TURNS_KEPT = 2  # the second is taken again where the first differs, which may be chance


class DrawnTurns:
    """The turns of a round that the first of its heats takes again for all others."""

    def __init__(self, players: Players, expected: int) -> None:
        self._base = players[0]
        self._others = [each for each in players[1:] if _computes_alike(each, self._base)]
        # From the system's own source: a candidate that knew the seed would know the turns.
        self._drawn = set(random.SystemRandom().sample(range(expected), min(TURNS_KEPT, expected)))
        self._kept: list[int] = []

    def after(self, turn: int) -> None:
        """Keep a drawn turn, now that it was timed."""
        if turn in self._drawn:
            self._keep(turn)

    def replay(self, differs: Callable[[TurnTakenAgain], bool]) -> None:
        """Let the base take a kept turn of each other heat again; the last turn, if no drawn one came.

        A further one is taken again where the first `differs`.
        """
        turns = len(self._base.runner.digests)
        if not self._kept and turns:
            self._keep(turns - 1)
        if any(shown.reason for shown in self._base.runner.shown):
            return  # a KEEP says on its page that no turn was taken again
        for player in self._others:
            for place, turn in enumerate(self._kept):
                if player.is_over or self._base.is_over or not self._is_shared(player.runner, turn):
                    break
                found = self._replay(player.runner, place, turn)
                if found.of_its_own:
                    self._base.runner.noted += (f"no turn could be taken again: {found.reason}",)
                    return
                player.runner.replays.append(found)
                if found.replay is None or not differs(found.replay):
                    break

    def _is_shared(self, runner: HeatRunner, turn: int) -> bool:
        """Whether both took the same steps in this turn."""
        mine, its = ((each.begins[turn], each.windows[turn].steps) for each in (self._base.runner, runner))
        return mine == its

    def _keep(self, turn: int) -> None:
        self._kept.append(turn)
        for player in (self._base, *self._others):
            if not player.is_over:
                player.ask(wire.KeepTurn(is_shown=player is not self._base))

    def _replay(self, runner: HeatRunner, place: int, turn: int) -> wire.TurnReplayed:
        shown = runner.shown[place]
        if shown.reason:
            return wire.TurnReplayed(None, shown.reason)
        before = runner.windows[turn - 1] if turn else None
        is_joined = before is not None and (before.first_step or 0) + before.steps - 1 == runner.begins[turn]
        began = runner.digests[turn - 1] if is_joined else ""
        self._base.runner.replayed = None
        self._base.ask(wire.ReplayTurn(place, shown.path, began, runner.digests[turn]))
        return self._base.runner.replayed or wire.TurnReplayed(None, "the base ended in it")


def _computes_alike(player: Player[HeatRunner], base: Player[HeatRunner]) -> bool:
    """Whether the base can take another's turn: in one framework and one precision."""
    mine, its = player.runner.order.lane, base.runner.order.lane
    return mine.framework == its.framework and mine.settings.precision == its.settings.precision
