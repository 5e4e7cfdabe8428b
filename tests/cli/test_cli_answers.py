"""What each command prints for a program: one answer of its schema, or an error; nothing else is on stdout."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import cache
from pathlib import Path

import board_records
import click
import pytest
from board_records import kept
from jsonschema import Draft202012Validator

from laptime.cli.answers import ALL_SCHEMAS, ANSWERS, SCHEMAS, make_schema
from laptime.cli.main import COMMANDS, NO_JSON, find_command
from laptime.show.board.repeat import Repeated
from long_cases import cases

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "two_trainings.py"
HEATS = ("cifar-mlp", "fake/cpu", "--heats", "1", "-q")
SHORT = ("cifar-mlp", "fake/cpu", "--budget", "1s", "-q")
LAPS = ("cifar-mlp", "fake/cpu", "--laps", "1", "--steps-per-lap", "5", "-q")
# Each form of each command, as its row names it, with words that it takes.
TYPED = {
    "race": ("race", *HEATS),
    "train": ("train", *LAPS),
    "infer": ("infer", *HEATS),
    "profile": ("profile", "cifar-mlp", "fake/cpu", "-q"),
    "resume": ("resume", "ended.json", "--trust", "{ended}", "-q"),
    "show": ("show",),
    "race --dry-run": ("race", *HEATS, "--dry-run"),
    "train --dry-run": ("train", *LAPS, "--dry-run"),
    "infer --dry-run": ("infer", *HEATS, "--dry-run"),
    "tune --dry-run": ("tune", *SHORT, "--dry-run"),
    "sweep --dry-run": ("sweep", *SHORT, "--batch", "8,16", "--dry-run"),
    "scale --dry-run": ("scale", *SHORT, "--devices", "1,2", "--dry-run"),
    "forecast": ("forecast", "{raced}", "--on", "t4"),
    "forecast --check": ("forecast", "--check"),
    "list": ("list",),
    "compare": ("compare", "{raced}", "again.json"),
    "history": ("history", "cifar-cnn"),
    "report": ("report", "{raced}", "-o", "report.html"),
    "remove": ("remove", "@gone"),
    "export": ("export", "{raced}", "--to", "csv"),
    "import": ("import", "real.json"),
    "validate": ("validate", "real.json", "not.json"),
    "board add": ("board", "add", "real.json"),
    "board remake": ("board", "remake"),
    "board check": ("board", "check"),
    "board predict": ("board", "predict", "real.json", "cpu/best"),
    "board build": ("board", "build"),
    "devices": ("devices", "--framework", "fake"),
    "devices --check": ("devices", "--check", "--framework", "fake", "-q"),
    "workloads": ("workloads",),
    "workloads NAME": ("workloads", "plates-cnn"),
    "data": ("data",),
    "data list": ("data", "list"),
    "data make": ("data", "make", "cifar-mlp", "--items", "100"),
    "data remove": ("data", "remove", "{set}"),
    "help": ("help",),
    "help COMMAND": ("help", "board", "add"),
    "help all": ("help", "all"),
    "help lanes": ("help", "lanes"),
    "help exit-codes": ("help", "exit-codes"),
    "help schema": ("help", "schema"),
    # These take their time.
    "why": ("why", *SHORT),
    "tune": ("tune", *SHORT),
    "sweep": ("sweep", *SHORT, "--batch", "8,16"),
    "scale": ("scale", *SHORT, "--devices", "1,2"),
    "verdict": ("verdict", f"{EXAMPLE}:before", f"{EXAMPLE}:after", "python/cpu", "--budget", "5s", "-q"),
    "watch": ("watch", "-q", "--", sys.executable, "-c", "pass"),
}
SLOW = (
    *("why", "tune", "sweep", "scale", "verdict", "devices --check", "train", "infer", "profile", "resume"),
    *("board remake", "board predict", "board build", "data make", "data list", "train --dry-run"),
)
SCHEMA_OF = {command: row.schema for row in ANSWERS for command in row.commands}
MAY_BE_NO = {"validate", "verdict", "devices --check"}


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def raced(shared_house):
    """A house with a race, an ended training and a real record as files, a board, and made data."""
    shared_house.done("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2", "-q")
    (raced,) = shared_house.files()
    shared_house.done("train", *LAPS, "--label", "gone")
    (trained,) = set(shared_house.files()) - {raced}
    ended = {**json.loads(trained.read_bytes()), "id": "r-2026-01-01-abcd", "status": "interrupted"}
    ended["answer"]["runs"] = []
    (shared_house.folder / "ended.json").write_text(json.dumps(ended), encoding="utf-8")
    again = {**json.loads(raced.read_bytes()), "id": "r-2026-01-02-abcd"}
    again["tool"]["raced"] = raced.stem
    (shared_house.folder / "again.json").write_text(json.dumps(again), encoding="utf-8")
    (shared_house.folder / "not.json").write_text("{}", encoding="utf-8")
    (shared_house.folder / "real.json").write_bytes(board_records.encoded(kept()))
    shared_house.done("board", "add", "real.json")
    shared_house.done("data", "make", "cifar-mlp", "--items", "60")
    return shared_house


def filled(house, words):
    """Return the words with the names of what is in the house."""
    raced = json.loads((house.folder / "again.json").read_bytes())["tool"]["raced"]
    names = {"{raced}": raced, "{ended}": "r-2026-01-01-abcd"}
    if "{set}" in words:
        names["{set}"] = house.done("data", "--json").json[0]["name"]
    return [names.get(word, word) for word in words]


@pytest.mark.parametrize("typed", cases(*(each for each in TYPED if each not in SLOW), long=SLOW))
def test_an_answer_is_of_its_schema_and_alone_on_stdout(raced, typed):
    words = filled(raced, TYPED[typed])
    place = raced.folder / "watched.json"
    option = ("--json", str(place)) if typed == "watch" else ("--json",)
    answer = raced.run(words[0], *option, *words[1:]) if typed == "watch" else raced.run(*words, *option, is_wide=True)
    found = json.loads(place.read_bytes()) if typed == "watch" else answer.json
    assert answer.code in (range(6) if typed in MAY_BE_NO else {0, 4}), answer.err
    assert "error" not in found, found
    schema = validator(SCHEMA_OF[typed])
    assert [f"{fault.json_path}: {fault.message[:200]}" for fault in schema.iter_errors(found)] == []


# A real race of a minute (below), and a change of a real script (test_cli_apply.py).
ELSEWHERE = {"board repeat", "apply"}


def test_every_form_of_every_command_has_a_schema_and_is_tried():
    """A command that has none is in the one table of those, with its reason."""
    typed = [each for row in ANSWERS for each in row.commands]
    assert sorted(typed) == sorted({*TYPED, *ELSEWHERE})
    commands = {name: find_command(name) for name in COMMANDS}
    inner = {
        f"{name} {each}": command
        for name, group in commands.items()
        if isinstance(group, click.Group)
        for each, command in group.commands.items()
    }
    speaking = {
        name for name, each in (commands | inner).items() if any("--json" in param.opts for param in each.params)
    }
    assert speaking == {*commands, *inner} - set(NO_JSON)
    assert {
        name for name in speaking if not any(each == name or each.startswith(f"{name} ") for each in typed)
    } == set()


def test_the_schemas_in_the_package_are_those_of_its_classes():
    """`make schema` writes them again, and those of docs/."""
    assert {row.schema for row in ALL_SCHEMAS} == {place.stem for place in SCHEMAS.iterdir()}
    for row in ALL_SCHEMAS:
        text = make_schema(row)
        assert text == (SCHEMAS / f"{row.schema}.json").read_text(encoding="utf-8"), row.schema
        if row.schema not in {"record", "board-row"}:  # their own tests do
            Draft202012Validator.check_schema(json.loads(text))
    for name, place in (("record", "record"), ("verdict", "verdict"), ("board-row", "board")):
        text = (ROOT / "docs" / f"{place}.schema.json").read_text(encoding="utf-8")
        assert text == (SCHEMAS / f"{name}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(("words", "schema"), [("race", "record"), ("board add", "board-add"), ("error", "error")])
def test_help_prints_a_schema(house, words, schema):
    assert house.done("help", "schema", *words.split()).json == json.loads(
        (SCHEMAS / f"{schema}.json").read_text(encoding="utf-8")
    )


def test_a_schema_refuses_what_is_no_answer():
    """The tests above would see an answer that lacks a field, or has one of another kind."""
    whole = {"record": "r-2026-01-01-abcd", "to": "csv", "place": "it.csv"}
    assert validator("export").is_valid(whole)
    assert not validator("export").is_valid({**whole, "place": None})
    assert not validator("export").is_valid({"record": whole["record"]})
    assert not validator("list").is_valid({})
    repeated = Repeated("row.json", "r-2026-01-01-abcd", None, "It cannot be said.")
    assert validator("board-repeat").is_valid(asdict(repeated))
    assert not validator("board-repeat").is_valid({**asdict(repeated), "agrees": "yes"})


REFUSED = [
    ("rase",),
    ("race", "cifar-cn"),
    ("race", "--budget", "soon"),
    ("list", "--status", "won"),
    ("show", "r-2020"),
    ("completion", "bash"),
    ("board",),
    ("help", "nothing"),
    ("help", "schema", "nothing"),
    ("export", "latest", "--to", "csv", "-o", "-"),
    ("report", "-o", "-"),
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_an_error_is_json_on_stdout_and_three_lines_on_stderr(raced, words):
    answer = raced.run(*words, "--json")
    assert answer.code == answer.json["error"]["exit_code"] == 2
    validator("error").validate(answer.json)
    assert answer.json["error"]["hint"]
    assert 1 < len(answer.err.splitlines()) <= 3


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (
            ("race", "--on", "kubernetes"),
            "--on kubernetes: expected a cluster (ray, slurm, torchrun)",
            "such as --on ray",
        ),
        (
            ("verdict", "my.py:f", "my.py:f"),
            "BASE and CANDIDATE are both my.py:f",
            "laptime verdict base.py:f new.py:f",
        ),
        (("forecast", "latest", "--check"), "--check is of all records", "leave all else out"),
        (("watch", "--json"), "Option '--json' requires an argument.", "laptime watch --help"),
    ],
)
def test_a_mistake_is_named_with_the_way_out(raced, words, says, hint):
    """Each of these had the words of another mistake, or was ignored."""
    first, second = raced.done(*words, code=2).err.splitlines()
    assert first.startswith(f"laptime: {says}")
    assert hint in second


def test_json_of_a_script_or_a_watched_command_is_its_own(raced):
    """An error of ours is then no JSON: stdout is not for a program that reads ours."""
    for words in (("race", "nothing.py", "fake/cpu", "--", "--json"), ("watch", "nothing-of-that-name", "--json")):
        assert raced.run(*words).out == ""


def test_a_word_that_is_a_command_and_a_schema_means_one_schema():
    named = {row.schema for row in ALL_SCHEMAS}
    assert {word: found for word, found in SCHEMA_OF.items() if word in named and word != found} == {}
