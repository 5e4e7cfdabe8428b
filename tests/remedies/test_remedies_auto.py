"""`laptime.auto`: real loaders of PyTorch whose workers change while they are used, and the batches that come."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    get_worker_info,
)

import laptime
from laptime.model.errors import UsageError
from laptime.model.quantities import Missing
from laptime.remedies.auto import MemoryRoom
from laptime.remedies.auto_changes import fingerprint
from laptime.remedies.auto_search import LoaderSetting
from long_cases import cases

pytestmark = pytest.mark.framework


@pytest.fixture(autouse=True)
def all_cores():
    """A test that runs next to others has one core, and PyTorch warns of more workers."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    yield
    os.sched_setaffinity(0, before)


class Slow(Dataset):
    """Items that have to be waited for, as those of a storage."""

    def __init__(self, items=1001, item_s=0.0015):
        self.items, self.item_s, self.lap = items, item_s, 0

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        time.sleep(self.item_s)
        return index + 10_000 * self.lap


def batches_of(loader, laps=2, before_lap=lambda _: None):
    torch.manual_seed(5)
    found = []
    for lap in range(laps):
        before_lap(lap)
        found += [[batch.tolist() for batch in loader]]
    return found


@pytest.fixture(autouse=True)
def no_worker_is_left():
    """What a test began ends with it."""
    yield
    gc.collect()
    assert multiprocessing.active_children() == []


WAYS = {
    "shuffled, with a short last batch": {"batch_size": 4, "shuffle": True},
    "without the short batch": {"batch_size": 4, "shuffle": True, "drop_last": True},
    "two workers that stay": {"batch_size": 4, "shuffle": True, "num_workers": 2, "persistent_workers": True},
    "workers that end, and a generator": {"batch_size": 4, "shuffle": True, "num_workers": 1, "prefetch_factor": 3},
    "a sampler of batches": {"batch_sampler": lambda data: BatchSampler(RandomSampler(data), 5, drop_last=False)},
    "items, not batches": {"batch_size": None, "collate_fn": torch.tensor},
}


def loader_of(dataset, way):
    words = {name: value(dataset) if name == "batch_sampler" else value for name, value in WAYS[way].items()}
    if "generator" in way:
        words["generator"] = torch.Generator().manual_seed(11)
    return DataLoader(dataset, **words)


@pytest.mark.parametrize("way", cases(*list(WAYS)[:1], long=list(WAYS)[1:]))
def test_the_batches_are_those_of_the_given_loader(way):
    """In the same order and from the same seed, in each lap, while other settings are tried."""
    loader = laptime.auto(loader_of(Slow(), way))
    found = batches_of(loader)
    assert found == batches_of(loader_of(Slow(item_s=0), way))
    assert found[0] != found[1] or "items" in way
    assert len(loader.chosen.tried) >= 2


def test_it_finds_workers_and_they_stay():
    """As many processes as were chosen load the later laps; they end with the loader."""
    loader = laptime.auto(DataLoader(Slow(1200), batch_size=4, shuffle=True))
    assert isinstance(loader.chosen, Missing)
    batches_of(loader, laps=1)
    chosen = loader.chosen
    assert chosen.workers >= 2
    assert chosen.gain.low > 1
    assert chosen.cost_s > 0
    assert (0, None) in {(each.workers, each.prefetch_factor) for each in chosen.tried}
    assert f"num_workers={chosen.workers}" in str(chosen)
    before = {each.pid for each in multiprocessing.active_children()}
    assert len(before) == chosen.workers
    batches_of(loader, laps=2)
    assert {each.pid for each in multiprocessing.active_children()} == before
    assert loader.chosen == chosen


def test_a_training_that_does_not_wait_starts_no_process():
    """Its loader stays as it was given. Steps are long: a search ends where 1 % is waiting, and others compute, too."""
    loader = laptime.auto(DataLoader(torch.arange(16), batch_size=2))
    before, started = set(multiprocessing.active_children()), set()  # workers of the test before may still end
    for _ in loader:
        time.sleep(0.3)
        started |= set(multiprocessing.active_children())
    assert (loader.chosen.workers, started - before) == (0, set())
    assert loader.chosen.gain == Missing("the given settings stayed")
    assert len(loader.chosen.tried) == 1


