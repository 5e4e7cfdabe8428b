"""The options of commands, made from the table, and the ask that they make."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import click
from click.core import ParameterSource

from laptime import api
from laptime.cli.completion import complete_lane, complete_record, complete_what
from laptime.cli.main import Command, RareOption
from laptime.errors import UsageError
from laptime.model import options
from laptime.model.ask import DEFAULT_WORKLOAD, Ask
from laptime.model.option_kinds import FLAG, PATH, RECORD, SETTING, Option, OptionKind
from laptime.model.options import options_of
from laptime.model.plan import find_launcher

BEHIND = "laptime.behind"  # the words behind --, in a context's notes
Decorator = Callable[[Any], Any]

WHAT_ARGUMENT = click.argument("what", default=DEFAULT_WORKLOAD, shell_complete=complete_what)
LANES_ARGUMENT = click.argument("lanes", nargs=-1, metavar="[LANE]...", shell_complete=complete_lane)
ALL_FIELDS = click.option("--details", is_flag=True, help="Print all fields below the page.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would run, and run nothing.")


class OfKind(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A value of a kind, read as its row in the table says."""

    def __init__(self, kind: OptionKind) -> None:
        self.name, self._kind = kind.name, kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._kind.of_text(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def takes(*decorators: Decorator) -> Decorator:
    """Return a decorator that adds these options to a command."""
    return lambda function: reduce(lambda made, option: option(made), reversed(decorators), function)


def options_for(question: str) -> list[Decorator]:
    """Return what adds each option of a question to its command."""
    return [_decorator(row, question) for row in options_of(question) if row.only != "library"]


def _decorator(row: Option, question: str) -> Decorator:
    default = row.default_of(question)
    looks: dict[str, Any] = {"help": row.help, "metavar": row.metavar, "cls": RareOption if row.is_rare else None}
    if row.kind is FLAG:
        looks["is_flag"] = True
    elif row.choices:
        looks["type"] = click.Choice(row.choices)
    else:
        looks["type"] = click.Path() if row.kind is PATH else OfKind(row.kind)  # a shell completes its files
    if row.kind is SETTING:
        looks["multiple"] = True
    if row.kind is RECORD:
        looks["shell_complete"] = complete_record
    if default is not None:
        looks |= {"default": default, "show_default": True}
    return click.option(row.option, row.name, **looks)


def make_ask(question: str, given: dict[str, Any]) -> Ask:
    """Turn a command's options into an ask. `laptime race torch/cpu cpu/best` means the default workload.

    Words that name a file after the first are further trainings. Behind -- are a script's arguments, or a command.
    """
    values = {name: value for name, value in given.items() if value is not None and value is not False and value != ()}
    what, words = values.pop("what"), tuple(values.pop("lanes", ()))
    if isinstance(values.get("on"), tuple):
        values["on"], devices = _split_on(values["on"])
        words = (*words, *devices)
    if api.names_a_lane(what):
        what, words = DEFAULT_WORKLOAD, (what, *words)
    subject: dict[str, Any] = {
        "what": what,
        "others": tuple(word for word in words if api.names_a_file(word)),
        "lanes": tuple(word for word in words if not api.names_a_file(word)),
    }
    context = click.get_current_context()
    if (behind := context.meta.get(BEHIND)) is not None:
        names_none = context.get_parameter_source("what") is ParameterSource.DEFAULT or what != given["what"]
        if names_none and not behind:
            raise UsageError("there is no script to race", "name one: laptime race train.py -- --epochs 3")
        subject |= {"what": "" if names_none else what, "command": behind}
    return options.make_ask(question, values, **subject)


def _split_on(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the cluster that --on names, or None, and the devices that it names."""
    clusters = [word for word in words if find_launcher(word) is not None]
    if len(clusters) > 1:
        raise UsageError(f"--on {','.join(words)}: a race runs on one cluster", f"name one: --on {clusters[0]}")
    return next(iter(clusters), None), tuple(word for word in words if word not in clusters)


class ScriptCommand(Command):
    """A command whose words behind -- are a script's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            place = args.index("--")
            ctx.meta[BEHIND] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)
