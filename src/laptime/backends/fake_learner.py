"""A fake whole training: its curve follows from the number of its steps alone, so every figure can be foretold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.backends.fake_script import FakeClock, Script, fail_if_told, is_this_heat
from laptime.backends.stepwise import Stepwise
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.protocol import Predictions, Score
from laptime.workloads import find_workload

HALF_LIFE_STEPS = 500.0
FIRST_LOSS = 2.3


class FakeLearner(Stepwise):
    """What is wrong halves every 500 steps; a seed lowers every accuracy by a thousandth of itself."""

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, items_per_step: int) -> None:
        self._script, self._order, self._clock, self._items_per_step = script, order, clock, items_per_step
        self._steps = self._since = self._taken = 0
        self._lap = 0
        self.examiner = FakeExaminer(script, order, clock, self._evaluate)

    def begin(self, steps_done: int, state: Any | None) -> None:
        fail_if_told(self._script, self._order, "set up")
        self._steps = steps_done
        if state is not None:
            self._lap, found = (int(each) for each in state["lap and steps"])
            if found != steps_done:
                raise LaneError(f"the state is of step {found}, expected {steps_done}")

    def step(self) -> None:
        self._taken += 1
        self._steps += 1
        if self._steps - self._since == 2:
            fail_if_told(self._script, self._order, f"lap {self._lap}")
        self._clock.pass_ms(self._script.first_ms if self._taken == 1 else self._script.step_ms)

    def fence(self) -> None:
        """Nothing runs on: the virtual clock has already moved."""

    def open_account(self) -> None:
        self._since = self._steps
        self._lap += 1

    def score(self) -> Score:
        """Give the figures of the step in the middle of the account."""
        middle = (self._since + self._steps) / 2
        score = self._score_at(middle, (self._steps - self._since) * self._items_per_step)
        lost = self._script.fail.get("how") == "nan" and is_this_heat(self._script, self._order)
        if lost and self._script.fail.get("phase") == f"lap {self._lap}":
            return Score(score.items, Missing("the loss became nan"), score.accuracy)
        return score

    def state(self) -> Any:
        fail_if_told(self._script, self._order, f"checkpoint {self._lap}")
        import numpy as np

        return {"lap and steps": np.array([self._lap, self._steps], np.int64)}

    def close(self) -> tuple[str, ...]:
        """Nothing is held."""
        return ()

    def _evaluate(self, items: int) -> Score:
        fail_if_told(self._script, self._order, f"evaluation {self._lap}")
        return self._score_at(self._steps, items)

    def _score_at(self, step: float, items: int) -> Score:
        wrong = 0.5 ** (step / HALF_LIFE_STEPS)
        accuracy = (1 - 0.9 * wrong) * (1 - self._order.seed / 1_000) + self._script.skill
        return Score(items, FIRST_LOSS * wrong, accuracy)


class FakeExaminer:
    """Looks at the test items; `score` says what there is to be seen, and the clock how long it took."""

    def __init__(self, script: Script, order: HeatOrder, clock: FakeClock, score: Callable[[int], Score]) -> None:
        self._script, self._clock, self._score = script, clock, score
        self._workload = find_workload(order.subject.name)

    def read(self, items: int) -> None:
        """Nothing is read: there are no items."""

    def score(self, items: int) -> Score:
        counted = min(items, self._workload.test_items)
        made = self._score(counted)
        self._clock.pass_ms(self._script.evaluate_ms * counted / self._workload.test_items)
        return made

    def predict(self, items: int) -> Predictions:
        classes = self._workload.outputs[-1]
        truth = tuple((number % classes,) for number in range(items))
        return Predictions(tuple(((number * 2) % classes,) for number in range(items)), truth)
