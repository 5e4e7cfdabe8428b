"""`%%race` and its kin, after `%load_ext laptime`: the cell writes a training, and the magic asks a question of it."""

from __future__ import annotations

import ast
import difflib
import shlex
from functools import partial
from typing import Any

from laptime.library.notebook import ASKS
from laptime.library.results import QuestionCall, Result
from laptime.model.errors import UsageError
from laptime.model.option_kinds import COUNT, COUNTS, FLAG, ITEMS, NUMBER, NUMBERS
from laptime.model.options import options_of
from laptime.model.questions import QUESTIONS
from laptime.questions.subject import find_callable, find_trainings

NEEDS_A_TRAINING = "Write it in the cell: def training(): return laptime.Training(model=..., loss=..., data=...)."
PARSED = (COUNT, COUNTS, ITEMS, NUMBER, NUMBERS)  # a call takes other values as they were typed


def register(shell: Any) -> None:
    """Add a cell magic for each question to a running IPython."""
    for name in ASKS:
        shell.register_magic_function(partial(ask, shell, name), "cell", name)


def ask(shell: Any, question: str, line: str, cell: str) -> Result | None:
    """Run the cell, then ask the question of the training that it defines. None if the cell itself failed."""
    lanes, arguments = read_line(question, line)
    function = name_training(cell)
    if not shell.run_cell(cell, store_history=False).success:
        return None
    call = next(row for row in QUESTIONS if row.command == question).part(QuestionCall).ask
    return call(shell.user_ns[function], lanes, **arguments)


def name_training(cell: str) -> str:
    """Return the function of the cell that returns its training: the last one that does, or else that needs nothing."""
    try:
        tree = ast.parse(cell)
    except SyntaxError as error:
        raise UsageError(
            f"the cell cannot be read as Python: {error}", "Magics of other kinds go into other cells."
        ) from None
    found = find_trainings(tree) or find_callable(tree)
    if not found:
        raise UsageError("this cell has no function that returns a training", NEEDS_A_TRAINING)
    return found[-1]


def read_line(question: str, line: str) -> tuple[list[str], dict[str, object]]:
    """Return the lanes and the arguments of a magic's line, which has the options of the command."""
    rows = {row.option: row for row in options_of(question) if row.only != "command"}
    lanes: list[str] = []
    arguments: dict[str, object] = {}
    words = shlex.split(line)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            lanes.append(word)
            continue
        option, equals, value = word.partition("=")
        if option not in rows:
            near = difflib.get_close_matches(option, rows, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"help(laptime.{question}) lists the options."
            raise UsageError(f"there is no option {option}", hint)
        row = rows[option]
        if row.kind is FLAG:
            arguments[row.name] = True
        elif equals or words:
            text = value if equals else words.pop(0)
            try:
                arguments[row.name] = row.kind.of_text(text) if row.kind in PARSED and text != "all" else text
            except ValueError as error:
                hint = f"help(laptime.race) says what {row.name} is."
                raise UsageError(f"{row.option} {text}: {error}", hint) from None
        else:
            raise UsageError(f"{option} needs a value", "such as --budget 2m")
    return lanes, arguments
