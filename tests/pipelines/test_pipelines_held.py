"""What fits is held; what does not fit is decoded again."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import smooth, write_pictures

from laptime.engine.pipelines.job import free_memory_bytes
from laptime.engine.pipelines.making import ROW_BYTES, PictureStore, bytes_to_hold

SIZE = 60 * 80 * 3


def test_a_picture_comes_back_as_it_was():
    held = PictureStore(memoryview(bytearray(3 * (SIZE + ROW_BYTES))), 3)
    for index in range(3):
        assert held.get(index) is None
        held.put(index, smooth(index))
    for index in range(3):
        assert np.array_equal(held.get(index), smooth(index))


def test_when_the_room_is_full_nothing_more_is_kept():
    held = PictureStore(memoryview(bytearray(3 * ROW_BYTES + 2 * SIZE)), 3)
    for index in range(3):
        held.put(index, smooth(index))
    assert [held.get(index) is not None for index in range(3)] == [True, True, False]


def test_two_writers_never_meet_and_each_reads_the_others():
    memory = memoryview(bytearray(4 * (SIZE + ROW_BYTES)))
    one, other = (PictureStore(memory, 4, part, 2) for part in (0, 1))
    for index, writer in enumerate((one, other, one, other)):
        writer.put(index, smooth(index))
    for index, reader in enumerate((other, one, other, one)):
        assert np.array_equal(reader.get(index), smooth(index))


def test_a_picture_is_made_known_by_one_word():
    """Until that word is there a reader sees nothing, whatever of the rest it sees already; with it, all."""
    items = 4
    memory = bytearray(items * (SIZE + 8 + ROW_BYTES))
    writer, reader = (PictureStore(memoryview(memory), items, part, 2) for part in (0, 1))
    for index in (2, 0):
        before = np.frombuffer(bytes(memory), np.int64)
        writer.put(index, smooth(index, 60, 79))
        after = np.frombuffer(bytes(memory), np.int64)
        changed = np.flatnonzero(before != after)
        assert changed[changed < items].tolist() == [index]
        shared = np.frombuffer(memory, np.int64)
        shared[index] = 0
        assert reader.get(index) is None
        shared[index] = after[index]
        assert np.array_equal(reader.get(index), smooth(index, 60, 79))


@pytest.mark.parametrize(
    ("shrunk", "free", "fits"), [(False, 10**9, True), (True, 10**9, True), (False, 100_000, False), (True, 0, False)]
)
def test_room_is_asked_for_only_where_half_of_what_is_free_holds_all(tmp_path, shrunk, free, fits):
    """Of what is turned the decoded picture is kept, of what is not the finished one."""
    paths = write_pictures(tmp_path, 20)
    wanted = bytes_to_hold(paths, 24, 32, shrunk=shrunk, free=free)
    one = 24 * 32 * 3 if shrunk else 30 * 40 * 3
    assert wanted == (20 * (int(1.2 * one) + ROW_BYTES) if fits else 0)


def test_files_that_are_no_pictures_ask_for_no_room(tmp_path):
    path = tmp_path / "no.jpg"
    path.write_bytes(b"no")
    assert bytes_to_hold((str(path),), 24, 32, shrunk=False, free=10**9) == 0


def test_free_memory_is_what_this_machine_could_give():
    assert 10**6 < free_memory_bytes() < 10**14
