"""A store on a file system that is mounted read-only, and on one without locks: the kernel itself refuses.

All commands of one place are run by one process there, which forks for each of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from house import Answer
from system_calls import IS_POSSIBLE, refuse_locks

pytestmark = pytest.mark.long

TESTS = str(Path(__file__).parents[1])
THERE = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from command_server import CommandServer
given, server = json.load(sys.stdin), CommandServer()
there = {"environment": given["environment"], "folder": given["folder"]}
how = {"forks": True, "is_wide": False, "is_brief": False}
answers = [server.run({"words": words, **there, **how}, 60) for words in given["commands"]]
server.close()
os.environ.update(given["environment"])
import laptime
print(json.dumps({"answers": answers, "loaded": laptime.load("@second").record.id}))
"""
MOUNT = 'for each in "$1" "$2"; do mount --bind "$each" "$each" && mount -o remount,ro,bind "$each" || exit 99; done; '
MOUNTED = ("sh", "-c", f'{MOUNT} shift 2; exec "$@"', "sh")
SHOWN = ("show", "@second", "--json")
READING = (
    ("list",),
    ("list", "--label", "first", "--json"),
    ("history", "cifar-cnn"),
    ("show", "latest"),
    SHOWN,
    ("compare", "@first", "@second"),
    ("validate", "@first", "@second"),
    ("report", "latest", "-o", "page.html"),
    ("export", "latest", "--to", "csv", "-o", "out/race.csv"),
)
RACE = ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "1", "--quiet")
TRAIN = ("train", "cifar-cnn", "fake/cpu", "--laps", "1", "--steps-per-lap", "5", "--quiet")


def run_there(house, commands, wrap=(), **options):
    """Run commands in one process, and return their answers and the id of the record that the library loads."""
    process = [*wrap, sys.executable, "-W", "error", "-c", THERE, TESTS]
    given = {"commands": commands, "environment": house.environment(), "folder": str(house.folder)}
    done = subprocess.run(process, check=False, input=json.dumps(given), capture_output=True, text=True, **options)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    told = json.loads(done.stdout)
    answers = [Answer(*each) for each in told["answers"]]
    assert [each.err for each in answers if "Traceback" in each.err] == []
    return answers, told["loaded"]


def as_printed(answers):
    return [(each.code, each.out, each.err) for each in answers]


@pytest.fixture(scope="module")
def kept(shared_house):
    """A house with two races, and what commands that only read print of them."""
    shared_house.cache.mkdir(parents=True, exist_ok=True)
    for label in ("first", "second"):
        shared_house.done(*RACE, "--label", label)
    return shared_house, [shared_house.done(*words) for words in READING]


@pytest.fixture(scope="module")
def read_only(kept):
    """Return what makes a process see the house's records and cache mounted read-only."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare, with which a folder is mounted read-only for one process")
    house = kept[0]
    wrap = (unshare, "-m" if os.getuid() == 0 else "-Urm", *MOUNTED, str(house.home), str(house.cache.parent))
    tried = subprocess.run([*wrap, "touch", str(house.home / "tried")], check=False, capture_output=True, text=True)
    if "Read-only file system" not in tried.stderr:
        pytest.skip(f"this process may not mount a folder read-only: {tried.stderr.strip()}")
    return wrap


def test_a_store_on_a_read_only_file_system_is_read_as_any_other(kept, read_only):
    """Also without the index, which cannot be made there. What cannot be saved is shown, with what is wrong."""
    house, answers = kept
    (house.home / "laptime-index.json").unlink(missing_ok=True)
    before = house.files()
    other = house.folder / "other.json"
    other.write_bytes(before[0].read_bytes().replace(before[0].stem.encode(), b"r-2026-01-01-abcd"))
    writing = (RACE, TRAIN, ("remove", "@first"), ("import", str(other)))
    there, loaded = run_there(house, (*READING, *writing), read_only)
    assert as_printed(there[: len(READING)]) == as_printed(answers)
    assert loaded == there[READING.index(SHOWN)].json["id"]
    race, train, removed, imported = there[len(READING) :]
    assert {each.code for each in (race, train, removed, imported)} == {3}
    assert "2.00x" in race.out
    assert f"could not be saved in {house.home / 'records'}: it is read-only" in race.err
    assert race.err.splitlines()[-1] == "  Make room there, or set LAPTIME_HOME to a folder that can be written."
    assert f"no checkpoint can be kept in {house.home / 'checkpoints'}" in train.err
    assert "Read-only file system" in train.err
    assert "could not be removed: it is read-only" in removed.err
    assert "the record r-2026-01-01-abcd could not be saved" in imported.err
    assert (house.files(), (house.home / "laptime-index.json").exists()) == (before, False)


@pytest.mark.skipif(not IS_POSSIBLE, reason="the filter of system calls is written for Linux on x86_64")
def test_a_store_on_a_file_system_without_locks_is_read_and_written(kept):
    """The kernel refuses every lock with ENOLCK. Records need none, and a training's folder has an owner's file."""
    house, answers = kept
    before = house.files()
    named = ((*RACE, "--label", "third"), (*TRAIN, "--label", "fourth"))
    writing = (*named, ("list", "--json"), ("remove", "@third", "@fourth"))
    there, _ = run_there(house, (*READING, *writing), preexec_fn=refuse_locks)
    assert as_printed(there[: len(READING)]) == as_printed(answers)
    written = there[len(READING) :]
    assert [each.code for each in written] == [0] * len(writing)
    assert {row["label"]: row["question"] for row in written[2].json}.items() >= {
        "third": "race",
        "fourth": "full",
    }.items()
    assert house.files() == before
    assert not list((house.home / "checkpoints").iterdir())
