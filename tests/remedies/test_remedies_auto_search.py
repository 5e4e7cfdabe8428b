"""The search of `laptime.auto`, on machines that are calculated: what a batch takes is known for each setting."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from laptime.remedies.auto_search import CONFIRM_ROUNDS_MOST, LoaderSearch, LoaderSetting, LoaderTurn
from long_cases import cases

WITHIN = 1.05  # of the best of the grid
RUNS = 60


@dataclass(frozen=True)
class Machine:
    """A training: seconds that a batch takes to load and to compute, and what a worker takes away from both."""

    load_s: float
    compute_s: float
    cores: int = 2
    is_waiting: bool = False  # loading waits for storage, so workers need no core
    handover_s: float = 0.0  # what a batch takes on its way from a worker
    bursts: bool = False

    def batch_s(self, setting: LoaderSetting) -> float:
        if not setting.workers:
            return self.load_s + self.compute_s
        workers = setting.workers if self.is_waiting else min(setting.workers, self.cores)
        loads_s = self.load_s / workers * (1.15 if self.bursts and setting.prefetch < 8 else 1)
        busy = 0 if self.is_waiting else 0.05 * setting.workers
        return max(self.compute_s * (1 + busy), loads_s) + self.handover_s

    def grid(self) -> list[LoaderSetting]:
        counts = range(1, 2 * self.cores + 1)
        return [LoaderSetting(0, 0), *(LoaderSetting(count, ahead) for count in counts for ahead in (2, 4, 8))]


MACHINES = {
    "the processor loads, far too slowly": Machine(0.2, 0.01),
    "the processor loads as fast as it trains": Machine(0.05, 0.05),
    "storage": Machine(0.03, 0.01, is_waiting=True),
    "storage that is far away, on sixteen cores": Machine(0.3, 0.012, cores=16, is_waiting=True),
    "sixteen cores decode": Machine(0.1, 0.012, cores=16),
    "items in memory": Machine(0.0005, 0.0005, handover_s=0.002),
    "training takes the time": Machine(0.0001, 0.1),
    "bursts": Machine(0.04, 0.005, is_waiting=True, bursts=True),
}


def search_on(machine, given=LoaderSetting(0, 0), noise=0.01, seed=0, can_take=lambda _: True):  # noqa: B008  frozen
    """LoaderSearch to the end; return the search and how many turns it took."""
    rng = random.Random(seed)
    search, turns = LoaderSearch(given, machine.cores, can_take), 0
    while not search.is_over:
        batch_s = machine.batch_s(search.current)
        own_s = machine.compute_s + machine.handover_s * (search.current.workers == 0)
        stretches = tuple(batch_s * rng.lognormvariate(0, noise) for _ in range(4))
        search.take(LoaderTurn(search.current, stretches, max(0.0, 1 - own_s / batch_s)))
        turns += 1
    return search, turns


def slower_than_best(machine, setting):
    return machine.batch_s(setting) / min(map(machine.batch_s, machine.grid()))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("given", cases(LoaderSetting(0, 0), long=[LoaderSetting(1, 2), LoaderSetting(4, 2)]), ids=str)
def test_it_comes_near_the_best_of_the_grid(name, given):
    """In nine of ten searches, with turns that are off by a few percent, and in few turns."""
    found = [search_on(MACHINES[name], given, noise=0.03, seed=seed) for seed in range(RUNS)]
    near = [slower_than_best(MACHINES[name], search.current) <= WITHIN for search, _ in found]
    assert sum(near) >= 0.9 * RUNS
    assert max(turns for _, turns in found) <= 8 + 3 * CONFIRM_ROUNDS_MOST


def test_a_training_that_does_not_wait_is_left_as_it_is():
    """One turn shows it."""
    search, turns = search_on(MACHINES["training takes the time"])
    assert (search.current, turns, search.gain()) == (LoaderSetting(0, 0), 1, None)


def test_of_equally_fast_settings_the_one_with_the_fewest_workers_is_taken():
    """Two workers hide all loading; the given eight do so, too."""
    machine = Machine(0.02, 0.015, cores=8, is_waiting=True)
    assert search_on(machine, LoaderSetting(8, 4))[0].current == LoaderSetting(2, 4)


def test_the_gain_is_that_of_the_machine():
    """Its interval holds the factor that was calculated."""
    machine = MACHINES["storage"]
    search, _ = search_on(machine)
    expected = machine.batch_s(LoaderSetting(0, 0)) / machine.batch_s(search.current)
    gain = search.gain()
    assert gain.low < expected < gain.high < 1.1 * gain.low


def test_a_setting_without_memory_is_not_tried():
    """Nor one that failed, of which nothing is kept."""
    machine = MACHINES["storage"]
    search, _ = search_on(machine, can_take=lambda setting: setting.workers <= 2)
    assert max(search.turns).workers == search.current.workers == 2
    search = LoaderSearch(LoaderSetting(0, 0), 2, lambda _: True)
    search.take(LoaderTurn(LoaderSetting(0, 0), (0.04,) * 4, 0.75))
    assert search.current == LoaderSetting(2, 2)
    search.fail()
    while not search.is_over:
        search.fail()
    assert (search.current, list(search.turns)) == (LoaderSetting(0, 0), [LoaderSetting(0, 0)])


def test_a_training_that_was_stopped_in_its_first_turn_seemed_to_compute_for_long_and_gets_its_workers():
    """Other processes took its core. One worker is then as slow as none, and the search ended with that."""
    search = LoaderSearch(LoaderSetting(0, 0), 2, lambda _: True)
    search.take(LoaderTurn(LoaderSetting(0, 0), (0.03,) * 4, 0.5))
    assert search.current == LoaderSetting(1, 2)
    search.take(LoaderTurn(LoaderSetting(1, 2), (0.0302,) * 4, 0.95))
    assert search.current == LoaderSetting(2, 2)


def test_a_search_that_is_ended_early_chooses_from_what_it_knows():
    """Before the first turn that is the given setting."""
    search = LoaderSearch(LoaderSetting(1, 2), 2, lambda _: True)
    search.end()
    assert search.current == LoaderSetting(1, 2)
    search = LoaderSearch(LoaderSetting(0, 0), 2, lambda _: True)
    search.take(LoaderTurn(LoaderSetting(0, 0), (0.04,) * 4, 0.75))
    search.take(LoaderTurn(LoaderSetting(2, 2), (0.02,) * 4, 0.5))
    search.end()
    assert search.current == LoaderSetting(2, 2)
