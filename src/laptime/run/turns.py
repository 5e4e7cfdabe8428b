"""Let heats of several lanes be alive at once and take turns: A B, B A, A B. All but one of them are paused.

A machine drifts by tens of per cent within a minute. Turns of 0.25 s meet the same state of it, so the
drift cancels in their ratio. Each heat still has its own process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
import psutil

from laptime import wire
from laptime.errors import WireError
from laptime.model.machine import Device
from laptime.model.plan import Pace
from laptime.model.process import Dnf
from laptime.model.sample import SLOW_SPELL
from laptime.run.answers import InferenceRunner
from laptime.run.heats import HeatRunner
from laptime.run.runner import Started
from laptime.run.slow_spells import find_slow_spells
from laptime.run.turn_steps import Entrant, TurnSteps, choose_steps, fit_steps

PATIENCE_FACTOR = 2  # where steps are so slow that few turns fit, a round may take this many times as long
REACH_FACTOR = 4  # and this many times, to reach the step at which something was seen
TURNS_LEAST = 3
ENOUGH = 0.9  # of the time to measure: turns are whole steps, so four of them may be a little short
NO_STEPS: Mapping[str, TurnSteps] = MappingProxyType({})
ANY_STEPS = wire.TakeTurn()
AnyRunner = HeatRunner | InferenceRunner
R_co = TypeVar("R_co", bound=AnyRunner, covariant=True)


class Player(Generic[R_co]):
    """A heat that takes turns. Between its turns the child and all that it started are paused."""

    def __init__(self, runner: R_co, device: Device) -> None:
        self.runner, self.device = runner, device
        self.active_s = 0.0
        self._dnf: Dnf | None = None
        self._paused_at_ns = 0

    def join(self, started: Started) -> None:
        """Bring the heat to where its turns begin: past its first step, or to its single calls."""
        self.runner.turn = 0
        self.runner.begin(started, self.runner.message)
        self._hear_until_ready()

    def play(self, turn: int, order: wire.TakeTurn = ANY_STEPS) -> None:
        """Run one window."""
        self.runner.turn = turn
        if self._went_on():
            self.runner.reopen()
            self.runner.child.say(order)
        self._hear_until_ready()

    def leave(self) -> Dnf | None:
        """Let the heat do what comes after its turns, and end the child. Return why it did not finish, or None."""
        if not self.is_over:
            if self._went_on():
                self.runner.child.say(wire.Enough())
            self.runner.hear_on()
            self._finish()
        return self._dnf

    def abandon(self) -> None:
        self.runner.abandon()

    @property
    def is_over(self) -> bool:
        return self.runner.is_over

    @property
    def node(self) -> str | None:
        """The node of a cluster on which the heat runs, or None here."""
        return self.runner.child.node

    @property
    def resident_bytes(self) -> int:
        """The memory that the heat holds now, with all that it started."""
        try:
            heat = psutil.Process(self.runner.child.pid)
            return sum(each.memory_info().rss for each in (heat, *heat.children(recursive=True)))
        except psutil.Error:
            return 0

    def _hear_until_ready(self) -> None:
        """Hear the child until it is ready, then pause it. One that fails is ended at once: it must not disturb."""
        self.runner.hear_on(wire.Ready)
        if self.is_over or not self._is_done(self.runner.child.pause):
            self._finish()
            return
        self._paused_at_ns = time.monotonic_ns()
        if self.runner.sampler is not None:
            self.runner.sampler.pause()

    def _finish(self) -> None:
        self._dnf = self.runner.finish()
        self.active_s = (time.monotonic_ns() - self.runner.started_ns - self.runner.paused_ns) / 1e9

    def _went_on(self) -> bool:
        self.runner.paused_ns += time.monotonic_ns() - self._paused_at_ns
        if self.runner.sampler is not None:
            self.runner.sampler.go_on()
        return self._is_done(self.runner.child.go_on)

    def _is_done(self, request: Callable[[], None]) -> bool:
        """Whether the guardian did what was requested. A heat that cannot be paused is over."""
        try:
            request()
        except WireError as error:
            self.runner.give_up(str(error))
            return False
        return True


def play_turns(
    players: Sequence[Player[HeatRunner]], pace: Pace, kept: Mapping[str, TurnSteps] = NO_STEPS, least: int = 0
) -> dict[str, TurnSteps]:
    """Let the heats take turns until each was timed for long enough. A turn in which one was disturbed is repeated.

    Only times decide how many turns there are, never a ratio. `kept` are the steps of the turns in an earlier round of
    the same lanes; those of this round are returned. Without them the turns begin after `least` steps, where heats have
    nearly come so far.
    """
    turn = 0
    steps = _begin_steps([each for each in players if not each.is_over], pace, kept, least)
    while True:
        playing = [each for each in players if not each.is_over]
        _play_one(playing, turn, {each: steps[each].order(turn) for each in playing})
        left = [each for each in playing if not each.is_over]
        if turn == 0 and not kept:
            steps = _correct_steps(left, pace)
        turn += 1
        if not left:
            return _by_lane(steps)
        runners = [each.runner for each in left]
        _flag_slow_spells(runners)
        timed = list(zip(*(each.windows for each in runners), strict=True))
        spent_s = sum(window.end_ns - window.start_ns for windows in timed for window in windows) / len(runners) / 1e9
        quiet = sum(all(window.flag is None for window in windows) for windows in timed)
        has_reached = all(each.taken >= pace.reach_step for each in runners) or spent_s > REACH_FACTOR * pace.measure_s
        if has_reached and _is_enough(spent_s, turn, quiet, pace):
            return _by_lane(steps)


def _by_lane(steps: Mapping[Player[HeatRunner], TurnSteps]) -> dict[str, TurnSteps]:
    return {each.runner.lane: found for each, found in steps.items()}


def _begin_steps(
    players: Sequence[Player[HeatRunner]], pace: Pace, kept: Mapping[str, TurnSteps], least: int
) -> dict[Player[HeatRunner], TurnSteps]:
    entrants = [entrant_of(each.runner) for each in players]
    if players and all(each.runner.lane in kept for each in players):
        steps = fit_steps([kept[each.runner.lane] for each in players], entrants)
    else:
        steps = choose_steps(entrants, pace.window_s, least)
    return dict(zip(players, steps, strict=True))


def _correct_steps(players: Sequence[Player[HeatRunner]], pace: Pace) -> dict[Player[HeatRunner], TurnSteps]:
    """Return the steps of the coming turns: the first turn shows better how long a step is."""
    steps = choose_steps([entrant_of(each.runner) for each in players], pace.window_s)
    # `order` counts turns from 0, and the next one is turn 1.
    return {each: found.shifted(-(found.untimed + found.steps)) for each, found in zip(players, steps, strict=True)}


def entrant_of(runner: HeatRunner) -> Entrant:
    """Return what is known of a heat's steps: the estimate that it made, or what its windows took."""
    needs = runner.needs or wire.TurnNeeds(1.0)
    if runner.windows:
        taken_ns = min((each.end_ns - each.start_ns) / each.steps for each in runner.windows)
        needs = msgspec.structs.replace(needs, step_ns=taken_ns)
    return Entrant(needs, runner.taken)


