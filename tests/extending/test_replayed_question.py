"""The question `sweep` once more: its folder, its row, and its field of an ask. Without them nothing knows of it.

When it was added, it took 23 files under src/ in 10 rooms.
"""

from __future__ import annotations

import pytest
from replay import HOUSE, ask, check_all_else_works, copy_without, files_naming

PLACES = {
    "questions/sweep": (),
    "model/questions.py": ("sweep",),
    "model/ask.py": ("SweepAsk", "sweep"),
}
NAMED_IN_A_HINT = {"questions/subject.py"}  # "a width is an axis of laptime sweep"
ANOTHER_SWEEP = {"engine/run/guardian.py"}  # of processes that are left

KNOWN = """
import json
from dataclasses import fields

import laptime
from laptime.cli.main import COMMANDS, FIRST_PAGE, find_command
from laptime.model.errors import UsageError
from laptime.library import functions
from laptime.library.asking import stub_text
from laptime.model.ask import Ask
from laptime.model.options import ASK_PARTS, OPTIONS, TRAINED, options_of
from laptime.model.questions import QUESTIONS
from laptime.store.schema import schema_text


def said(make):
    try:
        return make()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


command = find_command("sweep")
print(json.dumps({
    "command": [command is not None, "sweep" in COMMANDS, "sweep" in FIRST_PAGE["Ask"]],
    "names": sorted(name for name in laptime.__all__ if "sweep" in name.lower()),
    "function": said(lambda: laptime.sweep.__doc__[:14]),
    "options": [row.name for row in OPTIONS if "sweep" in row.questions and row.part],
    "shared": [len(TRAINED), [row.name for row in OPTIONS if "sweep" in row.questions and not row.part][:4]],
    "budget": [row.default_of("sweep") for row in options_of("race") if row.name == "budget"],
    "asks": ["sweep" in ASK_PARTS, "sweep" in {each.name for each in fields(Ask)}, Ask().question],
    "stub": stub_text(functions.FUNCTIONS).lower().count("sweep") > 0,
    "schema": "Sweep" in schema_text(),
    "listed": "sweep" in {value for row in find_command("list").params for value in getattr(row.type, "choices", ())},
    "others": [row.command for row in QUESTIONS if row.command != "sweep"],
}))
"""
OTHERS = ["race", "why", "watch", "tune", "verdict", "scale", "train", "infer", "profile"]


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    return copy_without(tmp_path_factory.mktemp("source"), PLACES)


def test_it_is_in_three_places():
    found = {place for place in files_naming("sweep", "Sweep") if not place.startswith("questions/sweep/")}
    assert found == {place for place in PLACES if place.endswith(".py")} | NAMED_IN_A_HINT | ANOTHER_SWEEP
    assert len(PLACES) == 3
    assert (HOUSE / "questions" / "sweep" / "run.py").is_file()


@pytest.mark.long
def test_with_them_every_table_has_it():
    assert ask(KNOWN) == {
        "command": [True, True, True],
        "names": ["SweepAsk", "SweepResult", "sweep"],
        "function": "Race the lanes",
        "options": ["batch", "threads", "workers", "items", "lr", "width"],
        "shared": [8, ["every", "data", "items", "pretrained"]],
        "budget": ["5m"],
        "asks": [True, True, "race"],
        "stub": True,
        "schema": True,
        "listed": True,
        "others": OTHERS,
    }


def test_without_its_three_places_nothing_knows_it(without):
    assert ask(KNOWN, without) == {
        "command": [False, False, False],
        "names": [],
        "function": "AttributeError: module 'laptime' has no attribute 'sweep'",
        "options": [],
        "shared": [7, []],
        "budget": ["60s"],
        "asks": [False, False, "race"],
        "stub": False,
        "schema": False,
        "listed": False,
        "others": OTHERS,
    }


@pytest.mark.long
def test_all_else_works_without_it(without, tmp_path):
    check_all_else_works(without, tmp_path)
