"""Secrets among a script's words: no page, report, export, JSON or file of a record has them; a race runs again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parents[1] / "attach" / "stand_in"
SECRET = "Xy7-kept-to-oneself"
WORDS = ("--", "--hf-token", SECRET, f"--password={SECRET}2", "--epochs", "3")
MASKED = ["--hf-token", "***", "--password=***", "--epochs", "3"]
SCRIPT = f"""
import sys, time
open(__file__ + ".words", "w").write(repr(sys.argv[1:]))
sys.path.insert(0, {str(STAND_IN)!r})
import torch
opt = torch.optim.SGD()
while True:
    time.sleep(0.006)
    torch.Tensor(2.5).backward()
    opt.step()
"""
FAILING = "import sys\nsys.exit(f'error: unrecognized arguments: {sys.argv[1:]}')\n"


@pytest.fixture
def train(house):
    place = house.folder / "train.py"
    place.write_text(SCRIPT)
    return place


def files_of(house):
    """Return every file of the house but the script's own, by what it holds."""
    found = (path for path in house.folder.rglob("*") if path.is_file() and path.suffix not in {".py", ".words"})
    return {path: path.read_bytes() for path in found}


WAYS_OUT = (
    ("show", "--details"),
    ("report", "-o", "-"),
    ("report", "-o", "-", "--format", "md"),
    ("export", "latest", "--to", "json", "-o", "-"),
)
MORE_WAYS_OUT = (
    ("show",),
    ("show", "--json"),
    ("show", "--charts"),
    ("list", "--json"),
    ("report", "-o", "-", "--card"),
    ("report", "-o", "-", "--format", "json"),
    ("export", "latest", "--to", "csv", "-o", "-"),
)


@pytest.mark.parametrize("ways", [WAYS_OUT, pytest.param(MORE_WAYS_OUT, marks=pytest.mark.long)])
def test_no_way_out_of_a_record_has_them(house, train, ways):
    """The one file that has them is its owner's. Where it is gone, the record cannot be raced again."""
    raced = house.run("race", str(train), "cpu", "--heats", "1", "--budget", "2s", "--json", *WORDS)
    record = json.loads(raced.out)
    assert record["ask"]["command"] == record["workload"]["command"][2:] == MASKED
    answers = [raced, *(house.done(*words) for words in ways)]
    assert [each for each in answers if SECRET in each.out + each.err] == []
    holding = [path for path, data in files_of(house).items() if SECRET.encode() in data]
    assert holding == [house.home / "words" / f"{record['id']}.json"]
    assert holding[0].stat().st_mode & 0o777 == 0o600
    holding[0].unlink()
    refused = house.done("race", "--against", record["id"], code=2).err
    assert "words that look like secrets" in refused
    assert "Race it again with them" in refused


@pytest.mark.long
def test_a_race_hands_them_to_the_script_again(house, train):
    house.run("race", str(train), "cpu", "--heats", "1", "--budget", "2s", "-q", *WORDS)
    [kept] = house.files()
    train.with_name("train.py.words").unlink()
    house.run("race", "--against", kept.stem, "-q")
    assert train.with_name("train.py.words").read_text() == repr([*WORDS[1:]])
    house.done("remove", kept.stem)
    assert not (house.home / "words" / kept.name).exists()


def test_what_would_run_is_shown_without_them(house, train):
    for words in ((), ("--json",)):
        assert SECRET not in house.done("race", str(train), "cpu", "--dry-run", *words, *WORDS).out


def test_what_a_script_prints_of_its_words_is_hidden(house):
    """It fails, and argparse repeats what it was given."""
    place = house.folder / "train.py"
    place.write_text(FAILING)
    failed = house.run("race", str(place), "cpu", "--heats", "1", "--budget", "2s", "--json", *WORDS)
    assert "unrecognized arguments: ['--hf-token', '***', '--password=***'" in failed.err
    assert SECRET not in failed.out + failed.err
    assert [path for path, data in files_of(house).items() if SECRET.encode() in data] == []


@pytest.mark.long
@pytest.mark.parametrize("command", ["why", "tune"])
def test_what_may_go_on_keeps_them_for_its_owner_alone(house, train, command):
    house.run(command, str(train), "cpu", "--budget", "2s", "--json", *WORDS)
    [kept] = house.files()
    assert json.loads(kept.read_bytes())["ask"]["command"] == MASKED
    assert {path.parent.name for path, data in files_of(house).items() if SECRET.encode() in data} == {"words"}


def test_a_watched_command_keeps_none(house):
    house.done("watch", "-q", sys.executable, "-c", "pass", *WORDS[1:])
    assert [path for path, data in files_of(house).items() if SECRET.encode() in data] == []
