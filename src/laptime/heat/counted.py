"""A training that counts its steps, so that each window knows which ones it holds."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.backends.base import Evaluator, Runner, StepParts
from laptime.model.missing import Missing
from laptime.model.ranks import RankTimes
from laptime.model.symptoms import DenormalCensus


class CountedRunner:
    """Counts the steps that are taken through it. All else is left to the runner."""

    def __init__(self, runner: Runner, taken: int = 0) -> None:
        self._runner, self.taken = runner, taken
        self.stride, self.ready_batches, self.holds = runner.stride, runner.ready_batches, runner.holds
        self.fence, self.step_ns, self.loss, self.repeat = runner.fence, runner.step_ns, runner.loss, runner.repeat

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

    def run(self, steps: int) -> None:
        self.taken += steps
        self._runner.run(steps)

    def run_marked(self, steps: int) -> Sequence[object]:
        self.taken += steps
        return self._runner.run_marked(steps)

    def parts(self) -> StepParts | Missing:
        return self._runner.parts()

    def census(self) -> DenormalCensus | Missing:
        self.taken += 1
        return self._runner.census()

    def close(self) -> tuple[str, ...]:
        return self._runner.close()
