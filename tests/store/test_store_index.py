"""The index makes a list quick, and its loss or damage is never noticed."""

from __future__ import annotations

import os
import sqlite3

import pytest
from store_records import record

from laptime.store import home_folder, list_records, records_folder, save

NAMES = ["r-2", "r-1"]


@pytest.fixture(autouse=True)
def database(tmp_path, monkeypatch):
    """Give every test two records, a list that was made once, and the index of it."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path))
    save(record("r-1", "2026-11-19T10:00:00+00:00"))
    save(record("r-2", "2026-11-20T10:00:00+00:00"))
    list_records()
    return home_folder() / "index.sqlite3"


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


def test_a_row_of_the_index_is_what_reading_gives(database):
    """Nothing is lost on the way through the index."""
    known = list_records()
    database.unlink()
    assert known == list_records()


def test_a_record_that_changed_is_read_again():
    """The journal of a running race changes after every heat."""
    save(record("r-1", "2026-11-21T10:00:00+00:00"))
    assert listed() == ["r-1", "r-2"]


def test_a_record_that_is_gone_leaves_the_list():
    """The files are the truth."""
    (records_folder() / "r-1.json").unlink()
    assert listed() == ["r-2"]


def garbage(database):
    database.write_bytes(b"this is no database" * 300)


def truncated(database):
    database.write_bytes(database.read_bytes()[:5000])


def scrambled(database):
    data = bytearray(database.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    database.write_bytes(data)


def empty(database):
    database.write_bytes(b"")


def missing(database):
    database.unlink()


def without_table(database):
    alter(database, "DROP TABLE records")


def outdated(database):
    alter(database, "UPDATE records SET summary = 'in the words of another version'")
    alter(database, "PRAGMA user_version = 99")


def of_other_columns(database):
    alter(database, "ALTER TABLE records DROP COLUMN summary")


def of_wrong_types(database):
    alter(database, "UPDATE records SET started = NULL, size_bytes = 'large'")


def alter(database, statement):
    connection = sqlite3.connect(database)
    connection.execute(statement)
    connection.commit()
    connection.close()


DAMAGES = [
    garbage,
    truncated,
    scrambled,
    empty,
    missing,
    without_table,
    outdated,
    of_other_columns,
    of_wrong_types,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_made_again_in_silence(damage, database):
    """No state of the index may be an error, or show a wrong list."""
    known = list_records()
    damage(database)
    assert known == list_records()
    assert indexed()


def test_an_index_in_use_is_passed_by(database):
    """Somebody else's lock costs a moment, not the list."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        assert listed() == NAMES
    finally:
        connection.close()


def test_an_index_that_cannot_be_written_is_passed_by(database):
    """A folder stands where the index should be."""
    database.unlink()
    database.mkdir()
    assert listed() == NAMES
