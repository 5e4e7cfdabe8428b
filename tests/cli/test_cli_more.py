"""A race that did not settle goes on: in its own record, with the same steps, at an error that what was seen costs."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from house import real_house
from laptime.store.files import sign

pytestmark = pytest.mark.usefixtures("known_references")

EXAMPLES = Path(__file__).parents[2] / "examples"
VARIES = '["fake/*"]\nspread = 0.2\n'
RACE = ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--budget", "2s", "-q")
FOREVER = '["fake/*"]\nspread = 0.2\nfail = { how = "hang", phase = "build" }\n'


@pytest.fixture
def raced(house, take_records_of):
    """Race once for all tests, without an end that settles it, and return the record."""
    house.script(VARIES)
    take_records_of(house, *RACE)
    return house.kept()


def go_on(house, *words, code=0):
    return house.done("race", "--more", *words, code=code, starts="fake")


def heats_of(record):
    """Return what each heat measured, without what further rounds may judge otherwise: which windows were disturbed."""
    return [
        [
            result["heat"] | {"windows": [window | {"flag": None} for window in result["heat"]["windows"]]}
            for result in lane["heats"]
        ]
        for lane in record["lanes"]
    ]


def steps_of(heats):
    return {(window["first_step"], window["steps"]) for heat in heats for window in heat["windows"][:3]}


def change(house, record, *, signs=True):
    """Write a record as if laptime had saved it so, or without its signature."""
    (place,) = house.files()
    data = json.dumps(record, separators=(",", ":")).encode()
    place.write_bytes(sign(data, house.home) if signs else data)


def test_a_race_goes_on_in_its_own_record(house, raced):
    """With all heats that it had, and further ones after them, of the same steps; with both budgets."""
    page = go_on(house, "2s", "-q").out
    record = house.kept()
    assert (record["id"], record["started"], record["status"]) == (raced["id"], raced["started"], "finished")
    before, after = heats_of(raced), heats_of(record)
    assert [heats[: len(old)] for heats, old in zip(after, before, strict=True)] == before
    further = [heats[len(old) :] for heats, old in zip(after, before, strict=True)]
    assert all(further)
    assert min(heat["round"] for heats in further for heat in heats) > max(heat["round"] for heat in before[0])
    orders = [heat["order"] for heats in after for heat in heats]
    assert len(set(orders)) == len(orders)
    assert [steps_of(heats) for heats in further] == [steps_of(heats) for heats in before]
    assert not any(heat["proofs"] for heats in further for heat in heats), "each lane was proven before"
    assert record["ask"]["budget_s"] == 4.0
    first, second = record["parts"]
    assert (first["elapsed_s"], first["heats"]) == (raced["elapsed_s"], sum(map(len, before)))
    assert record["elapsed_s"] == pytest.approx(first["elapsed_s"] + second["elapsed_s"])
    assert record["answer"]["comparisons"][0]["pairs"] == len(after[0])
    assert f"{len(after[0])} duets in 2 parts" in " ".join(page.split())


def test_what_was_seen_stays_spent(house, raced):
    """A second part has half of the error of the first, and its page says how sure the factor is then."""
    assert "Next: laptime race --more" in house.done("show").out
    said = " ".join(go_on(house, "1s", "-q").out.split())
    assert "The intervals hold at 92.5 %, because they were seen before the race went on." in said
    assert re.search(rf"Next: laptime race --more (\d+m )?{raced['id']}", said)
    assert 0 < house.kept()["answer"]["comparisons"][0]["alpha"] <= 0.05 / 2
    go_on(house, "1s", "-q")
    record = house.kept()
    assert record["answer"]["comparisons"][0]["alpha"] <= 0.05 / 4
    assert [part["has_interval"] for part in record["parts"]] == [True] * 3


def test_a_race_that_settled_names_no_more(house):
    house.done("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--budget", "2s", "-q")
    assert "--more" not in house.done("show").out


def test_by_default_it_goes_on_for_as_long_as_it_was_asked_at_first(house, raced):
    go_on(house, "-q", raced["id"])
    assert [part["budget_s"] for part in house.kept()["parts"]] == [2.0, 2.0]


def test_what_is_killed_on_the_way_has_all_heats_so_far(house, raced):
    """The record is saved after each heat, and goes on once more."""
    process = house.start("race", "--more", "60s")
    (place,) = house.files()
    deadline = time.monotonic() + 30
    while len(json.loads(place.read_bytes())["lanes"][1]["heats"]) == len(raced["lanes"][1]["heats"]):
        assert time.monotonic() < deadline, "no heat was saved"
        time.sleep(0.02)
    process.kill()
    house.finish(process)
    left = house.kept()
    assert [heats[: len(old)] for heats, old in zip(heats_of(left), heats_of(raced), strict=True)] == heats_of(raced)
    assert f"{raced['id']}" in house.done("show").out
    go_on(house, "1s", "-q")
    record = house.kept()
    assert heats_of(record)[0][: len(heats_of(left)[0])] == heats_of(left)[0]
    assert [part["budget_s"] for part in record["parts"]] == [2.0, 60.0, 1.0]


def test_what_ends_before_its_first_heat_changes_nothing(house, raced):
    """And while it runs, no other process goes on with the same record."""
    (place,) = house.files()
    before = place.read_bytes()
    house.script(FOREVER)
    process = house.start("race", "--more", "60s")
    house.read_until(process, "round")
    assert f"{raced['id']} is being trained by another process" in go_on(house, code=2).err
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert (answer.code, place.read_bytes()) == (130, before)
    assert raced["id"] in answer.out


def of_a_stranger(house, record):
    change(house, record, signs=False)


def with_another(*path, value):
    """Return what changes one fact of a record."""

    def change_fact(house, record):
        place = record
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        change(house, record)

    return change_fact


REFUSED = {
    "unsigned": (of_a_stranger, "bears no signature of yours, or was changed since"),
    "machine": (with_another("machine", "processor", "name", value="Z80"), "its processor was"),
    "python": (with_another("machine", "python", value="2.7"), "its Python was 2.7"),
    "laptime": (with_another("tool", "version", value="0.0.1"), "laptime 0.0.1 made it"),
    "heats": (with_another("ask", "heats", value=3), "it was asked for exactly 3 heats a lane"),
    "cluster": (with_another("ask", "on", value="ray"), "it ran on a cluster (ray)"),
    "device": (with_another("lanes", 0, "device", "label", value="another"), "was begun as another"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_another_race_is_refused(house, raced, name):
    """In words, before anything runs, and with its record as it was."""
    edit, says = REFUSED[name]
    edit(house, raced)
    (place,) = house.files()
    before = place.read_bytes()
    answer = go_on(house, raced["id"], code=2)
    assert says in " ".join(answer.err.split())
    assert place.read_bytes() == before


def test_code_that_changed_is_refused(house, raced):
    """A record knows the code of a training by its digests; one of an older laptime does not."""
    mine = house.folder / "mine.py"
    mine.write_text("def training(): ...\n", encoding="utf-8")
    raced["workload"] |= {"file": str(mine), "function": "training"}
    for sources, says in (
        ({"cifar-cnn": {"mine.py": "0" * 32}}, "has changed since (mine.py)"),
        ({}, "an older laptime"),
    ):
        change(house, {**raced, "sources": sources})
        assert says in " ".join(go_on(house, code=2).err.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("race", "--more", "--budget", "3m"), "--more goes on with a record as it was asked, and --budget would"),
        (("race", "--more", "1s", "2s"), "--more takes a time and a record, and these are more"),
        (("race", "--more=0.1s"), "--more 0.1s: expected 1s to 7d"),
        (("race", "--more", "r-nope"), "there is no record 'r-nope'"),
        (("verdict", "--more"), "there is no record of a verdict that you made here"),
        (("verdict", "--more", "latest"), "is no verdict: laptime race made it"),
        (("why", "--more", "latest"), "is no why: laptime race made it"),
        (("tune", "--more", "2s", "--apply"), "--more goes on with a record as it was asked, and --apply would"),
        (("forecast", "--more"), "--more: laptime forecast has no rounds that go on"),
    ],
)
def test_words_that_mean_nothing_are_refused(house, raced, words, says):
    answer = house.run(*words)
    assert says in " ".join(answer.err.split())
    assert answer.code == 2


# What chooses its lanes by what it finds: where it was is read off the record's lanes.

SLOW_LOADER = """
["fake/*"]
loader_ms = 9.0
copy_ms = 0.0
compute_ms = 1.0
spread = 0.01
"""
GAINS = """
["fake/*"]
compute_ms = 4.0
spread = 0.01
gains = { "malloc=keep" = 1.5, "threads=1" = 1.3, "compile" = 0.8 }
"""


SLOW_START = 'fail = { how = "hang", phase = "build", seconds = 0.2 }\nspread'


def begun_heats(before, after):
    """Return the heats of the lanes that a record had, without what was added to them."""
    lanes = dict(zip((lane["name"] for lane in after["lanes"]), heats_of(after), strict=True))
    return [lanes[lane["name"]][: len(lane["heats"])] for lane in before["lanes"]]


def test_why_goes_on_with_the_experiments_that_were_left(house):
    """It has all heats so far, tries what there was no time for, and its factors pay for what was seen."""
    house.script(SLOW_LOADER)
    house.done("why", "cifar-cnn", "fake/cpu", "--budget", "2s", "-q")
    first = house.kept()
    assert first["answer"]["why"]["missing"]
    assert f"Next: laptime why --more {first['id']}" in house.done("show").out
    page = " ".join(house.done("why", "--more", "14s", "-q").out.split())
    second = house.kept()
    assert begun_heats(first, second) == heats_of(first)
    assert len(second["lanes"]) > len(first["lanes"])
    assert second["lanes"][0]["name"] == first["lanes"][0]["name"]
    proven = {each["cause"] for each in second["answer"]["why"]["causes"] if each["standing"] == "proven"}
    assert "input pipeline" in proven
    assert "in 2 parts" in page
    house.done("why", "--more", "2s", "-q")
    third = house.kept()
    assert begun_heats(second, third) == heats_of(second)
    spent = sum(part["has_interval"] for part in second["parts"])
    assert {each["alpha"] for each in third["answer"]["comparisons"]} == {0.05 / 2**spent}
    assert "because they were seen before the search went on" in " ".join(house.done("show").out.split())


@pytest.mark.parametrize(("question", "subject"), [("why", "cifar-cnn"), ("tune", "cifar-mlp")])
def test_a_part_that_is_too_short_for_a_pair_runs_one(house, question, subject):
    """As a part of a race does: what ran in no time would be for nothing."""
    house.script(GAINS.replace("spread", SLOW_START.replace("0.2", "0.7")))
    house.done(question, subject, "fake/cpu", "--budget", "1s", "-q")
    first = heats_of(house.kept())
    house.done(question, "--more", "1s", "-q")
    second = heats_of(house.kept())
    assert sum(map(len, second)) >= sum(map(len, first)) + 2
    assert len(second[0]) > len(first[0])


def test_a_tuning_goes_on_with_what_was_not_tried(house):
    """The path of the search is longer, and begins as it did; what was refused before anything ran stays so."""
    house.script(GAINS.replace("spread", SLOW_START).replace("1.3", "0.9"))  # the presets set one thread
    house.done("tune", "cifar-mlp", "fake/cpu", "--budget", "1s", "-q")
    first = house.kept()
    (before,) = first["answer"]["tuning"]["lanes"]
    assert before["untried"]
    page = " ".join(house.done("tune", "--more", "6s", "-q").out.split())
    second = house.kept()
    (after,) = second["answer"]["tuning"]["lanes"]
    assert begun_heats(first, second) == heats_of(first)
    tried = [each["words"] for each in before["path"]]
    assert [each["words"] for each in after["path"]][: len(tried)] == tried
    assert len(after["path"]) > len(tried)
    assert after["untried"] <= before["untried"]
    assert after["standing"] == "confirmed"
    assert "malloc=keep" in after["words"]
    assert after["gain"]["low"] > 1
    assert "in 2 parts" in page


@pytest.mark.long
def test_what_fresh_heats_confirmed_stays_until_longer_ones_do(house):
    """A further part that is too short for as long a race of the winner has no better answer."""
    house.script(GAINS)
    house.done("tune", "cifar-mlp", "fake/cpu", "--budget", "4s", "-q")
    (before,) = house.kept()["answer"]["tuning"]["lanes"]
    assert before["standing"] == "confirmed"
    same = ("words", "winner", "standing", "gain", "pairs", "reason")
    for budget in ("1s", "2s"):
        house.done("tune", "--more", budget, "-q")
        (after,) = house.kept()["answer"]["tuning"]["lanes"]
        is_same = {name: after[name] for name in same} == {name: before[name] for name in same}
        assert is_same or (after["standing"] == "confirmed" and after["pairs"] > before["pairs"])
        before = after


MINE = """
import torch
import laptime
from parts import width


