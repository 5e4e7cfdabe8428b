"""Each item is decoded once, whichever process asks for it; what does not fit is decoded as before."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from decoded_sets import Images, Ledger, Stream, read_all
from torch.utils.data import DataLoader, Dataset, Subset

import laptime
from laptime.model.errors import UsageError
from long_cases import cases

# From Python 3.12 on it warns of a fork next to threads, which loaders do too.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
ITEMS = 12


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def images(ledger):
    return Images(ledger, ITEMS)


def numbers_of(loader):
    """Return what one lap holds, in order of the numbers."""
    seen = []
    for pictures, rows, labels in loader:
        assert pictures.dtype == torch.float32
        assert rows.dtype == torch.int16
        assert (pictures[:, 2, 3, 4] == rows[:, 6]).all()
        assert (rows[:, 0] % 2 == labels).all()
        seen += pictures[:, 0, 0, 0].int().tolist()
    return sorted(seen)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than this test may use cores
@pytest.mark.parametrize(
    ("workers", "words"),
    [
        (0, {}),
        (2, {"multiprocessing_context": "fork"}),
        (2, {"multiprocessing_context": "fork", "persistent_workers": True}),
        pytest.param(1, {"multiprocessing_context": "spawn"}, marks=pytest.mark.long),
    ],
)
def test_a_loader_decodes_each_item_once(images, ledger, workers, words):
    """Shuffled, so that each worker meets in later laps what others decoded in the first."""
    dataset = laptime.cached(images, "1 MB")
    loader = DataLoader(dataset, batch_size=2, shuffle=True, num_workers=workers, **words)
    laps = [numbers_of(loader) for _ in range(3)]
    assert laps == [list(range(ITEMS))] * 3
    assert ledger.decoded() == list(range(ITEMS))
    assert len({pid for _, pid in ledger.read()}) == max(1, workers)
    kept = dataset.kept
    assert (kept.items, kept.of, kept.hits, kept.misses, kept.not_kept) == (ITEMS, ITEMS, 2 * ITEMS, ITEMS, 0)
    assert ITEMS * (240 + 14) < kept.used_bytes < kept.room_bytes <= 1_000_000


@pytest.mark.parametrize("way", cases("fork", long=["spawn", "forkserver"]))
def test_what_one_process_decoded_the_others_are_served(images, ledger, way):
    """The parent half of it, then a child the rest; the parent decodes nothing more."""
    dataset = laptime.cached(images, "1 MB")
    for index in range(ITEMS // 2):
        assert dataset[index][2] == index % 2
    context = multiprocessing.get_context(way)
    heard, said = context.Pipe()
    child = context.Process(target=read_all, args=(dataset, said))
    child.start()
    assert heard.poll(60)
    expected = [(float(index), torch.float32, index, index % 2) for index in range(ITEMS)]
    assert expected == heard.recv()
    child.join(60)
    assert [int(dataset[index][1][0]) for index in range(ITEMS)] == list(range(ITEMS))
    assert ledger.decoded() == list(range(ITEMS))
    assert dataset.kept.hits == ITEMS // 2 + ITEMS


def test_what_does_not_fit_is_decoded_in_every_lap(ledger):
    """As many each time: nothing is thrown out for what comes later."""
    one = (np.zeros(1000, np.uint8), 1)

    class Rows(Images):
        def __getitem__(self, index):
            self.ledger.write(index)
            return one

    room = 16 * 1024 + 64 + 64 + 5 * 1300  # head, table, and room for five
    dataset = laptime.cached(Rows(ledger, 8), room)
    decoded = []
    for _ in range(3):
        for index in range(len(dataset)):
            assert np.array_equal(dataset[index][0], one[0])
        decoded.append(len(ledger.read()))
    kept = dataset.kept.items
    assert 3 <= kept < 8
    assert decoded == [8, 8 + (8 - kept), 8 + 2 * (8 - kept)]
    assert dataset.kept.not_kept == 3 * (8 - kept)
    assert dataset.kept.used_bytes <= dataset.kept.room_bytes <= room


def test_a_changed_item_changes_nothing_that_is_kept(images):
    """Transforms in place, on the item that was decoded and on those that were served."""
    dataset = laptime.cached(images, "1 MB")
    for _ in range(3):
        picture, row, _ = dataset[4]
        assert (picture.mean(), row.mean()) == (4, 4)
        picture += 1
        row[:] = 0


def test_it_passes_for_the_dataset_that_it_wraps(images, ledger):
    """Class, length, attributes to read and to set, numbers from behind, slices, an end."""
    dataset = laptime.cached(images, "1 MB")
    assert isinstance(dataset, Images)
    assert isinstance(dataset, Dataset)
    assert (len(dataset), dataset.classes, bool(dataset)) == (ITEMS, ("cat", "dog"), True)
    dataset.classes = ("bird", "fish")
    assert images.classes == ("bird", "fish")
    del dataset.classes
    assert not hasattr(images, "classes")
    assert int(dataset[-1][1][0]) == int(dataset[np.int64(11)][1][0]) == int(dataset[torch.tensor(11)][1][0]) == 11
    assert ledger.decoded() == [11]
    assert [int(row[0]) for _, row, _ in dataset[2:4]] == [2, 3]
    assert len(Subset(dataset, [1, 2])[0]) == 3
    with pytest.raises(IndexError, match="no image 12"):
        dataset[ITEMS]
    with pytest.raises(AttributeError, match="no_such"):
        _ = dataset.no_such
    assert repr(dataset).startswith("laptime.cached(<decoded_sets.Images")
    assert len(list(dataset)) == ITEMS


def test_ways_around_the_cache_are_closed(ledger):
    """A loader asks for several items at once where a dataset offers it."""

    class AtOnce(Images):
        def __getitems__(self, indices):
            raise AssertionError("asked around the cache")

    loader = DataLoader(laptime.cached(AtOnce(ledger, 4), "1 MB"), batch_size=2)
    assert numbers_of(loader) == [0, 1, 2, 3]


def test_a_list_is_a_dataset_too():
    """A list of its items; it does not pass for a list, whose insides others read."""
    dataset = laptime.cached([(np.arange(3), "a"), (np.arange(4), "b")], "1 MB")
    assert not isinstance(dataset, list)
    assert [name for _, name in dataset] == [name for _, name in dataset] == ["a", "b"]
    assert dataset.kept.hits == 2


def test_what_raises_is_raised_and_not_kept(ledger):
    class Spoilt(Images):
        def __getitem__(self, index):
            self.ledger.write(index)
            raise OSError(f"image {index} is damaged")

    dataset = laptime.cached(Spoilt(ledger), "1 MB")
    for _ in range(2):
        with pytest.raises(OSError, match="image 3 is damaged"):
            dataset[3]
    assert ledger.decoded() == [3, 3]
    assert (dataset.kept.items, dataset.kept.not_kept) == (0, 0)


def test_what_cannot_be_pickled_is_served_as_it_is_and_counted():
    dataset = laptime.cached([lambda: 1, threading.Lock()], "1 MB")
    assert dataset[0]() == dataset[0]() == 1
    assert dataset[1].acquire(blocking=False)
    assert (dataset.kept.items, dataset.kept.not_kept, dataset.kept.misses) == (0, 3, 3)


def test_threads_store_side_by_side():
    """Each item comes back as it was, and each is counted."""
    dataset = laptime.cached([np.full(5000 + index, index) for index in range(200)], "20 MB")

    def read(start):
        for index in range(200):
            number = (index + start) % 200
            item = dataset[number]
            assert (len(item), item[0], item[-1]) == (5000 + number, number, number)

    threads = [threading.Thread(target=read, args=(50 * start,)) for start in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert dataset.kept.items == 200
    assert dataset.kept.hits + dataset.kept.misses == 800


def test_a_copy_shares_what_is_kept(images, ledger):
    """One hold a process on the same memory, however often it is pickled."""
    dataset = laptime.cached(images, "1 MB")
    dataset[1]
    other = pickle.loads(pickle.dumps(dataset))
    assert int(other[1][1][0]) == 1
    assert ledger.decoded() == [1]
    assert other.kept == dataset.kept
    assert other._laptime_store is dataset._laptime_store


def test_a_dataset_whose_processes_are_gone_says_so(tmp_path):
    """Saved to a file and loaded on another day."""
    place = tmp_path / "dataset.pickle"
    write = f"import laptime, pickle; pickle.dump(laptime.cached([1, 2], '1 MB'), open({str(place)!r}, 'wb'))"
    subprocess.run([sys.executable, "-c", write], check=True)
    with place.open("rb") as file, pytest.raises(UsageError, match=r"cannot be opened by its path|is gone"):
        pickle.load(file)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: iter([1]), r"list_iterator, which has no items by number"),
        (Stream, r"Stream, which has no items by number"),
        (lambda: DataLoader([1, 2]), r"wrap the dataset that the loader reads"),
        (type("Endless", (), {"__getitem__": lambda self, index: index}), r"Endless, which has no length"),
        (lambda: (1 for _ in range(3)), r"generator, .* or a list"),
    ],
)
def test_what_has_no_numbered_items_is_refused(make, says):
    with pytest.raises(UsageError, match=f"(?s){says}"):
        laptime.cached(make())


@pytest.mark.parametrize(
    ("memory", "says"),
    [
        ("4 lumps", "'4 lumps': that is no amount of memory"),
        ("", "no amount of memory"),
        (None, "no amount of memory"),
        (True, "no amount of memory"),
        (0, "more than 0 bytes"),
        ("0 GB", "more than 0 bytes"),
        (100, r"the table of 2 items alone takes 16\.\d KB"),
        ("900 TB", r"memory=900 TB: \S+ [GM]B are free (on this machine|within this container's limit) of"),
    ],
)
def test_a_memory_that_cannot_be_had_is_refused(memory, says):
    """Said what was given, and what there is."""
    with pytest.raises(UsageError, match=says):
        laptime.cached([1, 2], memory)
