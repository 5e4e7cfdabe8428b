"""The index makes a list fast, and its loss or damage is never noticed."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_records import record

from laptime.model.errors import RecordError
from laptime.store.files import list_records, save
from laptime.store.index import INDEX_VERSION, home_folder, records_folder
from laptime.store.schema import decode, encode

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


def settle(changed_s=1_600_000_000):
    """Let the folder have changed long ago, and list it: from now on its time is trusted."""
    os.utime(records_folder(), (changed_s, changed_s))
    return list_records()


def test_a_folder_that_has_not_changed_is_listed_without_a_look_at_its_files():
    """100,000 records need not be asked for their times. A file edited in place is seen with the next change."""
    known = settle()
    (records_folder() / f"{NAMES[1]}.json").write_text("{")
    assert known == list_records()
    save(record("r-2026-11-18-0000", "2026-11-18T10:00:00+00:00"))
    assert [row.unreadable is None for row in list_records()] == [False, True, True]


def test_a_folder_that_changed_just_now_is_not_trusted(index):
    """Two changes may have the same time: the head of the index has none."""
    assert b'"folder_ns":0' in index.read_bytes()
    settle()
    assert b'"folder_ns":1600000000000000000' in index.read_bytes()


def test_a_record_that_is_new_or_gone_is_seen_after_that():
    settle()
    save(record("r-2026-11-18-0000", "2026-11-18T10:00:00+00:00"))
    assert listed() == [*NAMES, "r-2026-11-18-0000"]
    settle()
    (records_folder() / f"{NAMES[0]}.json").unlink()
    assert listed() == [NAMES[1], "r-2026-11-18-0000"]


def test_a_large_index_is_written_again_once_the_folder_has_settled(index):
    """Until then each list reads the one new record, which takes less time; the list is the same."""
    data = encode(record("r-2026-01-01-0000"))
    for number in range(120):
        name = f"r-2026-01-01-{number:04x}"
        (records_folder() / f"{name}.json").write_bytes(data.replace(b"r-2026-01-01-0000", name.encode()))
    settle()
    before = index.read_bytes()
    save(record("r-2026-06-01-0000", "2026-11-20T09:00:00+00:00"))
    rows = list_records()
    assert index.read_bytes() == before
    assert (rows[0].id, listed()[-2:]) == ("r-2026-11-20-2222", ["r-2026-06-01-0000", NAMES[1]])
    assert rows == settle(1_600_000_100)
    assert b"r-2026-06-01-0000" in index.read_bytes()
    index.unlink()
    assert rows == list_records()


def test_a_row_that_may_change_without_its_file_is_read_each_time():
    """A damaged file between two sound ones, in its place; then its reason, and at last its end."""
    damaged = records_folder() / "r-2026-11-19-ffff.json"
    damaged.write_text("{")
    os.utime(damaged, (1_795_132_800, 1_795_132_800))  # 2026-11-20, midnight
    settle()
    assert listed() == [NAMES[0], damaged.stem, NAMES[1]]
    assert list_records() == list_records()
    damaged.write_bytes(encode(record(damaged.stem, "2026-11-21T10:00:00+00:00")))
    assert listed() == [damaged.stem, *NAMES]


def test_a_store_that_cannot_be_written_is_read():
    """Without an index: the folder is read-only, or its file system has no room."""
    run_read_only = """
import os, sys
def refuse(event, given):
    if event in ("os.mkdir", "os.rename", "os.remove") or (event == "open" and given[2] & (os.O_WRONLY | os.O_RDWR)):
        raise OSError(30, "Read-only file system")