def training():
    model = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
    data = [(torch.randn(64, 64), torch.randint(0, 10, (64,))) for _ in range(20)]
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    return laptime.Training(model=model, loss=torch.nn.functional.cross_entropy, optimizer=optimizer, data=data)
"""


def write_trainings(folder):
    for name in ("mine", "changed"):
        (folder / f"{name}.py").write_text(MINE, encoding="utf-8")
    (folder / "parts.py").write_text("width = 256\n", encoding="utf-8")


def further_of(before, after):
    pairs = zip(heats_of(before), heats_of(after), strict=True)
    return [new[len(old) :] for old, new in pairs]


@pytest.mark.long
def test_ones_own_training_goes_on_until_its_code_changes(tmp_path, torch_cache):
    """Its reference, its proofs and its steps are those of the record, and no heat is proven again."""
    house = real_house(tmp_path, torch_cache)
    write_trainings(tmp_path)
    words = ("race", "mine.py:training", "torch/cpu", "torch/cpu/threads=1", "--margin", "0.1%", "--budget", "20s")
    before = house.done(*words, "-q", "--json").json
    after = house.run("race", "--more", "10s", "-q", "--json").json
    further = further_of(before, after)
    assert all(further)
    assert not any(heat["proofs"] for heats in further for heat in heats)
    assert [lane["parity"]["status"] for lane in after["lanes"]] == ["same", "same"]
    assert [*after["sources"]["mine.py:training"]] == ["mine.py", "parts.py"]
    assert after["reference"] == before["reference"]
    (tmp_path / "parts.py").write_text("width = 128\n", encoding="utf-8")
    refused = house.done("race", "--more", code=2)
    assert "has changed since (parts.py)" in " ".join(refused.err.split())
    assert house.kept() == {name: value for name, value in after.items() if name != "exit code"}


@pytest.mark.long
def test_a_verdict_goes_on_at_an_error_of_its_own(tmp_path, torch_cache):
    """It has all rounds, and says at which confidence; a session's share of the error is spent once."""
    house = real_house(tmp_path, torch_cache)
    write_trainings(tmp_path)
    pair = ("verdict", "mine.py:training", "changed.py:training", "torch/cpu", "--budget", "15s", "--gain", "0.1%")
    first = house.run(*pair, "-q", "--json").json
    assert first["verdict"] == "UNDECIDED"
    again = house.run("verdict", "--more", "15s", "-q", "--json").json
    confidence = 0.98 if first["cause"] == "early" else 0.97  # next to other tests no interval may have been seen
    assert (again["record"], again["confidence"]) == (first["record"], pytest.approx(confidence))
    assert again["rounds"] > first["rounds"]
    house.run(*pair, "--session", "loop", "-q")
    refused = house.done("verdict", "--more", code=2)
    assert "session loop gave it its share of the error" in " ".join(refused.err.split())


