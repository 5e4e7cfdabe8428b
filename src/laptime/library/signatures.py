"""The signatures of the library's functions, made from the table of options: at run time, and as a stub for editors."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, TypeVar

from laptime.model.option_kinds import FLAG, Option
from laptime.model.options import options_of
from laptime.model.questions import public_names

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
    "laptime.library.saved": {"Recorded"},
    "laptime.questions.tune.options": {"AimWord"},
}


def with_options(question: str) -> Callable[[Function], Function]:
    """Return a decorator that gives a function, which takes any arguments, the signature with a question's options."""

    def decorate(function: Function) -> Function:
        plain = inspect.signature(function)
        own = [each for each in plain.parameters.values() if each.kind in OWN_NAMES]
        rows = [_parameter(row) for row in options_of(question) if row.only != "command"]
        signature = plain.replace(parameters=[*own, *rows])
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


def _parameter(row: Option) -> inspect.Parameter:
    default, annotation = (False, "bool") if row.kind is FLAG else (None, f"{row.kind.annotation} | None")
    return inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


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
    lines = [_import_of(module, sorted(imported[module])) for module in sorted(imported)]
    public = [f'    "{name}",' for name in sorted(public_names())]
    head = "\n".join([*lines, "", "__all__ = [", *public, "]", ""])
    return "\n".join([STUB_HEAD + head, *map(_stub_of, functions)])


def _import_of(module: str, names: list[str]) -> str:
    """Return an import as the formatter writes it: on one line if it fits."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= LONGEST_LINE:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _stub_of(function: Callable[..., Any]) -> str:
    """Return one function as a stub: a line an argument, and its docstring."""
    signature = inspect.signature(function)
    lines, has_star = [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not has_star:
            lines.append("    *,")
            has_star = True
        default = "" if each.default is each.empty else f" = {_literal(each.default)}"
        lines.append(f"    {each.name}: {each.annotation}{default},")
    doc = f'    """{function.__doc__}"""'
    return "\n".join([f"def {function.__name__}(", *lines, f") -> {signature.return_annotation}:", doc, ""])


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
