"""How many test items are looked at, and what of that is counted how, on a clock that moves only when told to."""

from __future__ import annotations

import pytest

from laptime.engine.backends.fake import FakeClock
from laptime.engine.heat.work import time_evaluation
from laptime.model.protocol import Score
from laptime.model.quantities import Missing
from laptime.model.sample import Examination

COLD_MS = 70.0
READ_MS = 0.5


class Looker:
    """Takes its time for each item, and more for its first look; writes down how many it looked at."""

    def __init__(self, clock: FakeClock, item_ms: float) -> None:
        self._pass_ms, self._item_ms = clock.pass_ms, item_ms
        self.looked_at: list[int] = []

    def fence(self) -> None:
        """Nothing runs on."""

    def read(self, items: int) -> None:
        self._pass_ms(items * READ_MS)

    def score(self, items: int) -> Score:
        self._pass_ms(items * self._item_ms + (0 if self.looked_at else COLD_MS))
        self.looked_at.append(items)
        return Score(items, 0.0, Missing("nobody counts here"))


def look(item_ms, batch, most):
    clock = FakeClock()
    looker = Looker(clock, item_ms)
    return looker, time_evaluation(clock, looker, looker, batch, most)


@pytest.mark.parametrize(
    ("looked_at", "item_ms", "batch", "most"),
    [
        ([32, 32, 500], 1.0, 32, 10_000),  # half a second's worth
        ([32, 32, 200], 1.0, 32, 200),  # all there are
        ([64, 64], 20.0, 64, 1_000),  # one batch is long enough
        ([10, 10], 1.0, 32, 10),  # fewer than a batch
        ([1, 1], 0.0, 1, 1),
    ],
)
def test_as_many_items_are_looked_at_as_tell_the_pace(looked_at, item_ms, batch, most):
    looker, found = look(item_ms, batch, most)
    assert looker.looked_at == looked_at
    assert found.items == looked_at[-1]


def test_what_happens_once_stands_apart_from_what_happens_for_each_item():
    _, found = look(1.0, 32, 10_000)
    assert found == Examination(500, 500_000_000, 70_000_000, 250_000_000)
