"""A race of a script that nobody changes: which script is meant, by which Python, and what its lanes are."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from laptime.disk import expand_home, name_in_utf8
from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.frameworks import find_framework
from laptime.model.machine import Machine
from laptime.model.plan import Subject
from laptime.planner.script_lanes import plan_script
from laptime.questions.asking import Prepared, scout_machine
from laptime.questions.subject import family_in, read_tree, trainings_in

ENGINES = {"keras": ("keras-tf", "keras-jax", "keras-torch"), "jax": ("jax",), "torch": ("torch",)}


def means_a_script(ask: Ask) -> bool:
    """Whether an ask is about a script: a Python file that makes no Training, or a whole command."""
    if ask.others or (not ask.command and not ask.what.endswith(".py")):
        return False
    if ask.command:
        return not ask.what or ask.what.endswith(".py")
    file = expand_home(ask.what, "the script")
    return file.is_file() and not trainings_in(read_tree(file))


def prepare_script(ask: Ask, machine: Machine) -> Prepared:
    """Find the script and the devices that it may see, and plan the lanes."""
    subject = describe_script(ask)
    seen = see_devices(ask, subject, machine)
    return Prepared(plan_script(ask, seen, subject), seen, None)


def see_devices(ask: Ask, subject: Subject, machine: Machine) -> Machine:
    """Scout one framework that the script may use: what it sees of the devices is what the script can see.

    Where only the processor is named, nothing has to be found out.
    """
    if ask.lanes and all(text.partition("/")[0] == "cpu" for text in ask.lanes):
        return machine
    installed = [each.name for each in machine.frameworks]
    wanted = [each for each in ENGINES[subject.written_for or "torch"] if each in installed]
    others = (each for each in installed if find_framework(each).runs_own_code and each != "python")
    return scout_machine(machine, wanted[:1] or [*others][:1], ask.patience_s)


def describe_script(ask: Ask) -> Subject:
    """Return the script of an ask, with the command that runs it."""
    file = None
    command = ask.command
    if ask.what:
        file = expand_home(ask.what, "the script")
        if not file.is_file():
            raise UsageError(f"there is no file {file}", "give the path of a script: laptime race train.py")
        command = (python_here(), str(file), *ask.command)
    named = file or next((Path(word) for word in command if word.endswith(".py")), Path(command[0]))
    return Subject(
        name=named.name,
        title=shlex.join([named.name, *ask.command] if ask.what else command),
        parameters=None,
        batch=None,
        steps_per_lap=None,
        laps=None,
        items="items",
        file=None if file is None else name_in_utf8(file.resolve(), "Rename the file or its folder."),
        command=tuple(command),
        written_for=None if file is None else _family_of(file),
    )


def _family_of(file: Path) -> str | None:
    """Return what a script is written for, of the frameworks that its text names."""
    family = family_in(read_tree(file))
    return family if family in ENGINES else None


def python_here() -> str:
    """Return the Python that runs a script: the one that the shell would run, else the one that runs laptime."""
    return shutil.which("python") or shutil.which("python3") or sys.executable
