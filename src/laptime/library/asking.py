"""From the arguments of a call to an `Ask`, and the signatures of these calls: each argument has the name of the
command line's option.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypeVar

from laptime import api
from laptime.library.notebook import file_of_cells, find_shell, is_of_a_cell
from laptime.model import options
from laptime.model.ask import DEFAULT_WORKLOAD, Ask
from laptime.model.errors import UsageError
from laptime.model.option_kinds import FLAG
from laptime.model.options import ASK_PARTS, OPTIONS, PLAIN_ASKS, PLAN, find_option, options_of, set_values
from laptime.model.questions import find_question, public_names
from laptime.model.record import Record

OneTraining: TypeAlias = str | os.PathLike[str] | Callable[[], object]
What: TypeAlias = OneTraining | Ask
Trainings: TypeAlias = Sequence[OneTraining]
LaneNames: TypeAlias = str | Sequence[str]
DurationLike: TypeAlias = str | float
ItemsLike: TypeAlias = int | Literal["all"]
PathLike: TypeAlias = str | os.PathLike[str]
ShareLike: TypeAlias = str | float

# What an argument is called whose option has another name.
ARGUMENT_OF = {
    **{row.option: row.name for row in OPTIONS if row.only != "command"},
    "--framework": "frameworks",  # of `laptime devices`
}
OPTION_IN_TEXT = re.compile(r"(?<!\S)--[a-z]+(?:-[a-z]+)*")


def make_ask(what: What | Trainings, lanes: LaneNames, question: str = "race", **given: object) -> Ask:
    """Return the ask of a call. An argument that is None or False was left out, and has the default of the command.

    The trainings of a list race each other.
    """
    read = read_arguments(question, given)
    named = read_lanes(lanes)
    if isinstance(what, Ask):
        names = [*(name for name in read if not find_option(question, name).part), *(["lanes"] if named else [])]
        if names:
            raise UsageError(
                f"an Ask has all arguments in it, and {', '.join(names)} was given too", "Set it in the Ask."
            )
        return _complete(what, question, read)
    trainings: Trainings = [what] if isinstance(what, str) or not isinstance(what, Sequence) else what
    if not trainings:
        raise UsageError("an empty list names no training", "Give a training, or a list of trainings to race.")
    first, *others = map(name_subject, trainings)
    return options.make_ask(question, read, what=first, others=tuple(others), lanes=named)


def _complete(ask: Ask, question: str, read: Mapping[str, object]) -> Ask:
    """Return an ask that means a question, with what was given of the part that only this question has."""
    if question == PLAN:
        return ask
    check_call(ask, question)
    plain = PLAIN_ASKS.get(question, ask)
    part = next((name for name in ASK_PARTS if getattr(plain, name) is not None), None)
    if part is None:
        return ask if plain is ask else replace(ask, infer=plain.infer, profile=plain.profile)
    asked = getattr(ask, part)
    if asked is None:
        return set_values(replace(ask, **{part: getattr(plain, part)}), question, read)
    if read:
        says = "an Ask has all arguments in it, and others were given too"
        raise UsageError(says, f"Set them in its {type(asked).__name__}.")
    return ask


def ask_again(
    before: Record, what: object, lanes: LaneNames, *, found_as: str | None, trust: str | None, given: Mapping[str, Any]
) -> Ask:
    """Return the ask that runs a recorded race again, which was `found_as` that name. Refuse what would change it."""
    changed = [name for name, value in given.items() if value is not None and value is not False and name != "label"]
    changing = [*(["what"] if what != DEFAULT_WORKLOAD else []), *(["lanes"] if read_lanes(lanes) else []), *changed]
    label = None if (named := given.get("label")) is None else read_argument("label", named)
    if changing:
        says = f"against runs a race again as it was, and {', '.join(changing)} would change it"
        raise UsageError(says, "Leave it out, or race without against and then: laptime.compare(before, result).")
    with options_as_arguments():
        return api.ask_again(before, label, name=found_as, trust=trust)


def check_threshold(ask: Ask, before: Record | None, fail_above: float | None) -> None:
    """Refuse a threshold for a race that has nothing to compare with."""
    if fail_above is not None and before is None and not ask.others:
        raise UsageError(
            "fail_above compares two trainings, and one is given",
            "laptime.race([before, after], fail_above='5%'), or laptime.race(against='@main', fail_above='5%')",
        )


def check_call(ask: Ask, call: str) -> None:
    """Refuse an ask that means another function than the one that was called."""
    meant = find_question(ask.question).command
    if meant not in {call, "race"}:
        field = find_question(ask.question).field
        raise UsageError(
            f"this Ask has {field}, which laptime.{call} does not run",
            f"Call laptime.{meant} with it, or leave {field} out.",
        )


def read_lanes(lanes: LaneNames) -> tuple[str, ...]:
    """Return the names of lanes; one lane may be given as a text."""
    named: Sequence[str] = (lanes,) if isinstance(lanes, str) else lanes
    if not isinstance(named, Sequence) or not all(isinstance(name, str) for name in named):
        raise UsageError(f"lanes={lanes!r}: expected the names of lanes", "such as ['cpu', 'cuda/best']")
    return tuple(named)


@contextmanager
def options_as_arguments() -> Iterator[None]:
    """Name arguments in errors as Python does: `sensor_rate`, where the command line has `--sensor-rate`."""
    try:
        yield
    except UsageError as error:
        raise UsageError(_as_arguments(error.says), _as_arguments(error.hint)) from None


def _as_arguments(sentence: str) -> str:
    return OPTION_IN_TEXT.sub(lambda found: ARGUMENT_OF.get(found[0], found[0]), sentence)


def read_arguments(question: str, given: Mapping[str, object]) -> dict[str, Any]:
    """Return what was given of a question's arguments, read; what is None or False was left out."""
    for name in given.keys() - {row.name for row in options_of(question) if row.only != "command"}:
        raise TypeError(f"laptime.{question}() got an unexpected keyword argument '{name}'")
    wanted = {name: value for name, value in given.items() if value is not None and value is not False}
    return {name: read_argument(name, value, question) for name, value in wanted.items()}