def _flag_slow_spells(runners: Sequence[HeatRunner]) -> None:
    """Flag the windows of all heats in which the machine was slow, where their times can be compared."""
    if len({each.child.node for each in runners}) == 1 and all(
        each.shares_our_clock and not each.is_bursty for each in runners
    ):
        for heat, number in find_slow_spells([each.windows for each in runners]):
            runners[heat].flag_window(number, SLOW_SPELL)


def play_parts(players: Sequence[Player[InferenceRunner]]) -> None:
    """Let heats of inference take turns, part by part: single calls, then each batch size.

    A lane that needs fewer turns for a part waits until the others have done theirs.
    """
    turn = 0
    while playing := [each for each in players if not each.is_over]:
        part = min(each.runner.part for each in playing)
        _play_one([each for each in playing if each.runner.part == part], turn)
        turn += 1


def _play_one(
    players: Sequence[Player[AnyRunner]], turn: int, orders: Mapping[Player[Any], wire.TakeTurn] | None = None
) -> None:
    """Let each play one turn, every other time in reverse order."""
    for player in players if turn % 2 == 0 else players[::-1]:
        player.play(turn, orders[player] if orders else ANY_STEPS)


def _is_enough(spent_s: float, turns: int, quiet: int, pace: Pace) -> bool:
    repeated = turns - quiet
    if spent_s >= PATIENCE_FACTOR * pace.measure_s:
        return turns >= TURNS_LEAST
    counted_s = spent_s * (turns - min(repeated, pace.reruns_max)) / turns
    return counted_s >= ENOUGH * pace.measure_s and turns - min(repeated, pace.reruns_max) >= pace.windows_min