def test_it_can_be_used_in_place_of_the_loader():
    """It is of its class, which may be one of the user's own, and has its attributes and its length."""

    class Shown(DataLoader):
        def __iter__(self):
            for batch in super().__iter__():
                yield "shown", batch

    given = Shown(Slow(10, 0), batch_size=3, shuffle=True)
    loader = laptime.auto(given)
    assert isinstance(loader, Shown)
    assert (len(loader), loader.batch_size, loader.dataset, loader.sampler) == (4, 3, given.dataset, given.sampler)
    assert [word for word, _ in loader] == ["shown"] * 4
    remade = type(loader)(Slow(10, 0), batch_size=5)  # as Lightning does it, with a sampler of its own
    assert [word for word, _ in remade] == ["shown"] * 2
    assert "too short" in remade.chosen.gain.missing
    again = laptime.auto(loader, patience="2m")
    assert isinstance(again, Shown)
    assert [word for word, _ in again] == ["shown"] * 4


@pytest.mark.long
def test_a_lap_may_be_left_early():
    """What was loaded of it is dropped, and the next lap is whole; the search goes on until it has ended."""
    torch.manual_seed(5)
    plain, loader = (DataLoader(Slow(400), batch_size=4, shuffle=True) for _ in range(2))
    loader = laptime.auto(loader)
    expected = batches_of(plain)
    torch.manual_seed(5)
    for number, batch in enumerate(loader):
        assert batch.tolist() == expected[0][number]
        if number == 60:
            break
    assert isinstance(loader.chosen, Missing)
    assert [batch.tolist() for batch in loader] == expected[1]
    assert not isinstance(loader.chosen, Missing)


def test_a_lap_ends_with_its_last_batch():
    """Lightning does not ask whether there is one more."""
    loader = laptime.auto(DataLoader(Slow(401), batch_size=4))
    batches = iter(loader)
    assert [next(batches)[0].item() for _ in range(len(loader))] == list(range(0, 401, 4))
    assert loader.chosen.tried
    assert [batch[0].item() for batch in loader] == list(range(0, 401, 4))
    assert len(multiprocessing.active_children()) == loader.chosen.workers


def test_two_iterators_at_once_deliver_all_their_batches():
    """The older one goes on alone."""
    loader = laptime.auto(DataLoader(Slow(120), batch_size=4, num_workers=2))
    expected = [batch.tolist() for batch in DataLoader(Slow(120, 0), batch_size=4)]
    older = iter(loader)
    begun = [next(older).tolist() for _ in range(5)]
    assert [batch.tolist() for batch in loader] == expected
    assert begun + [batch.tolist() for batch in older] == expected


class Failing(Slow):
    """A dataset that fails for one item, or in all processes but the first."""

    def __init__(self, at=None):
        super().__init__(600)
        self.at, self.first = at, os.getpid()

    def __getitem__(self, index):
        if index == self.at or (self.at is None and os.getpid() != self.first):
            raise LookupError(f"item {index} cannot be read")
        return super().__getitem__(index)


@pytest.mark.parametrize(("at", "count"), cases((2, 0), (401, 2), long=[(401, 0), (2, 2)]))
def test_an_error_of_the_dataset_is_the_users(at, count):
    """It comes with its batch, which may be skipped."""
    loader = laptime.auto(DataLoader(Failing(at), batch_size=4, num_workers=count))
    batches = iter(loader)
    found = []
    with pytest.raises(LookupError, match=f"item {at} cannot be read"):
        found.extend(batch[0].item() for batch in batches)
    assert found == list(range(0, at - at % 4, 4))
    assert next(batches)[0].item() == at - at % 4 + 4
    loader._laptime_tuning._end_sources()  # the error holds its frames in a cycle, and a collected worker takes 5 s


def test_a_dataset_that_one_process_alone_can_read_stays_there():
    """All batches come, in order."""
    loader = laptime.auto(DataLoader(Failing(), batch_size=4))
    assert [batch[0].item() for batch in loader] == list(range(0, 600, 4))
    assert loader.chosen.workers == 0
    assert [each.workers for each in loader.chosen.tried] == [0]


class Crowded(Slow):
    """A dataset that cannot be read by more than two workers."""

    def __getitem__(self, index):
        known = get_worker_info()
        if known is not None and known.num_workers > 2:
            raise LookupError("there are too many readers")
        return super().__getitem__(index)


