"""Records and words that mean harm, through the real command: nothing is written elsewhere, and no terminal obeys."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from laptime.cli.printing import printable

ESCAPE = "\x1b]0;title\x07\x9b31m\u202e"
STEERING = ("\x1b", "\x9b", "\x07", "\u202e")
FULL = ("train", "cifar-cnn", "fake/cpu", "--laps", "3", "--steps-per-lap", "5", "-q")


@pytest.fixture(scope="module")
def trained(shared_house):
    """Return a record of a whole training that may be resumed: it was interrupted, as far as it says."""
    shared_house.done(*FULL)
    (place,) = shared_house.files()
    record = json.loads(place.read_bytes())
    record["status"] = "interrupted"
    record["answer"]["runs"] = []
    return record


def assert_harmless(answer):
    assert not [each for each in STEERING if each in answer.out + answer.err]


NO_IDS = ["../../outside", "/tmp/outside", "latest", "", "r-1", ESCAPE, "r-2026-11-20-a1b2\n"]


@pytest.mark.parametrize("identity", NO_IDS)
@pytest.mark.parametrize("command", ["show", "resume"])
def test_an_id_that_is_none_is_refused_and_nothing_is_written(house, trained, command, identity):
    """An id becomes the name of a file, of a folder and of a trace."""
    mine = house.folder / "theirs.json"
    mine.write_text(json.dumps({**trained, "id": identity}), encoding="utf-8")
    before = sorted(house.folder.rglob("*"))
    answer = house.run(command, str(mine))
    assert answer.code == 2
    assert "$.id: expected an id such as r-2026-11-20-a1b2" in answer.err
    assert_harmless(answer)
    assert before == sorted(house.folder.rglob("*"))


def test_a_record_of_another_race_is_not_written_over(house, trained):
    """A file from elsewhere may have the id of a record that is here."""
    house.race("fake/cpu", "--heats", "1")
    (own,) = house.files()
    before = own.read_bytes()
    theirs = house.folder / "theirs.json"
    theirs.write_text(json.dumps({**trained, "id": own.stem, "started": "2020-01-01T00:00:00+00:00"}), encoding="utf-8")
    answer = house.run("resume", str(theirs), "-q")
    assert answer.code == 2
    assert f"{own.stem} is the id of another record here" in answer.err
    assert before == own.read_bytes()


WORDS = [
    ("show", ESCAPE),
    ("race", ESCAPE),
    ("race", f"{ESCAPE}.py:f"),
    ("race", "fake/cpu", "--data", ESCAPE),
    ("race", "--heats", ESCAPE),
    (ESCAPE,),
    ("race", f"--{ESCAPE}"),
    ("data", "make", ESCAPE),
    ("devices", "--framework", ESCAPE),
]


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["words", "json"])
@pytest.mark.parametrize("words", WORDS, ids=[each[0] if each[0] != ESCAPE else "no command" for each in WORDS])
def test_what_is_wrong_is_said_without_obeying_it(house, words, more):
    """Ours and click's own errors, and the same for programs."""
    answer = house.run(*words, *more)
    assert answer.code == 2
    assert_harmless(answer)
    if more:
        error = answer.json["error"]
        assert error["exit_code"] == answer.code
        assert error["kind"] == ("usage" if words[0] != "show" else "record")
        assert printable(error["says"]) in answer.err


def test_an_error_is_bounded(house):
    """Nobody reads a sentence of a million characters."""
    answer = house.run("show", "x" * 100_000, "--json")
    assert answer.code == 2
    assert len(answer.err) < 5_000
    assert "characters left out" in answer.json["error"]["says"]


def test_one_bad_file_is_one_row(house):
    """Whatever is in the folder of records, the list and the good record are there."""
    house.race("fake/cpu", "--heats", "1")
    (good,) = house.files()
    record = json.loads(good.read_bytes())
    deep = json.dumps(record).replace('"findings":', '"findings": ' + "[" * 500 + "]" * 500 + ', "more":', 1)
    for name, data in {
        b"\xff\xfe\x1b[31m.json": b"{}",
        b"r-2026-01-01-0001.json": deep.encode(),
        b"r-2026-01-01-0002.json": b"[" * 500 + b"]" * 500,
        b"r-2026-01-01-0003.json": json.dumps({**record, "id": ESCAPE}).encode(),
        b"r-2026-01-01-0004.json": good.read_bytes().replace(b'"cifar-cnn"', b'"cifar\xff"'),
    }.items():
        (good.parent / os.fsdecode(name)).write_bytes(data)
    for words in (("list",), ("list", "--json"), ("list",)):
        answer = house.done(*words)
        assert_harmless(answer)
        assert good.stem in answer.out
    rows = house.run("list", "--json").json
    assert [row["unreadable"] is None for row in rows].count(True) == 1
    assert len(rows) == 6
    assert good.stem in house.done("show", "latest").out


@pytest.mark.long
def test_a_race_is_running_only_while_its_process_is(house):
    """Whether by show, by list or as JSON; the number of a process that is gone may be another's by then."""
    house.script('["fake/*"]\nfail = { how = "hang", phase = "build", heat = 3 }\n')
    process = house.start("race", "fake/cpu", "fake/cpu/best", "--heats", "2")
    house.read_until(process, "round 2 of 2")
    house.wait_for_processes(5)
    time.sleep(0.2)
    assert [row["status"] for row in house.run("list", "--json").json] == ["running"]
    process.send_signal(signal.SIGKILL)
    house.finish(process)
    (row,) = house.run("list", "--json").json
    assert row["status"] == "ended"
    assert "its process is gone (killed or crashed)" in row["summary"]
    assert house.run("show", "--json").json["status"] == "ended"
    assert "ended: its process is gone (killed or crashed): 2 of 4 heats kept" in " ".join(
        house.run("show").out.split()
    )
    (place,) = house.files()
    for writer, status in (({"pid": os.getpid()}, "ended"), ({"host": "another-machine"}, "running")):
        kept = json.loads(place.read_bytes())
        changed = place.with_suffix(".new")  # put in place by rename, as a save does: the list looks again
        changed.write_text(json.dumps({**kept, "writer": {**kept["writer"], **writer}}), encoding="utf-8")
        changed.replace(place)
        assert [each["status"] for each in house.run("list", "--json").json] == [status]
