"""Memory with numbered places: whole or not at all, whichever process dies meanwhile, and gone with the last one."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest
from decoded_sets import Huge, die_holding_the_turn, store_all

import laptime
from laptime.remedies import cached

# From Python 3.12 on it warns of a fork next to threads, which loaders do too.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
SIZE = 8 << 20


def killed_while_storing(context, dataset, after_s):
    """Start a process that stores, and kill it so long after it began."""
    heard, said = context.Pipe()
    child = context.Process(target=store_all, args=(dataset, said))
    child.start()
    assert heard.recv() == "begun"
    time.sleep(after_s)
    child.kill()
    child.join()


def test_who_is_killed_while_it_stores_breaks_nothing():
    """Twelve processes, each killed at another moment of its copying; then all that is handed out is whole."""
    dataset = laptime.cached(Huge(12, SIZE), "400 MB")
    context = multiprocessing.get_context("fork")
    moments = random.Random(0)
    for _ in range(12):
        killed_while_storing(context, dataset, moments.uniform(0, 0.05))
    before = dataset.kept
    for index in range(12):
        item = dataset[index]
        assert (item.shape, item.min(), item.max()) == ((SIZE,), index + 1, index + 1)
    after = dataset.kept
    assert after.items > before.items or before.items == 12
    assert after.hits - before.hits == before.items
    assert after.used_bytes >= after.items * SIZE


def test_who_is_killed_in_its_turn_leaves_it_to_others():
    """The kernel lets go of the lock: the next one stores as if nothing had been."""
    held = cached.make_store(3, 1 << 20)
    context = multiprocessing.get_context("fork")
    heard, said = context.Pipe()
    child = context.Process(target=die_holding_the_turn, args=(held, said))
    child.start()
    assert heard.recv() == "mine"
    child.kill()
    child.join()
    assert held.put(1, [b"abc", b""])
    assert [bytes(part) for part in held.get(1)] == [b"abc", b""]


def test_a_thing_is_there_once_it_is_whole_and_not_before():
    """Room that was taken by one who died before the end is lost, and nothing else."""
    held = cached.make_store(3, 1 << 20)
    assert held._take(1024) % 64 == 0
    assert held.get(0) is None
    assert held.put(0, [b"x" * 500])
    assert held.count().used_bytes == 1024 + 64 + 512
    assert (held.count().items, held.count().hits, held.count().misses) == (1, 0, 1)


def test_counts_of_processes_that_ended_stay_and_their_counter_is_used_again():
    """A loader without persistent workers starts new ones in each lap, for as long as the training lasts."""
    held = cached.make_store(1, 1 << 20)
    held.put(0, [b"a"])
    for _ in range(20):
        child = os.fork()
        if not child:
            held.get(0)
            os._exit(0)
        os.waitpid(child, 0)
    assert held.count().hits == 20
    holders = [held._words[at] for at in range(8, cached.COUNTERS_BYTES // 8, 8)]
    assert sum(holder != 0 for holder in holders) <= 2


def test_memory_is_taken_as_things_come_and_given_back_at_the_end():
    """A gigabyte is stated, some megabytes are used."""
    free = cached.free_memory()[0]
    held = cached.make_store(10, 1 << 30)
    held.put(0, [np.ones(SIZE, np.uint8)])
    status = os.fstat(held._descriptor)
    assert SIZE <= status.st_blocks * 512 <= SIZE + 2 * cached.ALLOCATED_CHUNK_BYTES
    assert status.st_size == 1 << 30
    descriptor = held._descriptor
    del held
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert cached.free_memory()[0] > free - (512 << 20)


NAMED = """\
import multiprocessing, os
from laptime.remedies import cached
cached.NAMELESS = {nameless}
import laptime
import numpy as np

class Numbers:  # no framework: a process that is spawned would import it, too
    def __len__(self):
        return 6

    def __getitem__(self, index):
        with open({ledger!r}, "a") as ledger:
            ledger.write(f"{{index}}\\n")
        return np.full((3, 4), index, np.int16), index % 2

def read_all(dataset, said):
    rows = [dataset[index] for index in range(len(dataset))]
    said.send([(int(image.min()), int(image.max()), label) for image, label in rows])

if __name__ == "__main__":
    dataset = laptime.cached(Numbers(), "1 MB")
    dataset[0]
    print("files:", len(os.listdir({folder!r})))
    heard, said = multiprocessing.Pipe()
    for way in ("spawn", "fork"):
        child = multiprocessing.get_context(way).Process(target=read_all, args=(dataset, said))
        child.start()
        assert heard.recv() == [(number, number, number % 2) for number in range(6)]
        child.join()
    print("files:", len(os.listdir({folder!r})))
"""


@pytest.mark.parametrize(("is_nameless", "files"), [(True, "0"), (False, "1")])
def test_no_file_is_left_behind(tmp_path, is_nameless, files):
    """Where memory has no name there is none at any time; elsewhere one, removed at the end by who made it."""
    if is_nameless and not cached.NAMELESS:
        pytest.skip("memory without a name is Linux's")
    folder, place, ledger = tmp_path / "temporary", tmp_path / "train.py", tmp_path / "ledger"
    folder.mkdir()
    place.write_text(NAMED.format(nameless=is_nameless, ledger=str(ledger), folder=str(folder)))
    ended = subprocess.run(
        [sys.executable, str(place)],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [f"files: {files}"] * 2
    assert list(folder.iterdir()) == []
    assert sorted(map(int, ledger.read_text().split())) == list(range(6))
