"""The arguments that race, plan, profile and why share: their types, and which cannot be combined."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import click

from laptime import api
from laptime.errors import UsageError
from laptime.model.ask import DEFAULT_WORKLOAD, Ask, FullAsk
from laptime.model.sensors import SENSORS as SENSOR_ROWS

UNITS_S = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType[float]):
    """A duration: 90, 60s, 2m, 1.5h."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", str(value).strip())
        if not found or found[2] not in UNITS_S:
            self.fail(f"'{value}' is not a length of time; such as 60s, 2m or 1h", param, ctx)
        return float(found[1]) * UNITS_S[found[2]]


class Share(click.ParamType[float]):
    """A share: 3% or 0.03."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", str(value).strip())
        if not found:
            self.fail(f"'{value}' is not a share; such as 3% or 0.03", param, ctx)
        return float(found[1]) / (100 if found[2] else 1)


ALL_SENSORS = ",".join(row.name for row in SENSOR_ROWS)
SAYS = {
    "heats": "Exactly N heats a lane; usually margin and budget decide.",
    "budget": "End by then: 60s, 2m, 1h.",
    "margin": "Stop when every ratio is known this well.",
    "seed": "Of starting weights and made data.",
    "data": "The real thing: CIFAR-10's archive, a folder a class, a folder of plates.",
    "items": "How many files are made where there is no real thing; or all.",
    "pretrained": "Start pets-densenet from torchvision's weights.",
    "patience": "For start-up, compiling and the first step.",
    "sensors": f"Instruments to read: none, or some of {ALL_SENSORS}.  [default: all there are]",
    "rate": "Readings a second.  [default: 10; 1 with --full]",
    "price": "Of a kWh: shows what a lap, a training or 1,000 answers cost.",
    "hour": "Of the machine, an hour: shows what a lap, a training or 1,000 answers cost.",
    "alone": "Run heats one after another; usually those of a round take turns of 0.25 s.",
    "watchdog": "End a heat that is silent for so long (at least 20 medians).",
}


class Several(click.ParamType[tuple[Any, ...]]):
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


class Words(click.ParamType[tuple[str, ...]]):
    """Words, separated by commas."""

    name = "words"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002
        return value if isinstance(value, tuple) else tuple(str(value).split(","))


class ItemCount(click.ParamType[int]):
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


SUBJECT_OPTIONS = (
    click.argument("what", default=DEFAULT_WORKLOAD),
    click.argument("lanes", nargs=-1, metavar="[LANE]..."),
    click.option("--every", is_flag=True, help="Race every installed framework on every device, as written."),
    click.option("--seed", type=int, default=0, show_default=True, help=SAYS["seed"]),
    click.option("--data", type=click.Path(), help=SAYS["data"]),
    click.option("--items", type=ItemCount("number", "is not a count; such as 5000, or all"), help=SAYS["items"]),
    click.option("--pretrained", is_flag=True, help=SAYS["pretrained"]),
    click.option("--patience", type=Duration(), default="10m", show_default=True, help=SAYS["patience"]),
)
WATCHDOG = click.option("--watchdog", type=Duration(), default="60s", show_default=True, help=SAYS["watchdog"])
ALONE = click.option("--alone", is_flag=True, help=SAYS["alone"])
SENSORS = click.option("--sensors", type=Words(), help=SAYS["sensors"])
RACE_OPTIONS = (
    click.option("--heats", type=int, help=SAYS["heats"]),
    click.option("--budget", type=Duration(), default="60s", show_default=True, help=SAYS["budget"]),
    click.option("--margin", type=Share(), default="5%", show_default=True, help=SAYS["margin"]),
    ALONE,
    WATCHDOG,
    SENSORS,
    click.option("--sensor-rate", type=float, help=SAYS["rate"]),
    click.option("--price", type=float, help=SAYS["price"]),
    click.option("--rate", type=float, help=SAYS["hour"]),
    click.option("--profile", is_flag=True, help="Then profile each lane, off the clock: operators, kernels, a trace."),
    click.option("--full", is_flag=True, help="Train each lane whole: all laps, validation, test."),
    click.option("--infer", is_flag=True, help="Time answers, not training: latency of one item, throughput by batch."),
    click.option("--laps", type=int, help="With --full: N laps, in place of those published."),
    click.option("--steps-per-lap", type=int, help="With --full: N steps a lap, in place of those published."),
    click.option("--seeds", type=int, help="With --full: train each lane from N seeds.  [default: 1]"),
    click.option("--until-accuracy", type=Share(), help="With --full: say when an accuracy was reached: 0.7 or 70%."),
    click.option("--lr", "learning_rates", type=Several(float), help="With --full: a lane each: 1e-3,1e-4."),
    click.option("--batch", "batches", type=Several(int), help="A lane for each batch size: 64,128."),
)
INQUIRY_OPTIONS = (
    click.option("--budget", type=Duration(), default="2m", show_default=True, help=SAYS["budget"]),
    ALONE,
    WATCHDOG,
    SENSORS,
    click.option("--sensor-rate", type=float, help="Readings a second.  [default: 10]"),
)
OF_FULL = ("laps", "steps_per_lap", "seeds", "until_accuracy", "learning_rates", "batches")
OF_FULL_ALONE = tuple(name for name in OF_FULL if name != "batches")
WHY_OF_FULL = {"--lr": ": the rate does not change how long a step takes"}
FLAGS = {"learning_rates": "--lr", "batches": "--batch"}
OF_HEATS = ("heats", "budget", "margin", "alone")
OF_RACES = ("margin",)


def takes(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds these options to a command."""
    return lambda function: reduce(lambda made, option: option(made), reversed(options), function)


