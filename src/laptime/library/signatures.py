"""The signatures of the library's functions, made from the table of options: at run time, and as a stub for editors."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any, TypeVar

from laptime.model.options import FLAG, Option, options_of

Function = TypeVar("Function", bound=Callable[..., Any])
OWN_NAMES = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
HEAD = '''\
# ruff: noqa: PYI021  an editor shows what a stub says
"""Made from the table of options by `make signatures`: what editors and type checkers read of `functions.py`."""

from collections.abc import Mapping, Sequence

from laptime.library.asking import DurationLike, Items, LaneNames, PathLike, ShareLike, Trainings, What
from laptime.library.results import (
    PlanResult,
    RaceResult,
    Result,
    ScaleResult,
    SweepResult,
    TuneResult,
    WatchResult,
    WhyResult,
)
from laptime.library.saved import Recorded
from laptime.questions.forecast.call import ForecastResult
from laptime.questions.tune.nouns import AimWord
'''


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
    """Return the stub of these functions."""
    return "\n".join([HEAD, *map(_stub_of, functions)])


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
