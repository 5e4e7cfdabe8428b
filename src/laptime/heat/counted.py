"""A training that counts its steps, so that each window knows which ones it holds.

The steps before the first window are timed, too, as long as they are few. No figure is made of them; but a training may
become slow before its windows open, and then they are the only steps that show how fast it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from laptime.backends.base import Evaluator, Runner, StepParts
from laptime.model.missing import Missing
from laptime.model.ranks import RankTimes
from laptime.model.sample import LateStep, Updates
from laptime.model.symptoms import DenormalCensus

EARLY_MOST = 128  # steps before the first window that are timed one by one


class CountedRunner:
    """Counts the steps that are taken through it. All else is left to the runner."""

    def __init__(self, runner: Runner, taken: int = 0) -> None:
        self._runner, self.taken = runner, taken
        self._first: Updates | None = None  # what the first step changed, and its rate
        self._marks: Sequence[object] = ()
        self._is_early = taken == 0
        self.early_ns: tuple[int, ...] = ()
        self.stride, self.ready_batches, self.holds = runner.stride, runner.ready_batches, runner.holds
        self.step_ns, self.loss, self.repeat = runner.step_ns, runner.loss, runner.repeat

    @property
    def evaluator(self) -> Evaluator | None:
        return self._runner.evaluator

    @property
    def outside_ns(self) -> int:
        return self._runner.outside_ns

    @outside_ns.setter
    def outside_ns(self, ns: int) -> None:
        self._runner.outside_ns = ns

    @property
    def ranks(self) -> RankTimes | None:
        return self._runner.ranks

    def updates(self) -> Updates | None:
        return self._runner.updates()

    def take_late_step(self) -> LateStep | None:
        return self._runner.take_late_step()

    def compare_updates(self, before: Updates | None, steps: int) -> tuple[float | None, float | None]:
        """Return how often each of these last steps changed the weights, and the rate now, next to the first step."""
        now, first = self.updates(), self._first
        if now is None or before is None or first is None:
            return None, None
        updates = (now.count - before.count) / steps / first.count if first.count else None
        return updates, now.rate / first.rate if first.rate else None

    def run(self, steps: int) -> None:
        before = None if self.taken else self.updates()
        if self._is_early and self.taken + steps <= EARLY_MOST:
            self._marks = self._runner.run_marked(steps)
        else:
            self._is_early = False
            self._runner.run(steps)
        self.taken += steps
        if before is not None and (now := self.updates()) is not None:
            self._first = Updates((now.count - before.count) / steps, now.rate)

    def fence(self) -> None:
        self._runner.fence()
        if self._marks:
            self.early_ns += self._runner.step_ns(self._marks)
            self._marks = ()
            # Times that do not belong to one step each cannot be numbered.
            self._is_early = len(self.early_ns) == self.taken

    def run_marked(self, steps: int) -> Sequence[object]:
        self._is_early = False
        self.taken += steps
        return self._runner.run_marked(steps)

    def parts(self) -> StepParts | Missing:
        return self._runner.parts()

    def census(self) -> DenormalCensus | Missing:
        self.taken += 1
        return self._runner.census()

    def close(self) -> tuple[str, ...]:
        return self._runner.close()