def read_argument(name: str, value: object, question: str = "race") -> Any:
    try:
        return find_option(question, name).kind.of_value(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}={value!r}: {error}", f"help(laptime.race) says what {name} is.") from None


# What is trained, as the engine names it: a workload's name, or `file.py:function` for a function or a path.

AT_THE_TOP = "Write a function without arguments at the top of a file or a cell: `def training(): ...`, and give that."
NEEDS_NONE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def name_subject(what: object) -> str:
    """Return a workload's name or `file.py:function`. The processes that train it import the file."""
    if isinstance(what, str | os.PathLike):
        return str(os.fspath(what))
    if not callable(what):
        raise UsageError(
            f"{_brief(what)} is not a training",
            "Give a function that returns a laptime.Training, 'file.py:function', or a workload's name: 'cifar-cnn'.",
        )
    function: Callable[..., object] = what
    name = _name_at_the_top(function)
    _check_arguments(function, name)
    module = sys.modules.get(function.__module__)
    if getattr(module, name, None) is not function:
        raise UsageError(f"'{name}' is not this function's name at the top of {function.__module__}", AT_THE_TOP)
    file = file_of_cells(name) if is_of_a_cell(function) else _file_of(function, module, name)
    return f"{file}:{name}"


def _name_at_the_top(function: Callable[..., object]) -> str:
    """Return the function's name. Refuse what another process cannot find under a name."""
    name = getattr(function, "__qualname__", "")
    if inspect.isclass(function) or not name:
        raise UsageError(f"{_brief(function)} is not a function", AT_THE_TOP)
    if name.endswith("<lambda>"):
        raise UsageError("a lambda has no name by which another process can find it", AT_THE_TOP)
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        says = f"'{inner}' is defined inside '{outer.rpartition('.')[2]}', where another process cannot find it"
        raise UsageError(says, AT_THE_TOP)
    if "." in name or inspect.ismethod(function):
        raise UsageError(f"'{name}' is a method", AT_THE_TOP)
    return name


def _check_arguments(function: Callable[..., object], name: str) -> None:
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [
        f"'{parameter.name}'"
        for parameter in given
        if parameter.default is parameter.empty and parameter.kind not in NEEDS_NONE
    ]
    if needed:
        says = f"'{name}' needs {', '.join(needed)}, and laptime calls it without arguments"
        raise UsageError(says, f"Write a function that calls it: `def training(): return {name}(...)`, and give that.")


