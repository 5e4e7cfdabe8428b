"""Where records live: found by any name that means one, and never half written."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from store_records import record

from laptime.model.errors import LaptimeError, RecordError, StoreError
from laptime.store.files import find, list_records, load, new_id, save
from laptime.store.index import records_folder
from laptime.store.schema import encode

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Return every test a home of its own."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(script, home, *words):
    """Run a script in a process of its own that keeps its records here."""
    paths = f"{Path(__file__).parent}:{':'.join(sys.path)}"
    environment = {**os.environ, "PYTHONPATH": paths, "LAPTIME_HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-c", script, *words],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def temporary_files():
    return [path.name for path in records_folder().iterdir() if path.suffix != ".json"]


def test_a_record_is_saved_under_its_id_in_the_home_that_is_named(home):
    """LAPTIME_HOME says where everything lives."""
    assert home / "records" / "r-2026-11-20-a1b2.json" == save(record())
    assert record() == load("r-2026-11-20-a1b2")


def test_without_a_name_records_live_where_the_platform_keeps_data(monkeypatch, tmp_path):
    """An empty variable counts as none."""
    monkeypatch.setenv("LAPTIME_HOME", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in records_folder().parents
    assert "laptime" in records_folder().parts


def test_an_id_names_the_day_and_never_a_record_that_is_there():
    """The second race of a day with the same dice gets another id."""
    first = new_id(NOW, random.Random(7))
    assert first.startswith("r-2026-11-20-")
    assert len(first) == 17
    save(record(first))
    assert first != new_id(NOW, random.Random(7))
    assert [each.name for each in records_folder().iterdir() if first in each.name] == [f"{first}.json"]


def test_an_id_is_one_races_alone():
    """Of forty begun at once with the same dice no two share one, though none has saved anything yet."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_id(NOW, random.Random(7)), range(40)))
    assert len(set(made)) == 40
    assert all(len(each) == 17 for each in made)
    assert list_records() == ()


def test_a_day_with_more_races_than_short_ids_has_longer_ones():
    """Once 64 throws in a row are taken."""
    records_folder().mkdir(parents=True)
    dice = random.Random(7)
    for _ in range(64):
        (records_folder() / f"r-2026-11-20-{dice.getrandbits(16):04x}.json").touch()
    made = new_id(NOW, random.Random(7))
    assert re.fullmatch(r"r-2026-11-20-[0-9a-f]{16}", made)


def test_where_nothing_can_be_written_an_id_is_made_all_the_same(home):
    """What cannot be saved is said when it is saved."""
    home.parent.joinpath("home").write_text("a file")
    assert new_id(NOW, random.Random(7)).startswith("r-2026-11-20-")


def test_a_beginning_that_only_one_record_has_is_enough():
    """Nobody types a whole id."""
    save(record("r-2026-11-20-a1b2"))
    save(record("r-2026-11-21-c3d4"))
    assert load("r-2026-11-21").id == "r-2026-11-21-c3d4"


def test_a_whole_id_wins_over_a_longer_one():
    """An id that begins another is not ambiguous."""
    save(record("r-2026-11-20-aaaa"))
    save(record("r-2026-11-20-aaaa12"))
    assert load("r-2026-11-20-aaaa").id == "r-2026-11-20-aaaa"


def test_a_beginning_that_two_records_have_names_both():
    """The way out of ambiguity is to see it."""
    save(record("r-2026-11-20-a1b2"))
    save(record("r-2026-11-21-c3d4"))
    with pytest.raises(RecordError, match="begins 2 records: r-2026-11-20-a1b2, r-2026-11-21-c3d4"):
        load("r-2026")


def test_an_unknown_id_names_the_nearest():
    """A slip of the finger is answered with what was meant."""
    save(record("r-2026-11-20-a1b2"))
    with pytest.raises(RecordError) as caught:
        load("r-2026-11-20-a1b3")
    assert caught.value.says == "there is no record 'r-2026-11-20-a1b3'"
    assert caught.value.hint == "Nearest: r-2026-11-20-a1b2. `laptime list` shows all records."


