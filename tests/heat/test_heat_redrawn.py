"""Whether an item of a user's data set differs when it is fetched again: then to keep items changes the learning."""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from laptime.engine.heat.work import LOOKED_ITEMS, LOOKED_TIMES, NO_ITEMS, find_redrawn
from laptime.model.quantities import Missing


@dataclass
class Items:
    """Twenty items, each made by a function of its number."""

    make: Any
    fetched: list = field(default_factory=list)

    def __len__(self):
        return 20

    def __getitem__(self, number):
        self.fetched.append(number)
        return self.make(number)


CHANCE = random.Random(5)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda number: (np.full((3, 8, 8), number), number % 3), False),
        (lambda number: {"image": np.full(8, np.nan), "name": "a", "box": [1.0, 2]}, False),
        (lambda number: (np.full(8, number), CHANCE.random() < 0.5), True),
        (lambda number: {"image": np.arange(8)[:: CHANCE.choice((1, -1))].copy()}, True),
    ],
)
def test_an_item_is_compared_by_its_numbers_and_words(make, told):
    items = Items(make)
    assert find_redrawn(SimpleNamespace(dataset=items), time.perf_counter_ns) is told
    if not told:
        assert items.fetched == [number for number in range(LOOKED_ITEMS) for _ in range(LOOKED_TIMES)]


def test_slow_items_are_fetched_for_a_second_and_twice_at_least():
    items, clock = Items(lambda number: number), itertools.count(0, 2_000_000_000)
    assert find_redrawn(items, clock.__next__) is False
    assert items.fetched == [0, 0]


@pytest.mark.parametrize("held", [[1, 2], (np.zeros(3), np.zeros(3)), np.zeros((4, 4))])
def test_what_holds_its_items_is_not_fetched(held):
    def clock():
        pytest.fail("it was fetched")

    assert find_redrawn(held, clock) is False


def test_what_cannot_be_fetched_again_says_why():
    assert find_redrawn(iter([1, 2]), time.perf_counter_ns) == NO_ITEMS
    told = find_redrawn(Items(lambda number: 1 // number), time.perf_counter_ns)
    assert isinstance(told, Missing)
    assert told.missing.startswith("fetching an item a second time ended in ZeroDivisionError")