def _file_of(function: Callable[..., object], module: ModuleType | None, name: str) -> str:
    """Return the file that holds the function."""
    named = getattr(module, "__file__", None)
    if named is None and find_shell() is not None:  # IPython's %run leaves the functions, and not the module
        named = inspect.getsourcefile(inspect.unwrap(function))
    if named is None or not Path(named).is_file():
        raise UsageError(
            f"'{name}' is in no file: it was typed, or made by a program",
            f"Save it in a file, and give 'file.py:{name}'.",
        )
    file = Path(named).resolve()
    if file.suffix != ".py":
        raise UsageError(f"'{name}' is in {file.name}, which is no .py file", "Save it in a file that ends with .py.")
    return str(file)


def _brief(what: object) -> str:
    """Return what was given, short enough for a sentence."""
    shown = repr(what)
    return shown if len(shown) <= 60 else f"a {type(what).__name__}"


# The signatures of the library's functions, made from the table of options: at run time, and as a stub for editors.

Function = TypeVar("Function", bound=Callable[..., Any])
OWN_NAMES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
STUB_HEAD = '''\
# ruff: noqa: PYI021  an editor shows what a stub says
"""Made from the tables of questions and options by `make signatures`: what type checkers read of `functions.py`."""

from collections.abc import Mapping, Sequence

'''
LONGEST_LINE = 120
# What annotations of options name.
ANNOTATIONS = {
    "laptime.library.asking": {
        "DurationLike",
        "ItemsLike",
        "LaneNames",
        "OneTraining",
        "PathLike",
        "ShareLike",
        "Trainings",
        "What",
    },
    "laptime.library.calls": {"Recorded"},
    "laptime.questions.tune.options": {"AimWord"},
}


def with_options(question: str) -> Callable[[Function], Function]:
    """Return a decorator that gives a function, which takes any arguments, the signature with a question's options."""

    def decorate(function: Function) -> Function:
        plain = inspect.signature(function)
        own = [parameter for parameter in plain.parameters.values() if parameter.kind in OWN_NAMES]
        options: list[inspect.Parameter] = []
        for row in options_of(question):
            if row.only != "command":
                default = False if row.kind is FLAG else None
                annotation = "bool" if row.kind is FLAG else f"{row.kind.annotation} | None"
                kind = inspect.Parameter.KEYWORD_ONLY
                options.append(inspect.Parameter(row.name, kind, default=default, annotation=annotation))
        signature = plain.replace(parameters=[*own, *options])
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


def stub_text(functions: list[Callable[..., Any]]) -> str:
    """Return the stub of these functions, with the classes that the questions have in `import laptime`."""
    named = {function.__name__ for function in functions}
    imported = {module: set(names) for module, names in ANNOTATIONS.items()}
    for name, place in public_names().items():
        if name not in named:
            imported.setdefault(place.partition(":")[0], set()).add(name)
    for function in functions:
        result = inspect.signature(function).return_annotation
        imported.setdefault(function.__globals__[result].__module__, set()).add(result)
    lines: list[str] = []
    for module in sorted(imported):  # as the formatter writes an import: on one line if it fits
        names = sorted(imported[module])
        line = f"from {module} import {', '.join(names)}"
        if len(line) > LONGEST_LINE:
            line = "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])
        lines.append(line)
    public = [f'    "{name}",' for name in sorted(public_names())]
    head = "\n".join([*lines, "", "__all__ = [", *public, "]", ""])
    return "\n".join([STUB_HEAD + head, *map(_stub_of, functions)])


def _stub_of(function: Callable[..., Any]) -> str:
    """Return one function as a stub: a line an argument, and its docstring."""
    signature = inspect.signature(function)
    lines: list[str] = []
    has_star = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            lines.append("    *,")
            has_star = True
        value = parameter.default
        default = json.dumps(value) if isinstance(value, str) else repr(value)
        end = "" if value is parameter.empty else f" = {default}"
        lines.append(f"    {parameter.name}: {parameter.annotation}{end},")
    doc = f'    """{function.__doc__}"""'
    return "\n".join([f"def {function.__name__}(", *lines, f") -> {signature.return_annotation}:", doc, ""])
