"""The commands that only look: plan, workloads, devices, list and show, for people and for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from laptime.model.questions import QUESTIONS
from laptime.trainings.workloads import CATALOGUE

LOOKING = {
    "plan": ("race", "cifar-cnn", "fake/cpu", "fake/cuda/best", "--dry-run"),
    "workloads": ("workloads",),
    "list": ("list",),
    "show": ("show", "latest"),
}


@pytest.fixture(scope="module")
def raced(shared_house):
    """Keep one record in the house that this module shares."""
    shared_house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2")
    return shared_house


@pytest.mark.parametrize("words", LOOKING.values(), ids=LOOKING)
def test_looking_says_nothing_but_the_answer(raced, words):
    """Exit code 0, an answer on stdout, nothing on stderr, and nothing new on disk."""
    before = raced.files()
    answer = raced.run(*words)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.strip()
    assert before == raced.files()


@pytest.mark.parametrize("words", LOOKING.values(), ids=LOOKING)
def test_looking_speaks_json(raced, words):
    """--json is JSON and nothing else."""
    answer = raced.run(*words, "--json")
    assert (answer.code, answer.err) == (0, "")
    assert answer.json


@pytest.mark.parametrize("words", LOOKING.values(), ids=LOOKING)
def test_looking_keeps_to_the_page(raced, words):
    """No line is wider than COLUMNS."""
    answer = raced.run(*words, env={"COLUMNS": "80"})
    assert max(map(len, answer.out.splitlines())) <= 80


def test_a_plan_says_all_that_would_run(raced):
    """Lanes with every setting filled in, the proof, the pace and what was asked."""
    plan = raced.run(*LOOKING["plan"], "--budget", "2m", "--json").json
    assert [lane["name"] for lane in plan["lanes"]] == ["fake/cpu/as-written", "fake/cuda:0/best"]
    assert plan["lanes"][1]["settings"] == {
        "preset": "best",
        "precision": "fp32",
        "execution": "graph",
        "layout": "channels_last",
        "optimizer": "fused",
        "threads": None,
        "malloc": "system",
        "input": "resident",
        "workers": None,
        "batch": None,
        "learning_rate": None,
        "steps_per_execution": None,
        "denormals": "keep",
        "reads": "at once",
        "joined": None,
        "extra": {},
    }
    assert plan["pace"] == {
        "heats_min": 3,
        "heats_max": 15,
        "adaptive": True,
        "measure_s": 1.5,
        "window_s": 0.25,
        "windows_min": 4,
        "reruns_max": 3,
        "takes_turns": True,
        "steps_most": None,
        "known_step_ns": None,
        "reach_step": 0,
        "shares_steps": False,
    }
    assert plan["ask"]["budget_s"] == 120.0


def test_a_plan_for_people_names_lanes_heats_proof_and_budget(raced):
    """What would take time is said before it does."""
    out = raced.run(*LOOKING["plan"]).out
    assert "fake/cuda:0/best  fake on fake accelerator" in out
    assert "heats: 3 to 8 of each lane, in turns, until every ratio is well within 5 % or the budget is used" in out
    assert "proof: 10 steps of batch 32 at 0.01 of the learning rate, against float64" in out


def test_a_plan_is_what_the_race_then_runs(raced):
    """The settings of the record are those of the plan."""
    plan = raced.run("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--dry-run", "--json").json
    (record,) = [json.loads(place.read_bytes()) for place in raced.files()]
    assert [lane["settings"] for lane in plan["lanes"]] == [lane["settings"] for lane in record["lanes"]]


def test_workloads_are_a_list_of_objects(raced):
    """Every entry of the catalogue with its size and its protocol."""
    rows = raced.run("workloads", "--json").json
    assert list(CATALOGUE) == [row["name"] for row in rows]
    assert {42_520_584, 1_337_002, 12_230_010, 6_955_906, 264_560} == {row["parameters"] for row in rows}
    assert all({"batch", "steps_per_lap", "laps", "loss", "published"} <= row.keys() for row in rows)


def test_workloads_for_people_show_each_with_its_parameters(raced):
    """One line or more for each."""
    out = raced.run("workloads").out
    assert all(name in out for name in CATALOGUE)
    assert "12,230,010" in out


def test_devices_are_a_list_of_objects(raced):
    """What can be used, and why the rest cannot."""
    asked = ("devices", "--framework", "fake")
    answer = raced.run(*asked, "--json")
    rows = {(row["framework"], row["name"]): row for row in answer.json}
    assert answer.code == 0
    assert {"kind": "cpu", "usable": True, "reason": None}.items() <= rows["fake", "cpu"].items()
    assert {"kind": "cuda", "usable": False, "reason": "it is out of order"}.items() <= rows["fake", "cuda:1"].items()
    assert "cuda:1" in raced.run(*asked, env={"COLUMNS": "80"}).out


def test_records_are_listed_newest_first(house):
    """Two races, the later one on top, each with what came out."""
    assert "No records yet; laptime race makes one." in house.run("list").out
    assert house.run("list", "--json").json == []
    ids = [house.raced(*words, "--heats", "1")["id"] for words in (("fake/cpu",), ("fake/cpu", "fake/cuda"))]
    rows = house.run("list", "--json").json
    assert set(ids) == {row["id"] for row in rows}
    assert sorted((row["started"] for row in rows), reverse=True) == [row["started"] for row in rows]
    assert {("cifar-cnn", "finished", "race")} == {(row["workload"], row["status"], row["question"]) for row in rows}
    assert all(each in house.run("list").out for each in ids)


@pytest.mark.parametrize("how", ["id", "beginning", "file", "latest", "nothing"])
def test_a_record_is_shown_however_it_is_named(raced, how):
    """By its id, a beginning of it, its file, or as the latest: the same words as when the race ended."""
    (place,) = raced.files()
    words = {
        "id": [place.stem],
        "beginning": [place.stem[:-1]],
        "file": [str(place)],
        "latest": ["latest"],
        "nothing": [],
    }
    answer = raced.run("show", *words[how], "--details")
    assert answer.code == 0
    assert "fake/cpu/best  25.0 s ±0 %  50.0 ms ±0 %     2,000  2.00x faster (2.00-2.00)  yes" in answer.out


def test_a_record_is_shown_as_it_was_printed(house):
    """To the letter."""
    printed = house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2")
    assert printed.out == house.run("show", "--details").out


def test_a_record_is_shown_as_it_is_kept(raced):
    """--json gives the file's own content, without the signature."""
    (place,) = raced.files()
    kept = json.loads(place.read_bytes())
    assert kept.pop("signature")
    assert kept == raced.run("show", place.stem, "--json").json


