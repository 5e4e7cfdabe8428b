"""What a question takes at least, said before it begins: where its budget is too short, or --heats does not heed it."""

from __future__ import annotations

from math import ceil

from laptime.model.plan import Pace
from laptime.model.quantities import brief
from laptime.planner.groups import OVERRUN
from laptime.questions.job import Job

# Times what passed until a question was planned: so long it takes at least until its first heat, then until each heat
# is timed. What heats are forked from has imported their framework by then.
SET_UP, SET_UP_FORKED = 2.0, 1.0
STARTS, STARTS_FORKED = 1.0, 0.15
UNEXPECTED = 1.5  # times what was said: then it is said again, once a round has shown how long it takes


class LeastTime:
    """Warns of the time that a question takes whatever its budget is, before much is done and after the first round.

    To scout, a process started, imported a framework and built its devices. A heat does the same, or is forked from
    such a process, and then builds and is proven for a part of that time.
    """

    def __init__(self, job: Job, pace: Pace, lanes: int, *, heats: int | None = None) -> None:
        """Each round has a heat of this many lanes; `heats` is how many rounds --heats asks for."""
        self._job, self._lanes, self._heats = job, lanes, heats
        forks = all(lane.may_fork for lane in job.plan.lanes)
        starts, set_up = (STARTS_FORKED, SET_UP_FORKED) if forks else (STARTS, SET_UP)
        self._start_s = set_up * job.elapsed_s
        self._round_s = lanes * (starts * job.elapsed_s + pace.measure_s)
        self._most_s = (1 + OVERRUN) * job.plan.ask.budget_s
        self._least_s = self._start_s + (heats or 1) * self._round_s

    def warn(self, rounds: int, aim: str) -> None:
        """Say how long it takes where that is surely more than the budget; `aim` is what the rounds are needed for."""
        if self._job.launcher.is_elsewhere:
            return  # the time so far was spent waiting for a place, which says nothing of what comes
        if self._heats is not None:
            if self._least_s > self._most_s:
                self._job.notify(f"{self._of_heats()} at least about {ceil(self._least_s)} s, whatever --budget says.")
            return
        if self._start_s + rounds * self._round_s > self._most_s:
            budget_s, enough_s = self._job.plan.ask.budget_s, self._start_s + 2 * rounds * self._round_s
            self._job.notify(
                f"warning: --budget {brief(budget_s)}s is too short {aim} (start-up {ceil(self._start_s)} s + {rounds} "
                f"rounds of {ceil(self._round_s)} s). This takes at least about {ceil(self._least_s)} s. "
                f"Use --budget {ceil(enough_s)}s."
            )

    def warn_again(self, next_round_s: float) -> None:
        """Say it again after the first round of --heats, where that took longer than could be expected."""
        rest = (self._heats or 1) - 1
        takes_s = self._job.elapsed_s + rest * next_round_s
        if rest and takes_s > max(self._most_s, UNEXPECTED * self._least_s):
            self._job.notify(f"{self._of_heats()} about {ceil(takes_s)} s.")

    def _of_heats(self) -> str:
        return f"warning: --heats {self._heats} of {self._lanes} lane{'s' * (self._lanes != 1)} takes"