@pytest.mark.long
def test_a_script_goes_on_with_the_words_that_its_record_masks(tmp_path, torch_cache):
    house = real_house(tmp_path, torch_cache)
    shutil.copy(EXAMPLES / "plain_loop.py", tmp_path)
    words = ("race", "plain_loop.py", "cpu", "--set", "threads=1", "--margin", "0.1%", "--budget", "20s")
    before = house.run(*words, "-q", "--json", "--", "--epochs", "999").json
    after = house.run("race", "--more", "10s", "-q", "--json").json
    assert all(further_of(before, after))
    assert {lane["status"] for lane in after["lanes"]} == {"ok"}
    (tmp_path / "below").mkdir()
    refused = house.done("race", "--more", code=2, cwd=tmp_path / "below")
    assert "cannot go on from this folder" in " ".join(refused.err.split())


@pytest.mark.long
@pytest.mark.parametrize("question", ["why", "tune"])
def test_a_search_on_a_script_goes_on(tmp_path, torch_cache, question):
    """What the script cannot have, or has already, is known from its first heat."""
    house = real_house(tmp_path, torch_cache)
    shutil.copy(EXAMPLES / "plain_loop.py", tmp_path)
    words = ("plain_loop.py", "cpu", "--budget", "8s", "-q", "--json", "--", "--epochs", "999")
    before = house.run(question, *words).json
    after = house.run(question, "--more", "20s", "-q", "--json").json
    assert begun_heats(before, after) == heats_of(before)
    assert sum(map(len, heats_of(after))) > sum(map(len, heats_of(before)))
    assert len(after["parts"]) == 2
    (tmp_path / "plain_loop.py").write_text("", encoding="utf-8")
    refused = house.done(question, "--more", code=2)
    assert "has changed since (plain_loop.py)" in " ".join(refused.err.split())
