"""A whole training that was ended goes on where its last whole lap ended, whatever ended it."""

from __future__ import annotations

import json
import shutil
import signal
import time
from functools import partial

import numpy as np
import pytest

from laptime.model.frameworks import upgrade_command
from long_cases import cases

pytestmark = pytest.mark.usefixtures("known_references")

FULL = ("train", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--laps", "3", "--steps-per-lap", "50")
HANGS = '["fake/*"]\nfail = {{ how = "hang", phase = "{phase}", heat = {heat} }}\n'


def curves(record):
    """Return what must not depend on where a training was broken: everything but the machine's own times."""
    return [
        (run["process"]["lane"], run["seed"], [(lap["number"], lap["score"], lap["validation"]) for lap in run["laps"]])
        for run in record["answer"]["runs"]
    ]


def laps_of(record):
    return [len(run["laps"]) for run in record["answer"]["runs"]]


def begin(house, phase="lap 2", heat=0, until="fake/cpu lap 1 of 3"):
    """Start a training that hangs, and wait until it does."""
    house.script(HANGS.format(phase=phase, heat=heat))
    process = house.start(*FULL)
    house.read_until(process, until)
    time.sleep(0.2)
    return process


@pytest.fixture
def start(house):
    return partial(begin, house)


@pytest.fixture(scope="module")
def killed_home(tmp_path_factory, shared_house):
    """Kill a training in its third lap once, and give the home that it left."""
    house = type(shared_house)(tmp_path_factory.mktemp("killed"))
    house.cache = shared_house.cache
    process = begin(house, "lap 3", until="fake/cpu lap 2 of 3")
    process.kill()
    house.finish(process)
    return house.home


@pytest.fixture
def killed(house, killed_home):
    """Return a house of its own to each test, with what the killed training left; nothing hangs in it any more."""
    shutil.copytree(killed_home, house.home)
    return house


@pytest.fixture(scope="module")
def unbroken(shared_house):
    """Train the same without a break, once, in another house."""
    return curves(shared_house.run(*FULL, "--json", "-q").json)


def resumed(house, *words, record="latest"):
    """Let nothing hang any more, and go on."""
    house.fake = "1"
    answer = house.run("resume", record, "--json", "-q", *words)
    return answer, answer.json


@pytest.mark.parametrize("sent", cases(signal.SIGKILL, long=[signal.SIGINT, signal.SIGTERM]))
def test_a_broken_training_gives_the_unbroken_curve(house, start, unbroken, sent):
    """Ctrl-C, a request to end, or kill -9: resumed, the record is the one that an unbroken training has."""
    process = start()
    process.send_signal(sent)
    house.finish(process)
    before = house.kept()
    assert before["status"] == ("running" if sent == signal.SIGKILL else "interrupted")
    answer, record = resumed(house)
    assert answer.code == 0
    assert record["status"] == "finished"
    assert (record["id"], record["started"]) == (before["id"], before["started"])
    assert curves(record) == unbroken
    assert [run["processes"] for run in record["answer"]["runs"]] == [2, 1]
    assert house.kept() == record
    assert house.is_empty_within(10)


def test_an_interrupt_keeps_the_last_whole_lap_and_says_how_to_go_on(house, start, unbroken):
    """Exit 130, a partial report, and the command to type."""
    process = start("lap 2", 1, "best lap 1 of 3")
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    record = house.kept()
    assert answer.code == 130
    assert (record["status"], laps_of(record)) == ("interrupted", [3, 1])
    assert [run["process"]["status"] for run in record["answer"]["runs"]] == ["ok", "interrupted"]
    words = " ".join(answer.out.split())
    assert "interrupted: 4 of 6 laps kept, " in words
    assert f"to go on: laptime resume {record['id']}" in words
    assert "15.2 s on fake/cpu and 1 of 3 laps on fake/cpu/best" in words
    assert curves(resumed(house)[1]) == unbroken


@pytest.mark.long
@pytest.mark.parametrize("phase", ["proof", "lap 1"])
def test_an_interrupt_before_the_first_lap_is_kept_loses_nothing_else(house, start, unbroken, phase):
    """The record says that no lap was trained; resumed, the training is whole."""
    process = start(phase, 0, "fake/cpu: begins")
    process.send_signal(signal.SIGINT)
    assert house.finish(process).code == 130
    assert (house.kept()["status"], sum(laps_of(house.kept()))) == ("interrupted", 0)
    assert curves(resumed(house)[1]) == unbroken


@pytest.mark.long
def test_an_interrupt_while_a_checkpoint_is_written_keeps_the_lap_before(house, start, unbroken):
    """The lap that was trained and not kept is trained again."""
    process = start("checkpoint 2")
    process.send_signal(signal.SIGINT)
    house.finish(process)
    assert laps_of(house.kept()) == [1]
    assert curves(resumed(house)[1]) == unbroken


@pytest.mark.long
def test_two_interrupts_end_a_training_at_once(house, start):
    """The journal has the last whole lap."""
    process = start()
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert house.finish(process).code in {130, -signal.SIGINT}
    assert laps_of(house.kept()) == [1]
    assert house.is_empty_within(10)


def test_the_kill_of_a_child_is_a_lane_that_did_not_finish_and_can_go_on(house, unbroken):
    """The lane's checkpoint is kept, and is where it goes on."""
    house.script('["fake/*"]\nfail = { how = "kill", phase = "lap 3", heat = 0 }\n')
    assert house.run(*FULL, "-q").code == 3
    assert laps_of(house.kept()) == [2, 3]
    answer, record = resumed(house)
    assert answer.code == 0
    assert curves(record) == unbroken
    assert [run["process"]["dnf"] for run in record["answer"]["runs"]] == [None, None]


def test_a_newer_checkpoint_is_refused(killed):
    """A laptime of tomorrow wrote it: `--again` would destroy its laps."""
    (place,) = (killed.home / "checkpoints").rglob("*.npz")
    with np.load(place) as stored:
        arrays = {name: stored[name] for name in stored.files}
    page = arrays["arr_0"].tobytes().replace(b'"version":1', b'"version":2')
    np.savez(place, **{**arrays, "arr_0": np.frombuffer(page, np.uint8)})
    refused = killed.run("resume", "latest", "-q", "--again")
    assert (refused.code, place.exists()) == (2, True)
    assert "has version 2, this laptime reads 1" in refused.err
    assert upgrade_command() in refused.err


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda place: place.unlink(), "is gone"),
        (lambda place: place.write_bytes(place.read_bytes()[:100]), "is damaged"),
    ],
)
def test_laps_whose_checkpoint_is_no_more_are_trained_again_only_where_that_is_allowed(killed, unbroken, harm, words):
    """Refused before anything runs, with how many laps it is about; allowed, the record notes it."""
    house = killed
    (place,) = (house.home / "checkpoints").rglob("*.npz")
    before = house.kept()
    harm(place)
    refused = house.run("resume", "latest", "-q")
    assert refused.code == 2
    assert (
        f"the checkpoint of fake/cpu/as-written, seed 0, {words}: 2 of 2 finished laps would be trained again"
        in " ".join(refused.err.split())
    )
    assert f"laptime resume {before['id']} --again" in refused.err
    assert house.kept() == before
    answer, record = resumed(house, "--again")
    assert answer.code == 0
    assert curves(record) == unbroken
    said = f"2 of 2 finished laps were trained again: the checkpoint {words}"
    assert [said in run["process"]["notes"] for run in record["answer"]["runs"]] == [True, False]
    assert said in " ".join(house.run("show", "latest").out.split())


