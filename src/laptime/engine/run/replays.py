"""Turns of a round are taken again by the base: which ones is drawn when all of them were timed.

What the others did in them they have to show: where it began, and where it ended. The base begins there with its own
code and its own data. A heat reports a digest of its state at the end of each turn, before anybody asks for it.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from laptime.engine import wire
from laptime.engine.run.runner import HeatRunner
from laptime.engine.run.turns import Player
from laptime.model.sample import TurnTakenAgain, Window

Players = Sequence[Player[HeatRunner]]
KEPT_BYTES_MOST = 1 << 28  # bytes of a heat's turns; two are kept, however large they are
TURNS_TAKEN_AGAIN = 2  # the second where the first differs, which may be chance
FASTEST_FIRST = 0.75  # of the draws
# From the system's own source: a candidate that knew the seed would know the turns.
DRAW = random.SystemRandom()


class KeptTurns:
    """The turns of a round that its heats keep, of which the first heat takes some again for all others.

    All heats keep each turn, as many as have room, and beyond that a random choice of those so far. So no heat learns
    of a turn that nobody will look at any more.
    """

    def __init__(self, players: Players) -> None:
        self._base = players[0]
        lane = self._base.runner.order.lane
        self._others = [  # whose turns the base can take: in one framework and one precision
            player
            for player in players[1:]
            if player.runner.order.lane.framework == lane.framework
            and player.runner.order.lane.settings.precision == lane.settings.precision
        ]
        self._turns: list[int] = []  # by place
        self._room = 1
        self._refusals: dict[str, str] = {}  # by lane: why one kept no turn

    def after(self, turn: int) -> None:
        """Keep a turn, now that it was timed."""
        if self._base.runner.lane in self._refusals:
            return  # a KEEP says on its page that no turn was taken again
        place = len(self._turns) if len(self._turns) < self._room else DRAW.randrange(turn + 1)
        if place >= self._room:
            return
        self._turns[place : place + 1] = [turn]
        for player in (self._base, *self._others):
            if not player.is_over and (kept := player.ask(wire.KeepTurn(place), wire.TurnKept)) is not None:
                if kept.reason:
                    self._refusals.setdefault(player.runner.lane, kept.reason)
                elif player is self._base:
                    self._room = max(TURNS_TAKEN_AGAIN, KEPT_BYTES_MOST // max(kept.size_bytes, 1))

    @property
    def gain(self) -> float:
        """How many times as fast as the base another was in the turns that are kept: the one that gained most."""
        gains = [self._times_by_place(player) for player in self._others]
        return max((fmean(times) for times in gains if times), default=1.0)

    def replay(self, differs: Callable[[TurnTakenAgain], bool]) -> None:
        """Let the base take a drawn turn of each other heat again, and a further one where the first `differs`."""
        if self._base.runner.lane in self._refusals:
            return
        base = self._base.runner
        for player in self._others:
            runner = player.runner
            for place in self.draw(player):
                if player.is_over or self._base.is_over:
                    break
                turn = self._turns[place]
                if base.begins[turn] != runner.begins[turn] or base.windows[turn].steps != runner.windows[turn].steps:
                    break  # they took other steps in this turn
                found = self._replay(player, place)
                if found is None:
                    break
                if found.of_its_own:
                    base.noted += (f"no turn could be taken again: {found.reason}",)
                    return
                if found.replay is not None:
                    times = self._times(player, turn)
                    found = wire.TurnReplayed(replace(found.replay, times=times))
                runner.replays.append(found)
                if found.replay is None or not differs(found.replay):
                    break

    def draw(self, player: Player[HeatRunner]) -> list[int]:
        """Draw the turns to be taken again. Most often the one that gained most comes first: there least may be done.

        A heat that did less in a few turns would gain by these alone. Where it knew this rule for certain, it could be
        honest in the fastest one.
        """
        gains = self._times_by_place(player)
        by_gain = sorted(range(len(self._turns)), key=lambda place: -gains[place])
        if DRAW.random() > FASTEST_FIRST:
            DRAW.shuffle(by_gain)
        return by_gain[:TURNS_TAKEN_AGAIN]

    def _times_by_place(self, player: Player[HeatRunner]) -> list[float]:
        """Return how many times as fast as the base a heat was in each turn that is kept.

        A turn in which one of them was disturbed gained nothing. On a busy machine most are, and the others have to do.
        """
        runners = (player.runner, self._base.runner)
        quiet = [
            not any(turn < len(runner.windows) and runner.windows[turn].flag for runner in runners)
            for turn in self._turns
        ]
        is_busy = 2 * sum(quiet) < len(quiet)
        return [
            self._times(player, turn) if is_quiet or is_busy else 1.0
            for turn, is_quiet in zip(self._turns, quiet, strict=True)
        ]

    def _times(self, player: Player[HeatRunner], turn: int) -> float:
        """Return how many times as fast as the base a heat was in a turn; 1 where one of them did not time it."""
        if len(player.runner.windows) <= turn or len(self._base.runner.windows) <= turn:
            return 1.0
        return step_ns(self._base.runner.windows[turn]) / step_ns(player.runner.windows[turn])

    def _replay(self, player: Player[HeatRunner], place: int) -> wire.TurnReplayed | None:
        """Return what came of a turn, or None if the heat ended as it was to show it, which fails it."""
        runner = player.runner
        turn = self._turns[place]
        if runner.lane in self._refusals:
            return wire.TurnReplayed(None, self._refusals[runner.lane])
        before = runner.windows[turn - 1] if turn else None
        is_joined = before is not None and (before.first_step or 0) + before.steps - 1 == runner.begins[turn]
        began = runner.digests[turn - 1] if is_joined else ""
        # It is removed by this process, which alone knows when it was read, and that a heat was killed.
        own = None if runner.child.sandbox is None else runner.child.sandbox.folder
        with tempfile.TemporaryDirectory(prefix="laptime-turn-", dir=own, ignore_cleanup_errors=True) as folder:
            path = str(Path(folder, "turn.npz"))
            shown = player.ask(wire.ShowTurn(place, path), wire.TurnShown)
            if shown is None or shown.reason:
                return None if shown is None else wire.TurnReplayed(None, shown.reason)
            asked = wire.ReplayTurn(place, path, began, runner.digests[turn])
            return self._base.ask(asked, wire.TurnReplayed) or wire.TurnReplayed(None, "the base ended in it")


def step_ns(window: Window) -> float:
    return window.took_ns / window.steps