@pytest.mark.parametrize("name", ["r-1", "", "*", "a\0b", "x" * 5000, "r-[0-9]"])
def test_a_name_that_means_nothing_says_how_to_list(name):
    """Nothing that can be typed may crash."""
    save(record())
    with pytest.raises(RecordError) as caught:
        load(name)
    assert "laptime list" in caught.value.hint


def test_a_file_anywhere_can_be_named(tmp_path, monkeypatch):
    """Records are passed from one person to another."""
    (tmp_path / "theirs.json").write_bytes(encode(record("r-2026-11-20-1111")))
    (tmp_path / "plain").write_bytes(encode(record("r-2026-11-20-2222")))
    monkeypatch.chdir(tmp_path)
    assert load(str(tmp_path / "theirs.json")).id == "r-2026-11-20-1111"
    assert load("theirs.json").id == "r-2026-11-20-1111"
    assert load("plain").id == "r-2026-11-20-2222"


def test_a_file_that_is_not_there_is_a_record_error():
    """A path is answered as a path."""
    with pytest.raises(RecordError, match=r"there is no file gone\.json"):
        load("gone.json")


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "~nobody-of-that-name/a.json"])
def test_what_holds_no_record_is_said_at_once(name):
    """A device may give zeros for ever; a user may not be known here."""
    with pytest.raises(LaptimeError, match=r"is a device and no record|home folder is not known"):
        load(name)


def test_a_folder_is_no_record(tmp_path):
    """Whatever is at a path, the answer is a sentence."""
    with pytest.raises(RecordError, match="cannot be read"):
        load(str(tmp_path) + os.sep)


def test_latest_is_the_race_that_began_last_whenever_it_was_written():
    """Copying an old record must not make it the newest; time zones count."""
    save(record("r-2026-11-20-bbbb", "2026-11-20T23:30:00+00:00"))
    save(record("r-2026-11-20-aaaa", "2026-11-21T01:00:00+02:00"))
    assert load("latest").id == "r-2026-11-20-bbbb"


def test_latest_without_records_says_what_makes_one():
    """The first question of a newcomer is answered with the first command."""
    with pytest.raises(RecordError) as caught:
        load("latest")
    assert caught.value.hint == "`laptime race` makes one."


def test_latest_passes_over_a_file_that_cannot_be_read():
    """One damaged file does not hide the others."""
    save(record("r-2026-11-20-cccc"))
    (records_folder() / "r-2026-11-20-dddd.json").write_text("{")
    assert find("latest").name == "r-2026-11-20-cccc.json"


def test_the_list_is_newest_first_and_shows_what_cannot_be_read():
    """One damaged file does not stop the list, and is not left out of it."""
    save(record("r-2026-11-19-0001", "2026-11-19T10:00:00+00:00"))
    save(record("r-2026-11-20-0002", "2026-11-20T10:00:00+00:00"))
    (records_folder() / "r-2026-11-20-dddd.json").write_text("{")
    os.utime(records_folder() / "r-2026-11-20-dddd.json", (0, 0))
    rows = list_records()
    assert [row.id for row in rows] == ["r-2026-11-20-0002", "r-2026-11-19-0001", "r-2026-11-20-dddd"]
    assert [row.unreadable for row in rows[:2]] == [None, None]
    assert "cannot be read as a record" in rows[2].unreadable
    assert rows[0].summary == "1 lane, torch/cpu/best 1.49x faster than torch/cpu"


def test_there_is_an_empty_list_before_the_first_race():
    """Nothing is no error."""
    assert list_records() == ()


