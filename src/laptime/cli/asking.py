"""The arguments of commands: their types, which command takes which, and the ask that they make."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import click
from click.core import ParameterSource

from laptime import api
from laptime.cli.completion import complete_lane, complete_what
from laptime.cli.main import Command, rare
from laptime.errors import UsageError
from laptime.model.ask import DEFAULT_WORKLOAD, Ask, FullAsk, TypePrice
from laptime.model.plan import find_launcher
from laptime.model.quantities import parse_duration, parse_share
from laptime.model.sample import SENSORS as SENSOR_ROWS


class Duration(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A duration: 90, 60s, 2m, 1.5h."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Share(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A share: 3% or 0.03."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_share(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


ALL_SENSORS = ",".join(row.name for row in SENSOR_ROWS)
OF_TRAINING = ("laps", "steps_per_lap", "seeds", "until_accuracy", "learning_rates", "batches")
OF_ASK = {  # the field of an option whose name differs
    "budget": "budget_s",
    "patience": "patience_s",
    "watchdog": "watchdog_s",
    "sensor_rate": "sensors_hz",
    "price": "price_per_kwh",
    "rate": "rate_per_hour",
}
SAYS = {
    "heats": "Exactly N heats a lane.",
    "budget": "Time that it may take: 60s, 2m, 1h.",
    "margin": "Settled: every ratio is known this well.",
    "seed": "Seed of starting weights and made data.",
    "data": "Folder or archive of real data.",
    "items": "How many items to make where there is no real data; or all.",
    "pretrained": "Start pets-densenet from torchvision's weights.",
    "patience": "Time allowed for start-up, compiling and the first step.",
    "sensors": f"Instruments: none, or some of {ALL_SENSORS}.",
    "sensor_rate": "Readings a second.  [default: 10; 1 for trainings]",
    "price": "Price of a kWh; adds cost.",
    "rate": "Price of the machine per hour; adds cost.",
    "alone": "Run heats one after another, not in turns of 0.25 s.",
    "watchdog": "End a heat that sends no message for this long.",
    "label": "Name the record: laptime show @NAME finds the newest.",
}


class Several(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """Numbers, separated by commas."""

    name = "numbers"

    def __init__(self, kind: type[int | float]) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(map(self._kind, str(value).split(",")))
        except ValueError:
            example = "64,128" if self._kind is int else "1e-3,1e-4"
            self.fail(f"'{value}' is no list of numbers; such as {example}", param, ctx)
        if len(set(numbers)) < len(numbers):
            self.fail(f"'{value}' names a number twice", param, ctx)
        return numbers


class Words(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """Words, separated by commas."""

    name = "words"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002
        return value if isinstance(value, tuple) else tuple(str(value).split(","))


class Prices(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A price for each type of nodes: small=0.10,big=1.20."""

    name = "prices"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[TypePrice, ...]:
        if isinstance(value, tuple):
            return value
        pairs = dict(word.rpartition("=")[::2] for word in str(value).split(","))
        try:
            return tuple(TypePrice(name, float(price)) for name, price in pairs.items() if name or self._refuse())
        except ValueError:
            self.fail(f"'{value}' is no list of prices; such as small=0.10,big=1.20", param, ctx)

    @staticmethod
    def _refuse() -> bool:
        raise ValueError