def test_no_batch_is_lost_where_a_setting_fails_while_the_one_before_delivers():
    """The given setting goes on, though some of its batches were still to come."""
    loader = laptime.auto(DataLoader(Crowded(801), batch_size=4, num_workers=2))
    assert [batch[0].item() for batch in loader] == list(range(0, 801, 4))
    assert max(each.workers for each in loader.chosen.tried) == 2


@pytest.mark.parametrize("patience", cases(0.35, long=[0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6]))
def test_no_batch_is_lost_where_patience_ends(patience):
    """In the middle of a turn, or just after a change."""
    loader = laptime.auto(DataLoader(Slow(601), batch_size=4, num_workers=2, prefetch_factor=8), patience=patience)
    for _ in range(2):
        assert [batch[0].item() for batch in loader] == list(range(0, 601, 4))


def test_an_error_of_the_sampler_is_the_users():
    """No batch is left out of it in silence."""

    def sampler():
        yield from ([number] for number in range(100))
        raise LookupError("no more rows")

    loader = laptime.auto(DataLoader(Slow(), batch_sampler=sampler()))
    with pytest.raises(LookupError, match="no more rows"):
        list(loader)


class Scaled(Slow):
    """A dataset whose items depend on what the training changes in place."""

    def __init__(self, items):
        super().__init__(items, item_s=0.003)
        self.settings = {"scale": {"now": 0}}

    def __getitem__(self, index):
        super().__getitem__(index)
        return self.settings["scale"]["now"]


def test_workers_see_what_was_changed_in_place_between_laps():
    """As new workers of each lap would; the setting stays."""
    dataset = Scaled(401)

    def set_scale(lap):
        dataset.settings["scale"]["now"] = lap

    loader = laptime.auto(DataLoader(dataset, batch_size=4))
    found = batches_of(loader, laps=3, before_lap=set_scale)
    assert [{item for batch in lap for item in batch} for lap in found] == [{0}, {1}, {2}]
    assert loader.chosen.workers >= 1


@pytest.mark.parametrize("from_lap", cases(1, long=[0]))
def test_a_dataset_that_is_changed_within_a_lap_is_loaded_as_given(from_lap):
    """With a warning: without workers each item has what was set last, and workers would have what they began with."""
    dataset = Scaled(401)
    loader = laptime.auto(DataLoader(dataset, batch_size=4))

    def train(lap):
        for number, batch in enumerate(loader):
            yield dataset.settings["scale"]["now"], batch[-1].item()
            dataset.settings["scale"]["now"] += number if lap >= from_lap else 0

    with pytest.warns(UserWarning, match="laptime.auto loads as the DataLoader was given: the training changes its"):
        laps = [list(train(lap)) for lap in range(from_lap + 2)]
    assert all(was == came for was, came in laps[-1])
    assert "changes its dataset within an epoch" in loader.chosen.missing
    assert multiprocessing.active_children() == []


GLOBAL = {"rate": 1}


def collate_by_global(items):
    return torch.tensor(items) * GLOBAL["rate"]


class Held(Dataset):
    """A dataset that holds something of each kind."""

    rate = 1

    def __init__(self):
        self.lists, self.inner, self.random = [[1], [2]], Slow(), np.random.default_rng(3)
        self.array, self.large, self.tensor = np.ones(3), np.ones(10_000), torch.ones(10_000)
        self.shared, self.paths = torch.ones(3).share_memory_(), [f"{number}.jpg" for number in range(100_000)]
        closed = [1]
        self.closed, self.transform = closed, lambda item: item * closed[0]

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return index


CHANGES = {
    "an item of a list in a list": lambda held: held.lists[1].append(3),
    "an attribute of what it wraps": lambda held: setattr(held.inner, "lap", 7),
    "a small array in place": lambda held: held.array.fill(2),
    "a large array in place": lambda held: held.large.__imul__(2),
    "a tensor in place": lambda held: held.tensor[5000].mul_(2),
    "another array": lambda held: setattr(held, "large", np.ones(10_000)),
    "what a lambda closes over": lambda held: held.closed.append(held.closed.pop(0) + 1),
    "its class": lambda _: setattr(Held, "rate", Held.rate + 1),
    "a global of the collate function": lambda _: GLOBAL.update(rate=GLOBAL["rate"] + 1),
    "the length of a long list": lambda held: held.paths.append("one.jpg"),
}
NO_CHANGES = {
    "nothing": lambda _: None,
    "a random generator": lambda held: held.random.random(),
    "shared memory, which workers see": lambda held: held.shared.add_(1),
    "an equal value": lambda held: setattr(held.inner, "lap", 0),
}


