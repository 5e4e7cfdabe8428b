"""The index makes a list fast, and its loss or damage is never noticed."""

from __future__ import annotations

import os
import random

import pytest
from store_records import record

from laptime.store import home_folder, list_records, records_folder, save

NAMES = ["r-2026-11-20-2222", "r-2026-11-19-1111"]


@pytest.fixture(autouse=True)
def index(tmp_path, monkeypatch):
    """Return every test two records, a list that was made once, and the index of it."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))
    for name in NAMES:
        save(record(name, f"{name[2:12]}T10:00:00+00:00"))
    list_records()
    return home_folder() / "laptime-index.json"


def listed():
    return [row.id for row in list_records()]


def spoil_quietly(name):
    """Make a record unreadable without a trace: only what the index knows can still be listed."""
    path = records_folder() / f"{name}.json"
    before = path.stat()
    path.write_bytes(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def indexed():
    """Say whether the list comes from the index."""
    for name in NAMES:
        spoil_quietly(name)
    return [row.unreadable for row in list_records()] == [None, None]


def test_a_record_that_the_index_knows_is_not_read_again():
    """A thousand records are listed without parsing one."""
    assert indexed()


def test_a_row_of_the_index_is_what_reading_gives(index):
    """Nothing is lost on the way through the index."""
    known = list_records()
    index.unlink()
    assert known == list_records()


def test_a_record_that_changed_is_read_again():
    """The journal of a running race changes after every heat."""
    save(record(NAMES[1], "2026-11-21T10:00:00+00:00"))
    assert listed() == NAMES[::-1]


def test_a_record_that_is_gone_leaves_the_list():
    """The files are the truth."""
    (records_folder() / f"{NAMES[1]}.json").unlink()
    assert listed() == NAMES[:1]


def garbage(index):
    index.write_bytes(b"this is no index" * 300)


def truncated(index):
    index.write_bytes(index.read_bytes()[:200])


def empty(index):
    index.write_bytes(b"")


def missing(index):
    index.unlink()


def edited(index):
    index.write_bytes(index.read_bytes().replace(b"faster", b"slower"))


def without_digest(index):
    index.write_bytes(index.read_bytes().partition(b"\n")[2])


def nested(index):
    index.write_bytes(b"[" * 100_000)


DAMAGES = [garbage, truncated, empty, missing, edited, without_digest, nested]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_made_again_in_silence(damage, index):
    """No state of the index may be an error, or show a wrong list."""
    known = list_records()
    damage(index)
    assert known == list_records()
    assert indexed()


def test_a_flipped_bit_anywhere_gives_no_wrong_row(index):
    """Every byte is under the digest, or is the digest: one flipped bit, and the records are read instead."""
    known, sound, dice = list_records(), index.read_bytes(), random.Random(14)
    for place in range(len(sound)):
        changed = bytearray(sound)
        changed[place] ^= 1 << dice.randrange(8)
        index.write_bytes(changed)
        assert known == list_records(), place


def test_an_index_that_cannot_be_written_is_passed_by(index):
    """A folder is where the index should be."""
    index.unlink()
    index.mkdir()
    assert listed() == NAMES


@pytest.mark.parametrize("name", ["index.json", "index.sqlite3"])
def test_a_users_own_index_is_not_touched(tmp_path, monkeypatch, name):
    """LAPTIME_HOME may be a folder of the user's, who has an index of some kind there."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("LAPTIME_HOME", str(project))
    theirs = project / name
    theirs.write_bytes(b"mine")
    save(record(NAMES[0], "2026-11-21T10:00:00+00:00"))
    assert listed() == [NAMES[0]]
    assert theirs.read_bytes() == b"mine"
