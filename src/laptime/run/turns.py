"""Run the heats of several lanes alive at once, in turns: A B, B A, A B. Only one of them is not paused at any time.

A machine drifts by tens of per cent within a minute. Turns of 0.3 s meet the same state of it, so the
drift cancels in their ratio. Each heat still has its own fresh process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import psutil

from laptime import wire
from laptime.errors import WireError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, Pace
from laptime.model.process import Dnf
from laptime.model.sample import Heat
from laptime.run.heats import HeatRunner, Tell
from laptime.run.runner import Limits, Started
from laptime.run.sampler import Sampler

PATIENCE_FACTOR = 2  # where steps are so slow that few turns fit, a round may take this many times as long
TURNS_LEAST = 3


class TurnRunner(HeatRunner):
    """Runs one heat in turns. Between its turns the child and all that it started are paused."""

    def __init__(
        self, order: HeatOrder, limits: Limits, cores: int, tell: Tell, sampler: Sampler | None = None
    ) -> None:
        super().__init__(order, limits, cores, tell, sampler)
        self.device = order.lane.device
        self.device_memory_bytes: int | Missing = wire.NOT_TOLD
        self.active_s = 0.0
        self._dnf: Dnf | None = None
        self._paused_at_ns = 0

    def join(self, started: Started) -> None:
        """Bring the heat past its first step, to where its turns begin."""
        self.begin(started, wire.Run(self._order))
        self._hear_until_ready()

    def play(self, turn: int) -> None:
        """Run one window."""
        self.turn = turn
        if self._went_on():
            self._watch.reopen()
            self.child.say(wire.TakeTurn())
        self._hear_until_ready()

    def leave(self, round_number: int) -> Heat:
        """Do what comes after the windows, and end the child."""
        if not self.is_over:
            if self._went_on():
                self.child.say(wire.Enough())
            self.hear_on()
            self._finish()
        return self.heat(self._dnf, round_number)

    def answer_ready(self, ready: wire.Ready) -> None:
        """Do not answer: it plays when it is its turn."""
        self.device_memory_bytes = ready.device_memory_bytes

    @property
    def resident_bytes(self) -> int:
        """The memory that the heat holds now, with all that it started."""
        try:
            heat = psutil.Process(self.child.pid)
            return sum(each.memory_info().rss for each in (heat, *heat.children(recursive=True)))
        except psutil.Error:
            return 0

    @property
    def last_turn(self) -> tuple[int, bool]:
        """How long the latest window took, and whether it was undisturbed."""
        window = self._windows[-1]
        return window.end_ns - window.start_ns, window.flag is None

    def _hear_until_ready(self) -> None:
        """Hear the child until it is ready, then pause it. One that fails is ended at once: it must not disturb."""
        self.hear_on(wire.Ready)
        if self.is_over or not self._is_done(self.child.pause):
            self._finish()
            return
        self._paused_at_ns = time.monotonic_ns()
        if self.sampler is not None:
            self.sampler.pause()

    def _finish(self) -> None:
        self._dnf = self.finish()
        self.active_s = (time.monotonic_ns() - self.started_ns - self.paused_ns) / 1e9

    def _went_on(self) -> bool:
        self.paused_ns += time.monotonic_ns() - self._paused_at_ns
        if self.sampler is not None:
            self.sampler.go_on()
        return self._is_done(self.child.go_on)

    def _is_done(self, request: Callable[[], None]) -> bool:
        """Whether the guardian did what was requested. A heat that cannot be paused is over."""
        try:
            request()
        except WireError as error:
            self._broken = str(error)
        return self._broken is None


def play_turns(players: Sequence[TurnRunner], pace: Pace) -> None:
    """Let the heats take turns until each was timed for long enough. A turn in which one was disturbed is repeated.

    Only times decide how many turns there are, never a ratio.
    """
    spent_s, quiet, turn = 0.0, 0, 0
    while True:
        playing = [each for each in players if not each.is_over]
        for player in playing if turn % 2 == 0 else playing[::-1]:
            player.play(turn)
        turns = [each.last_turn for each in playing if not each.is_over]
        if not turns:
            return
        spent_s += sum(ns for ns, _ in turns) / len(turns) / 1e9
        quiet += all(is_quiet for _, is_quiet in turns)
        turn += 1
        if _is_enough(spent_s, turn, quiet, pace):
            return


def _is_enough(spent_s: float, turns: int, quiet: int, pace: Pace) -> bool:
    repeated = turns - quiet
    if spent_s >= PATIENCE_FACTOR * pace.measure_s:
        return turns >= TURNS_LEAST
    counted_s = spent_s * (turns - min(repeated, pace.reruns_max)) / turns
    return counted_s >= pace.measure_s and turns - min(repeated, pace.reruns_max) >= pace.windows_min