sys.addaudithook(refuse)
from laptime.store.files import list_records, load, find
print(len(list_records()), load("latest").id, find("r-2026-11-19").stem)
"""
    (home_folder() / "laptime-index.json").unlink()
    done = subprocess.run([sys.executable, "-c", run_read_only], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", NAMES[0], NAMES[1]]
    assert not (home_folder() / "laptime-index.json").exists()


def test_sixteen_writers_at_once_lose_nothing():
    """While another process lists; bench/store.py has more of each."""
    ids = [[f"r-2026-01-01-{writer:04x}{number:04x}" for number in range(3)] for writer in range(16)]
    with ThreadPoolExecutor(16) as pool:
        saved = [pool.submit(lambda own=own: [save(record(each)) for each in own]) for own in ids]
        while not all(each.done() for each in saved):
            assert all(row.unreadable is None for row in list_records())
    assert [each.exception() for each in saved] == [None] * 16
    assert {each for own in ids for each in own} <= {row.id for row in list_records()}


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


@pytest.mark.long
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


LISTS = b'{"schema":1,"lanes":[' + b"[]," * 600_000 + b"[]]}"


DAMAGED = "r-2026-11-19-ffff"


def write_damaged(data=b'{"schema": 1'):
    damaged = records_folder() / f"{DAMAGED}.json"
    damaged.write_bytes(data)
    return damaged


def damage():
    """Return what the list says is wrong with the damaged file."""
    return next(row.unreadable for row in list_records() if row.id == DAMAGED)


def test_a_file_that_is_no_record_is_read_once(index):
    """Its reason is kept as long as the file is as it was; an edit in place is seen at once."""
    damaged = write_damaged()
    settle()
    why = damage()
    assert "cannot be read as a record" in why
    spoil_quietly(DAMAGED)
    assert damage() == why, "it was read again"
    save(record("r-2026-11-18-0000", "2026-11-18T10:00:00+00:00"))
    assert damage() == why, "it was read again, after a change of the folder"
    index.unlink()
    assert damage() != why
    damaged.write_bytes(encode(record(DAMAGED, "2026-11-21T10:00:00+00:00")))
    assert listed()[0] == DAMAGED


def test_what_another_laptime_could_not_read_is_read_again(index):
    """The index says which one it was."""
    write_damaged()
    settle()
    why = damage()
    lines = index.read_bytes().partition(b"\n")[2].replace(b'"reader":"laptime ', b'"reader":"another ')
    assert b'"reader":"another ' in lines
    index.write_bytes(hashlib.sha256(INDEX_VERSION + lines).hexdigest().encode() + b"\n" + lines)
    spoil_quietly(DAMAGED)
    assert damage() != why


def test_a_record_of_a_question_that_a_package_may_bring_is_read_again():
    """The package may be installed later, and the file is the same."""
    write_damaged(encode(record(DAMAGED)).replace(b'"question":"race"', b'"question":"later"'))
    settle()
    assert "later" in damage()
    spoil_quietly(DAMAGED)
    assert "later" not in damage()


def test_a_file_of_many_lists_is_refused_before_they_take_memory():
    """Two bytes of the file take 64 of memory."""
    with pytest.raises(RecordError, match="more than 500,000 lists and objects"):
        decode(LISTS, "a file")


def test_a_file_that_does_not_fit_into_memory_is_a_row_and_ends_no_list():
    """It is read again by each list: the next one may have the memory."""
    with write_damaged().open("r+b") as file:
        file.truncate(100 * 2**20)
    limited = """
import resource
from laptime.store.files import list_records
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 50 * 2**20,) * 2)
for row in list_records(): print(row.id, row.unreadable)
"""
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)
    said = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert [said[name] for name in NAMES] == ["None", "None"]
    assert "the system refused the memory" in said[DAMAGED]
    assert "cannot be read as a record" in damage()


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a pipe behind a link"])
def test_an_index_that_never_ends_is_passed_over(index, kind):
    """In a folder that others may write to; the list is made from the records, and the index is written again."""
    index.unlink()
    if kind == "a device":
        index.symlink_to("/dev/zero")
    else:
        place = home_folder() / "pipe" if "link" in kind else index
        os.mkfifo(place)
        if place != index:
            index.symlink_to(place)
    done = subprocess.run(
        [sys.executable, "-c", "from laptime.store.files import list_records; print(len(list_records()))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stdout.split() == ["2"]
    settle()
    assert index.read_bytes().count(b"\n") == 3