class ItemCount(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A number of items, or `all` (0)."""

    def __init__(self, name: str, refused: str) -> None:
        self.name = name
        self._refused = refused

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int) or value == "all":
            return 0 if value == "all" else value
        if not re.fullmatch("[1-9][0-9]*", str(value)):
            self.fail(f"'{value}' {self._refused}", param, ctx)
        return int(value)


BEHIND = "laptime.behind"  # the words behind --, in a context's notes

WHAT = click.argument("what", default=DEFAULT_WORKLOAD, shell_complete=complete_what)
LANES = click.argument("lanes", nargs=-1, metavar="[LANE]...", shell_complete=complete_lane)
ITEMS = rare("--items", type=ItemCount("number", "is not a count; such as 5000, or all"), help=SAYS["items"])
SUBJECT_OPTIONS = (
    WHAT,
    LANES,
    rare("--every", is_flag=True, help="Every installed framework on every device, as written."),
    click.option("--data", type=click.Path(), help=SAYS["data"]),
    ITEMS,
    rare("--pretrained", is_flag=True, help=SAYS["pretrained"]),
    rare("--seed", type=int, default=0, show_default=True, help=SAYS["seed"]),
    rare("--patience", type=Duration(), default="10m", show_default=True, help=SAYS["patience"]),
    rare("--label", metavar="NAME", help=SAYS["label"]),
)
HEATS = click.option("--heats", type=int, help=SAYS["heats"])
BUDGET = click.option("--budget", type=Duration(), default="60s", show_default=True, help=SAYS["budget"])
ALONE = rare("--alone", is_flag=True, help=SAYS["alone"])
WATCH_OPTIONS = (
    click.option("--sensors", type=Words(), help=SAYS["sensors"]),
    rare("--sensor-rate", type=float, help=SAYS["sensor_rate"]),
    rare("--watchdog", type=Duration(), default="60s", show_default=True, help=SAYS["watchdog"]),
)
MONEY_OPTIONS = (
    rare("--price", type=float, help=SAYS["price"]),
    rare("--rate", type=float, help=SAYS["rate"]),
)
FIELDS = click.option("--details", is_flag=True, help="Print all fields below the page.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would run, and run nothing.")
SCRIPT_OPTIONS = (
    rare("--on", metavar="WHERE", type=Words(), help="A cluster (ray, slurm, torchrun), or a script's devices."),
    rare("--each", metavar="TYPE", help="Race on each type of Ray nodes: a label such as machine."),
    rare(
        "--prices", type=Prices(), default=(), metavar="TYPE=PRICE", help="Price per hour by type: small=0.1,big=1.2."
    ),
    rare("--set", "variants", metavar="SETTING", multiple=True, help="Race a script so, too: malloc=keep, threads=1."),
    rare("--steps", type=int, help="Stop each run of a script after N timed steps."),
)
RACE_OPTIONS = (
    *SUBJECT_OPTIONS,
    BUDGET,
    click.option("--margin", type=Share(), default="5%", show_default=True, help=SAYS["margin"]),
    HEATS,
    ALONE,
    *WATCH_OPTIONS,
    *MONEY_OPTIONS,
    click.option("--batch", "batches", type=Several(int), help="Batch sizes, a lane each: 64,128."),
    click.option("--profile", is_flag=True, help="Then profile each lane: operators, kernels, a trace."),
    *SCRIPT_OPTIONS,
)
TRAIN_OPTIONS = (
    *SUBJECT_OPTIONS,
    click.option("--laps", type=int, help="N laps.  [default: as published]"),
    rare("--steps-per-lap", type=int, help="N steps a lap.  [default: as published]"),
    click.option("--seeds", type=int, help="Train each lane from N seeds.  [default: 1]"),
    click.option("--until-accuracy", type=Share(), help="Say when an accuracy was reached: 0.7 or 70%."),
    click.option("--lr", "learning_rates", type=Several(float), help="Learning rates, a lane each: 1e-3,1e-4."),
    click.option("--batch", "batches", type=Several(int), help="Batch sizes, a lane each: 64,128."),
    *WATCH_OPTIONS,
    *MONEY_OPTIONS,
)
INFER_OPTIONS = (*SUBJECT_OPTIONS, BUDGET, HEATS, ALONE, *WATCH_OPTIONS, *MONEY_OPTIONS)
WHY_OPTIONS = (
    *SUBJECT_OPTIONS,
    click.option("--budget", type=Duration(), default="2m", show_default=True, help=SAYS["budget"]),
    ALONE,
    *WATCH_OPTIONS,
)


def takes(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds these options to a command."""
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


def make_ask(given: dict[str, Any]) -> Ask:
    """Turn a command's options into an ask. `laptime race torch/cpu cpu/best` means the default workload.

    Words that name a file after the first are further trainings.
    """
    told = {OF_ASK.get(name, name): value for name, value in given.items() if name not in OF_TRAINING}
    what, words = told.pop("what"), tuple(told.pop("lanes"))
    if api.names_a_lane(what):
        what, words = DEFAULT_WORKLOAD, (what, *words)
    others = tuple(word for word in words if api.names_a_file(word))
    lanes = tuple(word for word in words if not api.names_a_file(word))
    return Ask(what=what, others=others, lanes=lanes, **told)


def make_race_ask(given: dict[str, Any]) -> Ask:
    return replace(make_script_ask(given), batches=given["batches"] or ())


def make_script_ask(given: dict[str, Any]) -> Ask:
    """Return the ask of a command that also takes a script; behind -- are its arguments, or a whole command."""
    told = dict(given)
    told["on"], devices = _split_on(told.pop("on", None) or ())
    told["lanes"] = (*told["lanes"], *devices)
    context = click.get_current_context()
    behind = context.meta.get(BEHIND)
    ask = make_ask(told)
    if behind is None:
        return ask
    names_none = context.get_parameter_source("what") is ParameterSource.DEFAULT or ask.what != given["what"]
    if names_none and not behind:
        raise UsageError("there is no script to race", "name one: laptime race train.py -- --epochs 3")
    return replace(ask, what="" if names_none else ask.what, command=behind)


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


def make_profile_ask(given: dict[str, Any]) -> Ask:
    return replace(make_ask(given), profile=True)


def make_training_ask(given: dict[str, Any]) -> Ask:
    named = {name: given[name] for name in OF_TRAINING if given[name] is not None}
    return replace(make_ask(given), full=FullAsk(**named))


def make_infer_ask(given: dict[str, Any]) -> Ask:
    return replace(make_ask(given), infer=True)