def test_a_crash_before_the_last_move_leaves_the_old_record(home):
    """The process ends between writing the temporary file and putting it in place."""
    save(record(started="2026-11-20T10:00:00+00:00"))
    script = """
import os, sys
from store_records import record
from laptime.store.files import save
sys.addaudithook(lambda event, _: os._exit(9) if event == "os.rename" else None)
save(record(started="2026-11-20T11:11:11+00:00"))
"""
    process = run(script, home)
    process.communicate(timeout=60)
    assert process.returncode == 9
    assert len(temporary_files()) == 1
    assert load("latest").started == "2026-11-20T10:00:00+00:00"
    assert len(list_records()) == 1


def test_what_a_dead_process_left_is_cleared_away_by_the_next_list(home):
    """Temporary files of a crash do not pile up. A save has no time to look for them among 100,000 records."""
    save(record())
    process = run("print('here')", home)
    process.communicate(timeout=60)
    (records_folder() / _temporary_name(process.pid)).write_text("half")
    assert len(list_records()) == 1
    assert temporary_files() == []


def test_what_a_living_process_or_another_machine_writes_is_left_alone():
    """Two races may be saved into one folder at the same time."""
    save(record())
    ours = _temporary_name(os.getpid()).replace("r-x", "r-y")
    theirs = ".r-x.another-machine.4194304.laptime.tmp"
    for name in (ours, theirs):
        (records_folder() / name).write_text("half")
    list_records()
    assert sorted([ours, theirs]) == sorted(temporary_files())


def test_what_another_machine_left_days_ago_is_cleared_away():
    """Age decides where no process can be asked."""
    save(record())
    left = records_folder() / ".r-x.another-machine.12.laptime.tmp"
    left.write_text("half")
    os.utime(left, (0, 0))
    list_records()
    assert temporary_files() == []


def _temporary_name(pid):
    from laptime.store.disk import host

    return f".r-x.{host()}.{pid}.laptime.tmp"


def test_a_full_disk_names_folder_reason_and_way_out(home):
    """A file larger than allowed fails in the middle of writing, as a full disk does."""
    save(record(started="2026-11-20T10:00:00+00:00"))
    script = """
import resource
from store_records import with_losses
from laptime.model.errors import StoreError
from laptime.store.files import save
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    save(with_losses(*[0.1] * 100_000))
except StoreError as error:
    print(error, error.exit_code)
"""
    told, complaints = run(script, home).communicate(timeout=60)
    assert complaints == ""
    assert f"could not be saved in {home / 'records'}: the file would be larger" in told
    assert "set LAPTIME_HOME to a folder that can be written. 3" in told
    assert temporary_files() == []
    assert load("latest").lanes[0].heats[0].heat.losses == (2.3, 2.2)


def test_a_home_that_cannot_be_made_is_a_store_error(tmp_path, monkeypatch):
    """A file where a folder should be is distinguished from a full disk."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="a file is where a folder is needed"):
        save(record())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_without_permission_is_a_store_error(home):
    """What the system forbids is said in words."""
    save(record())
    records_folder().chmod(0o500)
    try:
        with pytest.raises(StoreError, match="no permission to write there"):
            save(record("r-2026-11-20-eeee"))
    finally:
        records_folder().chmod(0o700)


@pytest.mark.long
def test_a_process_killed_at_any_moment_leaves_a_readable_record(home):
    """The journal of a race must survive kill -9."""
    script = """
from store_records import with_losses
from laptime.store.files import save
print("begun", flush=True)
number = 0
while True:
    number += 1
    save(with_losses(*[float(number)] * 20_000))
"""
    dice = random.Random(3)
    for _ in range(6):
        process = run(script, home)
        process.stdout.readline()
        time.sleep(0.05 + dice.random() / 10)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        losses = load("latest").lanes[0].heats[0].heat.losses
        assert {losses[0]} == set(losses)
    assert len(list_records()) == 1


def test_a_race_that_ends_without_a_record_gives_its_id_back(home):
    """Nothing is left where nothing was saved."""
    program = "import datetime, random; from laptime.store.files import new_id as n; n(datetime.datetime.now(), random)"
    process = run(program, home)
    assert (process.communicate()[1], process.returncode) == ("", 0)
    assert not home.exists()
