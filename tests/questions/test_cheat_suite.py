"""The exhibits of bench/cheats: each is well formed, its twin does the base's work, and its cheat is one."""

from __future__ import annotations

import ast
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from laptime.model.other_work import WorkKind

CHEATS_FOLDER = Path(__file__).parents[2] / "bench" / "cheats"
PLAIN_STEPS = Path(__file__).with_name("plain_steps.py")
FILES = sorted(path for path in CHEATS_FOLDER.glob("*.py") if path.name not in {"shared.py", "run.py"})
SIDES = ("base", "honest", "cheat")
HEAD_LINES = 8
# Each takes a process that imports PyTorch, so a seventh of them are tried a day, and all by `make attack`.
PARTS = 1 if os.environ.get("LAPTIME_ATTACK") == "long" else 7
TODAYS = FILES[dt.datetime.now(dt.UTC).toordinal() % PARTS :: PARTS]
FIRST = 5  # steps in which base and twin have to agree
ALIKE = 1e-4
NEARLY_EQUAL = 1e-6
STEPS = 90  # after which each cheat shows, but for those that need laptime, or an earlier process, around them
NEED_A_JUDGE = {
    "burns_while_paused", "cache_next_to_itself", "edited_evaluator", "forged_pipe", "instance_clock", "lazy_loss",
    "losses_through_gc", "moved_start", "outside_time", "poisoned_commit", "replaced_encoder", "replayed_from_memory",
    "replayed_results", "rewritten_in_transit", "shortened_window", "stops_the_base", "told_by_dropout",
    "some_heats", "some_turns", "told_by_the_command_line", "told_by_the_kept_turn", "untimed_preparation",
    "untimed_tuning", "work_in_warm_up",
}  # fmt: skip


def take_steps(folder: Path, file: Path, steps: int) -> dict[str, dict]:
    """Return what each side of an exhibit did outside of laptime: base and candidate are copies in two folders."""
    for place in ("base", "candidate"):
        (folder / place).mkdir()
        for each in (file, CHEATS_FOLDER / "shared.py"):
            shutil.copy(each, folder / place / each.name)
    places = [f"{folder / ('base' if side == 'base' else 'candidate') / file.name}:{side}" for side in SIDES]
    command = [sys.executable, str(PLAIN_STEPS), str(steps), *places]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return {side: json.loads(line) for side, line in zip(SIDES, ended.stdout.splitlines(), strict=True)}


def apart(one: list[float], other: list[float]) -> float:
    return max(abs(mine - its) for mine, its in zip(one, other, strict=True))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_exhibit_says_what_it_does_where_it_was_met_and_what_refuses_it(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    head = ast.get_docstring(tree) or ""
    what, _, rest = head.partition("\n\n")
    assert what
    assert rest.startswith("Met: ")
    assert "\nRefused by: " in rest
    assert len(head.splitlines()) <= HEAD_LINES
    assert {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} >= {*SIDES}


def test_exhibits_are_known_by_names_that_a_verdict_has():
    names = {*get_args(WorkKind)}
    for file in FILES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NAMES":
                assert {*ast.literal_eval(node.value)} <= names, file.stem


@pytest.mark.framework
def test_a_twin_does_the_work_of_the_base_and_a_cheat_another(tmp_path):
    """Of one exhibit; the other ones are long."""
    took = take_steps(tmp_path, CHEATS_FOLDER / "another_seed.py", FIRST)
    base, honest, cheat = (took[side]["losses"] for side in SIDES)
    assert apart(base, honest) < ALIKE
    assert apart(base, cheat) > ALIKE


@pytest.mark.long
@pytest.mark.framework
@pytest.mark.parametrize("file", TODAYS, ids=lambda file: file.stem)
def test_each_twin_does_the_work_of_the_base_and_each_cheat_another_or_less(file, tmp_path):
    base, honest, cheat = take_steps(tmp_path, file, STEPS).values()
    assert "error" not in base | honest | cheat
    assert apart(base["losses"][:FIRST], honest["losses"][:FIRST]) < ALIKE
    if file.stem in NEED_A_JUDGE:
        return
    does_other_work = (
        apart(base["losses"], cheat["losses"]) > NEARLY_EQUAL
        or abs(cheat["moved"] / base["moved"] - 1) > NEARLY_EQUAL
        or cheat["kept"] != base["kept"]
    )
    hides_time = cheat["own_s"] < 0.8 * cheat["seen_s"] and cheat["seen_s"] > 0.8 * base["seen_s"]
    written = {each.name for each in tmp_path.rglob("*") if each.suffix != ".pyc"} - {file.name, "shared.py"}
    changed = any(each.read_bytes() != file.read_bytes() for each in tmp_path.rglob(file.name))
    assert does_other_work or hides_time or changed or len(written - {"base", "candidate", "__pycache__"}) > 0