takes_a_subject = takes(*SUBJECT_OPTIONS)
takes_an_ask = takes(*SUBJECT_OPTIONS, *RACE_OPTIONS)
takes_an_inquiry = takes(*SUBJECT_OPTIONS, *INQUIRY_OPTIONS)


def make_asks(context: click.Context, given: dict[str, Any]) -> tuple[Ask, ...]:
    """Turn the command line into asks. --full with --infer becomes two asks, each with its own record."""
    _refuse_strangers(context, full=given["full"], infer=given["infer"])
    asked = _make_ask(given)
    if asked.full is not None and asked.infer:
        return replace(asked, infer=False), replace(asked, full=None)
    return (asked,)


def make_profile_ask(given: dict[str, Any]) -> Ask:
    return replace(make_ask(given), profile=True)


def make_why_ask(given: dict[str, Any]) -> Ask:
    return _with_heats(make_ask(given), given)


def make_ask(given: dict[str, Any]) -> Ask:
    """Return an ask with its subject and lanes. `laptime race torch/cpu cpu/best` means the default workload."""
    what, lanes = given["what"], tuple(given["lanes"])
    if api.names_a_lane(what):
        what, lanes = DEFAULT_WORKLOAD, (what, *lanes)
    return Ask(
        what=what,
        lanes=lanes,
        seed=given["seed"],
        pretrained=given["pretrained"],
        data=given["data"],
        items=given["items"],
        patience_s=given["patience"],
        every=given["every"],
    )


def _with_heats(ask: Ask, given: dict[str, Any]) -> Ask:
    """Add the budget, the watchdog, the sensors, and whether heats take turns."""
    return replace(
        ask,
        budget_s=given["budget"],
        watchdog_s=given["watchdog"],
        sensors=given["sensors"],
        sensors_hz=given["sensor_rate"],
        alone=given["alone"],
    )


def _make_ask(given: dict[str, Any]) -> Ask:
    return replace(
        _with_heats(make_ask(given), given),
        heats=given["heats"],
        margin=given["margin"],
        full=FullAsk(**{name: given[name] for name in OF_FULL if given[name] is not None}) if given["full"] else None,
        infer=given["infer"],
        price_per_kwh=given["price"],
        rate_per_hour=given["rate"],
        profile=given["profile"],
        batches=() if given["full"] else given["batches"] or (),
    )


def _refuse_strangers(context: click.Context, *, full: bool, infer: bool) -> None:
    """Refuse an option that would have no effect."""
    if full and not infer:
        for flag in _given(context, OF_HEATS):
            raise UsageError(f"{flag} is of heats, and --full trains whole", "leave one of the two out")
    for flag in () if full else _given(context, OF_FULL_ALONE):
        raise UsageError(f"{flag} is of whole trainings{WHY_OF_FULL.get(flag, '')}", f"add --full, or leave {flag} out")
    for flag in _given(context, OF_RACES) if infer else ():
        raise UsageError(f"{flag} stops a race, and --infer runs its heats to the end", "--heats N says how many")


def _given(context: click.Context, names: tuple[str, ...]) -> list[str]:
    """Return the flags among `names` that are on the command line."""
    typed = click.core.ParameterSource.COMMANDLINE
    told = [name for name in names if context.get_parameter_source(name) is typed]
    return [FLAGS.get(name, f"--{name.replace('_', '-')}") for name in told]
