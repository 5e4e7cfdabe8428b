"""Forged records: whatever a record names is started, opened or reached only if this user made it, or trusts it."""

from __future__ import annotations

import json
import os

import pytest

import laptime
from laptime.model.errors import UsageError

LANE = "fake/cpu"
EVIL_FILE = "import pathlib\npathlib.Path({mark!r}).touch()\ndef training(): pass\n"


@pytest.fixture
def stranger(house):
    """A record that another user made, and a place that its code would write to."""
    house.done("race", "cifar-cnn", LANE, "--heats", "1", "-q", env={"LAPTIME_HOME": str(house.folder / "theirs")})
    [made] = (house.folder / "theirs" / "records").iterdir()
    mark = house.folder / "PWNED"
    evil = house.folder / "evil.py"
    evil.write_text(EVIL_FILE.format(mark=str(mark)))
    return json.loads(made.read_bytes()), evil, mark


def forgeries(tree, evil, mark):
    """Yield a record for each field that can start, open or reach something, and what its refusal has to show."""
    shell = ["sh", "-c", f"touch {mark}"]
    of_file = {"file": str(evil), "function": "training"}
    yield "a command", {"ask": {"command": shell}}, f"touch {mark}"
    yield "a script", {"workload": {"command": shell}, "ask": {"command": shell, "what": "sh"}}, f"touch {mark}"
    yield "a file", {"workload": of_file, "ask": {"what": f"{evil}:training"}}, str(evil)
    yield "only its name", {"ask": {"what": f"{evil}:training"}}, str(evil)
    yield "another training", {"ask": {"others": [f"{evil}:training"]}}, str(evil)
    yield "data", {"ask": {"data": str(evil.parent)}}, str(evil.parent)
    yield "a cluster", {"ask": {"on": "ray://127.0.0.1:9"}}, "ray://127.0.0.1:9"
    yield "nothing but a built-in", {}, f"cifar-cnn; on {tree['lanes'][0]['name']}"


def test_a_strangers_record_starts_nothing(house, stranger):
    """Raced again by its id after an import, by its file, for a dry run, and by the library."""
    tree, evil, mark = stranger
    for number, (name, changes, shown) in enumerate(forgeries(tree, evil, mark)):
        identity = f"r-2026-11-20-{number:04x}"
        forged = {**tree, "id": identity, **{part: {**tree[part], **with_} for part, with_ in changes.items()}}
        file = house.folder / f"{identity}.json"
        file.write_text(json.dumps(forged))
        house.done("import", str(file))
        for words in ([identity], [str(file)], [identity, "--dry-run"], [f"{identity}", "--trust", tree["id"]]):
            refused = house.done("race", "--against", *words, "-q", code=2)
            assert not mark.exists(), name
            if "--trust" not in words:
                assert shown in refused.err, (name, refused.err)
                assert f"--trust {identity}" in refused.err


@pytest.mark.long
def test_a_record_of_ones_own_is_run_again(house):
    """Its own file elsewhere as well; not once a byte of it has changed, nor with another user's key."""
    house.done("race", "cifar-cnn", LANE, "--heats", "1", "-q")
    [place] = house.files()
    house.done("race", "--against", place.stem, "--dry-run")
    shown = house.folder / "shown.json"
    shown.write_text(house.done("show", place.stem, "--json").out)
    house.done("race", "--against", str(shown), "--dry-run")
    elsewhere = house.folder / "mine.json"
    place.rename(elsewhere)
    house.done("race", "--against", str(elsewhere), "--dry-run")
    data = elsewhere.read_bytes()
    for changed in (data.replace(b'"cifar-cnn"', b'"cifar-mlp"', 1), data[:-12] + b"0123456789" + data[-2:]):
        elsewhere.write_bytes(changed)
        house.done("race", "--against", str(elsewhere), "--dry-run", code=2)
    elsewhere.write_bytes(data)
    house.done("race", "--against", str(elsewhere), "--dry-run")
    [key] = house.home.glob("laptime-key-*")
    assert key.stat().st_mode & 0o777 == 0o600
    key.chmod(0o644)
    assert "bears no signature" in house.done("race", "--against", str(elsewhere), "--dry-run", code=2).err


def test_a_planted_key_is_no_key(house):
    """A link to a file whose content a stranger knows, and a key that others may read."""
    known = house.folder / "known"
    known.write_bytes(b"k" * 32)
    house.home.mkdir()
    place = house.home / f"laptime-key-{os.getuid()}"
    place.symlink_to(known)
    house.done("race", "cifar-cnn", LANE, "--heats", "1", "-q")
    assert b'"signature"' not in house.files()[0].read_bytes()
    assert known.read_bytes() == b"k" * 32


def test_trust_names_the_one_record(house, stranger):
    """What is trusted is run, as anybody's own."""
    tree, _, _ = stranger
    place = house.folder / "theirs.json"
    place.write_text(json.dumps(tree))
    house.done("race", "--against", str(place), "--trust", tree["id"], "--dry-run")
    assert "--trust is for a record" in house.done("race", "cifar-cnn", "--trust", tree["id"], code=2).err


def test_a_strangers_training_is_not_resumed(house, stranger):
    """`resume` imports the file that the record names; with empty sources nothing else would stop it."""
    _, evil, mark = stranger
    theirs = {"LAPTIME_HOME": str(house.folder / "whole")}
    house.done("train", "cifar-cnn", LANE, "--laps", "1", "--steps-per-lap", "2", "-q", env=theirs)
    [made] = (house.folder / "whole" / "records").iterdir()
    tree = json.loads(made.read_bytes())
    tree["status"], tree["ask"]["what"] = "interrupted", f"{evil}:training"
    tree["workload"] |= {"file": str(evil), "function": "training"}
    for run in tree["answer"]["runs"]:
        run["sources"] = {}
    place = house.folder / "forged.json"
    place.write_text(json.dumps(tree))
    house.done("import", str(place))
    refused = house.done("resume", tree["id"], code=2).err
    assert str(evil) in refused
    assert not mark.exists()
    # A long command could push its worst part out of an error: then nothing of it is shown, but where it can be read.
    tree["ask"]["command"] = ["x" * 3_000, "rm"]
    place.write_text(json.dumps({**tree, "id": "r-2026-11-20-ffff"}))
    house.done("import", str(place))
    assert "read it whole: laptime show r-2026-11-20-ffff" in house.done("resume", "r-2026-11-20-ffff", code=2).err


def test_the_library_holds_the_same(house, stranger, monkeypatch):
    """A result that a program holds is trusted only if the store has it signed."""
    tree, evil, mark = stranger
    monkeypatch.setenv("LAPTIME_HOME", str(house.home))
    tree["ask"]["what"] = f"{evil}:training"
    place = house.folder / "forged.json"
    place.write_text(json.dumps(tree))
    for against in (str(place), laptime.load(str(place))):
        with pytest.raises(UsageError, match="bears no signature"):
            laptime.race(against=against)
    with pytest.raises(UsageError, match="trust is for"):
        laptime.race("cifar-cnn", trust=tree["id"])
    assert not mark.exists()