@pytest.mark.parametrize("what", [*CHANGES, *NO_CHANGES])
def test_what_is_seen_to_change(what):
    held = Held()
    loader = DataLoader(held, batch_size=3, collate_fn=collate_by_global)
    before = fingerprint(loader)
    assert fingerprint(loader) == before
    (CHANGES | NO_CHANGES)[what](held)
    assert (fingerprint(loader) != before) is (what in CHANGES)


@pytest.mark.long
def test_workers_see_an_attribute_that_was_set_between_laps():
    """As new workers of each lap would."""
    dataset = Slow(601)

    def set_lap(lap):
        dataset.lap = lap

    found = batches_of(laptime.auto(DataLoader(dataset, batch_size=4, num_workers=1)), before_lap=set_lap)
    assert [lap[0][0] for lap in found] == [0, 10_000]
    assert [lap[-1][-1] for lap in found] == [600, 10_600]


@pytest.mark.long
def test_a_distributed_sampler_is_respected():
    """Each rank has its part, in the order of the lap that the sampler was set to."""
    found = []
    for wrap in (laptime.auto, lambda loader: loader):
        dataset = Slow(601)
        sampler = DistributedSampler(dataset, num_replicas=2, rank=1, seed=3)
        loader = wrap(DataLoader(dataset, batch_size=4, sampler=sampler))
        found.append(batches_of(loader, before_lap=sampler.set_epoch))
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


def test_a_cached_dataset_is_decoded_once():
    """By all settings together."""
    dataset = laptime.cached(Slow(400), "10 MB")
    loader = laptime.auto(DataLoader(dataset, batch_size=4))
    assert batches_of(loader, laps=2) == 2 * [[list(range(first, first + 4)) for first in range(0, 400, 4)]]
    assert dataset.kept.items == dataset.kept.misses == 400


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(9))


class OwnWay(DataLoader):
    def _get_iterator(self):
        return iter([1, 2])


@pytest.mark.parametrize(
    ("loader", "expected", "why"),
    [
        (DataLoader(Stream(), batch_size=3), 3, "IterableDataset"),
        (OwnWay(Slow()), 2, "OwnWay loads in a way of its own"),
    ],
)
def test_what_cannot_be_changed_is_used_as_it_is(loader, expected, why):
    """With the reason."""
    loader = laptime.auto(loader)
    assert len(list(loader)) == expected
    assert why in loader.chosen.missing


@pytest.mark.long
def test_patience_in_seconds_goes_on_over_laps():
    """A lap of eight batches is too short; with more patience later ones are measured, too."""
    short, patient = (laptime.auto(DataLoader(Slow(32), batch_size=4), **each) for each in ({}, {"patience": "1m"}))
    for loader in (short, patient):
        batches_of(loader, laps=60)
    assert "too short" in short.chosen.gain.missing
    assert short.chosen.workers == 0
    assert len(vars(patient)["_laptime_tuning"]._search.turns) >= 2
    ended = laptime.auto(DataLoader(Slow(), batch_size=4), patience=0.2)
    batches_of(ended, laps=1)
    assert len(ended.chosen.tried) < len(patient._laptime_tuning._search.turns) + 3


@pytest.mark.parametrize(
    ("loader", "patience", "says"),
    [
        ([1, 2], "first lap", "cannot set the workers of this: list"),
        (DataLoader(Slow()), "soon", "patience='soon': that is no length of time"),
        (DataLoader(Slow()), -1, "expected more than 0 seconds"),
    ],
)
def test_what_it_cannot_use_is_refused_in_words(loader, patience, says):
    """With what to do."""
    with pytest.raises(UsageError, match=says) as raised:
        laptime.auto(loader, patience=patience)
    assert raised.value.hint


def test_settings_that_do_not_fit_into_memory_are_left_out():
    """By the batches that workers prepare, and by what the workers take."""
    memory = MemoryRoom()
    assert memory.holds(LoaderSetting(1, 2))
    assert not memory.holds(LoaderSetting(100_000, 2))
    memory.batch_bytes = 1 << 50
    assert not memory.holds(LoaderSetting(1, 2))
    assert memory.holds(LoaderSetting(0, 0))