def test_an_older_checkpoint_is_not_taken_without_a_word(killed, unbroken):
    """One that was put back from elsewhere: of three finished laps it holds two."""
    house = killed
    (place,) = house.files()
    record = json.loads(place.read_bytes())
    (run,) = record["answer"]["runs"]
    run["laps"].append({**run["laps"][-1], "number": 3})
    place.write_text(json.dumps(record))
    trusted = ("--trust", record["id"])
    refused = house.run("resume", record["id"], "-q", *trusted)
    assert refused.code == 2
    assert "seed 0, holds 2 laps: 1 of 3 finished laps would be trained again" in " ".join(refused.err.split())
    assert curves(resumed(house, "--again", *trusted, record=record["id"])[1]) == unbroken


@pytest.mark.long
def test_a_training_that_still_runs_is_not_resumed(house, start):
    """Two processes would write the same checkpoints."""
    process = start()
    answer = house.run("resume", "latest")
    process.kill()
    house.finish(process)
    assert answer.code == 2
    assert "is being trained by another process" in answer.err


@pytest.mark.usefixtures("unbroken")
def test_what_is_finished_is_not_resumed(shared_house):
    """There is nothing left to train."""
    answer = shared_house.run("resume", "latest")
    assert answer.code == 2
    assert "is finished: nothing is left to train" in answer.err


def test_a_race_is_not_resumed(house):
    """It is no whole training."""
    house.run("race", "fake/cpu", "--heats", "1", "-q")
    answer = house.run("resume", "latest")
    assert answer.code == 2
    assert "is a race, not a whole training" in answer.err


def test_a_record_that_is_not_there_is_not_resumed(house):
    """The same words as `show` has."""
    answer = house.run("resume", "r-nonsense")
    assert answer.code == 2
    assert "there is no record" in answer.err


def test_another_machine_is_not_taken_for_the_first(killed):
    """Where a lane would run with other settings, it is refused in words."""
    (place,) = killed.files()
    record = json.loads(place.read_bytes())
    record["lanes"][0]["settings"]["threads"] = 64
    place.write_text(json.dumps(record))
    answer = killed.run("resume", record["id"], "--trust", record["id"])
    assert answer.code == 2
    assert "cannot go on here: fake/cpu/as-written was begun as" in answer.err