def test_records_are_marked_and_removed(house):
    """Figures of fakes are made up. A record goes with what belongs to it, and none goes if one cannot."""
    ids = [house.raced("fake/cpu", "--heats", "1")["id"] for _ in range(2)]
    assert "cifar-cnn (fake)" in house.run("list").out
    assert [row["is_fake"] for row in house.run("list", "--json").json] == [True, True]
    belongs = [house.home / "traces" / f"{ids[0]}-lane.json.gz", house.home / "checkpoints" / ids[0] / "lane.npz"]
    for place in belongs:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x")
    refused = house.done("remove", ids[0], "r-2000-01-01-0000", code=2)
    assert "there is no record 'r-2000-01-01-0000'" in refused.err
    assert house.done("remove", ids[0]).out == f"removed {ids[0]}\n"
    assert [place.stem for place in house.files()] == [ids[1]]
    assert not any(place.exists() for place in belongs)
    assert house.done("remove", ids[1][:-1], "--json").json == [ids[1]]
    assert "No records yet" in house.run("list").out


@pytest.mark.long
def test_every_question_can_be_listed(raced):
    """By the name of its command; the races that are here are answers to one of them."""
    for question in QUESTIONS:
        rows = raced.done("list", "--question", question.command, "--json").json
        assert bool(rows) == (question.name == "race"), question.name


def test_laptime_alone_prints_its_help(house):
    """Which is an answer, and no mistake."""
    alone = house.done()
    assert alone.out == house.done("--help").out


HEAVY = ("laptime.model.", "laptime.questions", "laptime.api", "laptime.api.showing", "laptime.store.", "numpy")


def test_help_imports_a_table_and_no_nouns():
    """They take a tenth of a second, and help is to be instant."""
    light = {f"laptime.model.{each}" for each in ("questions", "errors", "visible")}
    assert {each for each in _imported_by("--help") if each.startswith(HEAVY)} == light


def test_a_list_of_known_records_imports_their_rows_alone(raced):
    """Nouns, questions and pages took 0.3 s: a list that the index holds reads no record."""
    os.utime(raced.home / "records", (1, 1))  # the index trusts only a folder that did not change just now
    raced.done("list")
    lean = {
        "model.errors", "model.questions", "model.quantities", "model.rows", "model.visible", "store.disk",
        "store.index", "store.plain_json",
    }  # fmt: skip
    for words in (["list"], ["list", "--json"], ["list", "--details", "--lane", "cpu"]):
        imported = {each for each in _imported_by(*words, LAPTIME_HOME=str(raced.home)) if each.startswith(HEAVY)}
        assert imported == {f"laptime.{each}" for each in lean}, words


def test_a_list_of_no_records_imports_no_noun_either(tmp_path):
    (tmp_path / "records").mkdir()
    imported = _imported_by("list", LAPTIME_HOME=str(tmp_path))
    assert "laptime.store.index" in imported
    assert not {"laptime.store.files", "laptime.model.record"} & set(imported)


def _imported_by(*words: str, **variables: str) -> list[str]:
    """Return the modules that a command imports in a process of its own."""
    looks = "import atexit, sys; atexit.register(lambda: print('MODULES', *sys.modules)); from laptime import __main__"
    command = [sys.executable, "-c", f"{looks}; __main__.main()", *words]
    ended = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60, env={**os.environ, **variables}
    )
    modules = ended.stdout.rpartition("MODULES ")[2].split()
    assert "laptime.cli.main" in modules
    return modules
