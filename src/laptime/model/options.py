"""The table of options: one row an option of a question, as the command line and the library have it.

From a row are made: the option of each command, the argument of each function with its type, how both are read, the
refusal of what is out of range, and the words of a command that asks the same again.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal

from laptime.model.ask import Ask, FullAsk, TypePrice
from laptime.model.plan import find_launcher
from laptime.model.quantities import parse_duration, parse_share
from laptime.model.sample import SENSORS
from laptime.questions.scale.nouns import ScaleAsk
from laptime.questions.sweep.nouns import SweepAsk
from laptime.questions.tune.nouns import AIMS, DEFAULT_AIM, TuneAsk

# Kinds of values. Each has one reader from a text and one from a Python value; both say in words what they expected.


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of values."""

    name: str  # as `--help` writes it
    annotation: str  # as a signature writes it
    of_text: Callable[[str], Any]  # raises ValueError
    of_value: Callable[[object], Any]  # raises ValueError or TypeError
    write: Callable[[Any], str] = str  # a text that `of_text` reads as the same value
    shown: str = "{}"  # in a refusal


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _digits(value: float) -> str:
    """Return all digits of a number that read as the same number, without a power of ten."""
    written = format(Decimal(repr(float(value))), "f")
    return written.removesuffix(".0") if math.isfinite(value) else repr(value)


def read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected True or False")
    return value


def read_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("expected a whole number")
    return value


def read_number(value: object) -> float:
    if not _is_number(value):
        raise ValueError("expected a number")
    return float(value)  # type: ignore[arg-type]


def read_duration(value: object) -> float:
    if not (_is_number(value) or isinstance(value, str)):
        raise ValueError("expected seconds, or a text such as '60s', '2m' or '1h'")
    return parse_duration(value) if isinstance(value, str) else read_number(value)


def read_share(value: object) -> float:
    if not (_is_number(value) or isinstance(value, str)):
        raise ValueError("expected a number such as 0.03, or a text such as '3%'")
    return parse_share(value if isinstance(value, str) else f"{value:.12f}".rstrip("0").rstrip("."))


def _read_items(value: object) -> int:
    if value == "all":
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("expected a whole number from 1, or 'all'")
    return value


def _read_path(value: object) -> str:
    if not isinstance(value, str | os.PathLike):
        raise TypeError("expected a path")
    return str(os.fspath(value))


def _read_name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a name, such as 'main'")
    return value


def _read_aim(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected one of {', '.join(AIMS)}")
    return value


def _read_words(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not all(isinstance(each, str) for each in words):
        raise ValueError("expected names, such as ['host', 'rapl']")
    return tuple(words)


def _read_command(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise ValueError("expected a list of words, such as ['--epochs', '3']")
    return tuple(value)


def _read_counts(value: object) -> tuple[int, ...]:
    return tuple(map(read_count, value if isinstance(value, Sequence) else [value]))


def _read_numbers(value: object) -> tuple[float, ...]:
    return tuple(map(read_number, value if isinstance(value, Sequence) else [value]))


def _read_cluster(value: object) -> str:
    if value == "torchrun":
        raise ValueError("expected 'ray' or 'slurm': torchrun starts the command laptime, not a function")
    if not isinstance(value, str) or find_launcher(value) is None:
        raise ValueError("expected 'ray', 'ray://host:10001' or 'slurm'; devices are named as lanes")
    return value


def _read_prices(value: object) -> tuple[TypePrice, ...]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError("expected a price for each type, such as {'small': 0.1}")
    return tuple(TypePrice(name, read_number(price)) for name, price in value.items())


def _read_axis(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(map(_is_number, value)):
        raise ValueError("expected a text such as '1..64', or a list of numbers")
    return ",".join(map(str, value))


def _read_items_or_axis(value: object) -> int | str:
    return _read_items(value) if isinstance(value, int) or value == "all" else _read_axis(value)


def _parse_count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid integer.") from None


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid float.") from None


def _parse_list(kind: type[int | float], example: str, text: str) -> tuple[Any, ...]:
    try:
        numbers = tuple(map(kind, text.split(",")))
    except ValueError:
        raise ValueError(f"'{text}' is no list of numbers; such as {example}") from None
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"'{text}' names a number twice")
    return numbers


def _parse_prices(text: str) -> tuple[TypePrice, ...]:
    pairs = [word.rpartition("=")[::2] for word in text.split(",")]
    try:
        prices = {name: float(price) for name, price in pairs}
    except ValueError:
        prices = {"": 0.0}
    if "" in prices:
        raise ValueError(f"'{text}' is no list of prices; such as small=0.10,big=1.20")
    return tuple(TypePrice(name, price) for name, price in prices.items())


def parse_items(text: str, refusal: str = "is not a count; such as 5000, or all") -> int:
    if text == "all":
        return 0
    if not re.fullmatch("[1-9][0-9]*", text):
        raise ValueError(f"'{text}' {refusal}")
    return int(text)


def _parse_items_or_axis(text: str) -> int | str:
    return text if {".", ","} & set(text) else parse_items(text, "is no count")


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _write_items(value: object) -> str:
    return "all" if value == 0 else str(value)


def _write_prices(prices: Sequence[TypePrice]) -> str:
    return ",".join(f"{each.of}={each.per_hour!r}" for each in prices)


def _write_place(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)


FLAG = Kind("flag", "bool", bool, read_flag)
COUNT = Kind("integer", "int", _parse_count, read_count)
NUMBER = Kind("float", "float", _parse_number, read_number, _digits, "{:g}")
DURATION = Kind("time", "DurationLike", parse_duration, read_duration, lambda value: f"{_digits(value)}s", "{:g}s")
SHARE = Kind("share", "ShareLike", parse_share, read_share, _digits, "{:g}")
ITEMS = Kind("number", "Items", parse_items, _read_items, _write_items)
COUNTS = Kind("numbers", "int | Sequence[int]", lambda text: _parse_list(int, "64,128", text), _read_counts,
              lambda value: ",".join(map(str, value)))  # fmt: skip
NUMBERS = Kind("numbers", "float | Sequence[float]", lambda text: _parse_list(float, "1e-3,1e-4", text), _read_numbers,
               lambda value: ",".join(map(_digits, value)), "{:g}")  # fmt: skip
NAME = Kind("text", "str", str, _read_name)
WORDS = Kind("words", "str | Sequence[str]", _split, _read_words, ",".join)
SETTING = Kind("text", "Sequence[str]", str, _read_command)  # each time that the option is given
COMMAND = Kind("words", "Sequence[str]", _split, _read_command)
PATH = Kind("path", "PathLike", str, _read_path)
CLUSTER = Kind("text", "str", str, _read_cluster)
PLACES = Kind("words", "str", _split, _read_cluster, _write_place)  # clusters, and devices of a script
PRICES = Kind("prices", "Mapping[str, float]", _parse_prices, _read_prices, _write_prices)
AIM = Kind("text", "AimWord", str, _read_aim)
COUNTS_AXIS = Kind("text", "str | Sequence[int]", str, _read_axis)
NUMBERS_AXIS = Kind("text", "str | Sequence[float]", str, _read_axis)
ITEMS_AXIS = Kind("A..B", "Items | str | Sequence[int]", _parse_items_or_axis, _read_items_or_axis, _write_items)
RECORD = Kind("text", "Recorded", str, _read_name)
PROGRESS = Kind("flag", "bool", bool, read_flag)  # by default it depends on where the call is


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What a value, or each one of several, may be. A refusal says what was `expected`, and a `hint`."""

    least: float
    most: float
    expected: str
    hint: str
    above: bool = False  # the least value itself is too small
    shown: str = ""  # how the value is written, where not as its kind writes it

    def holds(self, value: float) -> bool:
        is_within = self.least < value if self.above else self.least <= value
        return is_within and value <= self.most and value < math.inf


@dataclass(frozen=True, slots=True)
class Option:
    """One option of some questions."""

    name: str  # of the argument
    kind: Kind
    questions: tuple[str, ...]  # that take it
    fills: str = ""  # a field of the ask, or of a part: `full.laps`; empty where it is no part of what is asked
    help: str = ""
    flag: str = ""  # where it is not made from the name
    default: str | None = None  # as it would be typed
    defaults: Mapping[str, str] = field(default_factory=dict)  # of questions where it is another
    range: ValueRange | None = None
    is_rare: bool = False  # `--help` leaves it out, `laptime help COMMAND` has it
    metavar: str | None = None
    choices: tuple[str, ...] = ()  # of a command
    only: Literal["", "command", "library"] = ""
    adds: str = ""  # the word that a flag adds to its field
    fills_one: str = ""  # the field that one number fills, where several fill `fills`
    is_repeated: bool = True  # by a command that asks the same again
    only_for: Literal["", "scripts", "trainings"] = ""  # a script that runs as it is, or what laptime builds

    @property
    def option(self) -> str:
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def part(self) -> str:
        """The part of the ask that its field is in: full, scale, tune, sweep; or none."""
        return self.fills.rpartition(".")[0]

    def default_of(self, question: str) -> str | None:
        return self.defaults.get(question, self.default)

    def value_of(self, ask: Ask) -> Any:
        """Return what an ask says, or None where it says nothing."""
        if self.fills_one and (one := getattr(ask, self.fills_one)) is not None:
            return one
        holder = getattr(ask, self.part) if self.part else ask
        value = None if holder is None else getattr(holder, self.fills.rpartition(".")[2])
        return (True if self.adds in (value or ()) else None) if self.adds else value

    def refusal_of(self, value: Any) -> tuple[str, str] | None:
        """Return why a value, or one of several, is out of range, and a hint; or None."""
        for each in value if isinstance(value, tuple) else () if value is None else (value,):
            if self.range is not None and not self.range.holds(each):
                shown = (self.range.shown or self.kind.shown).format(each)
                return f"{self.option} {shown}: {self.range.expected}", self.range.hint
        return None

    def words_of(self, value: Any) -> list[str]:
        """Return the words that set this value on the command line."""
        if self.kind is FLAG:
            return [self.option]
        if self.kind is SETTING:
            return [word for each in value for word in (self.option, each)]
        return [self.option, self.kind.write(value)]


# The rows, in the order in which `--help` lists them.

TRAINED = ("race", "train", "infer", "why", "scale", "tune", "sweep", "profile")  # those that train something
TIMED = ("race", "infer", "why", "scale", "tune", "sweep")
MEASURED = tuple(each for each in TRAINED if each != "profile")  # while instruments read
PRICED = ("race", "train", "infer", "scale", "tune", "sweep")
WEEK_S = 7 * 24 * 3600.0
MOST_BATCH = 1_000_000
BATCHES = ValueRange(1, MOST_BATCH, f"expected whole numbers from 1 to {MOST_BATCH:,}", "such as 64,128")
LAPS = ValueRange(1, 100_000, "expected a whole number from 1 to 100,000", "such as 3")
WAITING = ValueRange(0.1, WEEK_S, "expected 0.1s to 7d", "such as 10m")
MONEY = ValueRange(0, math.inf, "expected 0 or more", "such as 0.25")
THRESHOLD_HELP = "Exit code 1 if slower by more, for certain."
ORDERS = ("time", "money")
BUDGET_HELP = "Time that it may take: 60s, 2m, 1h."
ALL_SENSORS = ",".join(row.name for row in SENSORS)

OPTIONS: list[Option] = [
    # What is trained.
    Option("every", FLAG, TRAINED, "every", "Every installed framework on every device, as written.", is_rare=True,
           only_for="trainings"),
    Option("data", PATH, TRAINED, "data", "Folder or archive of real data.", only_for="trainings"),
    Option(
        "items", ITEMS, tuple(each for each in TRAINED if each != "sweep"), "items",
        "How many items to make where there is no real data; or all.", is_rare=True, only_for="trainings",
        range=ValueRange(0, 1_000_000, "expected a whole number to 1,000,000, or all", "such as 5000"),
    ),
    Option("pretrained", FLAG, TRAINED, "pretrained", "Start pets-densenet from torchvision's weights.", is_rare=True,
           only_for="trainings"),
    Option(
        "seed", COUNT, TRAINED, "seed", "Seed of starting weights and made data.", default="0", is_rare=True,
        range=ValueRange(0, (1 << 32) - 1, f"expected a whole number from 0 to {(1 << 32) - 1:,}", "such as 1"),
    ),
    Option(
        "patience", DURATION, TRAINED, "patience_s", "Time allowed for start-up, compiling and the first step.",
        default="10m", range=WAITING, is_rare=True,
    ),
    Option(
        "label", NAME, TRAINED, "label", "Name the record: laptime show @NAME finds the newest.", metavar="NAME",
        is_rare=True, is_repeated=False,  # it names one record, and not what is asked
    ),
    Option("label", NAME, ("watch",), "label", "Name the record: laptime show @NAME.", metavar="NAME",
           is_repeated=False),
    # Whole trainings.
    Option("laps", COUNT, ("train",), "full.laps", "N laps.  [default: as published]", range=LAPS),
    Option(
        "steps_per_lap", COUNT, ("train",), "full.steps_per_lap", "N steps a lap.  [default: as published]",
        is_rare=True, range=ValueRange(1, 10_000_000, "expected a whole number from 1 to 10,000,000", "such as 3"),
    ),
    Option(
        "seeds", COUNT, ("train",), "full.seeds", "Train each lane from N seeds.  [default: 1]",
        range=ValueRange(1, 100, "expected a whole number from 1 to 100", "such as 3"),
    ),
    Option(
        "until_accuracy", SHARE, ("train",), "full.until_accuracy", "Say when an accuracy was reached: 0.7 or 70%.",
        range=ValueRange(0, 1, "expected a share above 0 and up to 1", "such as 0.7 or 70%", above=True),
    ),
    Option(
        "lr", NUMBERS, ("train",), "full.learning_rates", "Learning rates, a lane each: 1e-3,1e-4.",
        range=ValueRange(0, 100, "expected numbers above 0 and up to 100", "such as 1e-3,1e-4", above=True),
    ),
    Option("batch", COUNTS, ("train",), "full.batches", "Batch sizes, a lane each: 64,128.", range=BATCHES),
    # A tuning.
    Option("aim", AIM, ("tune",), "tune.aim", f"What to minimise: {', '.join(AIMS)}.", flag="--for",
           default=DEFAULT_AIM, metavar="AIM"),
    Option("allow", WORDS, ("tune",), "tune.allow", "What may change besides: precision, batch, learning."),
    Option("frameworks", WORDS, ("tune",), "tune.frameworks",
           "Tune on each of these, or on all.  [default: the lane's]"),
    Option("laps", COUNT, ("tune",), "tune.laps", "After the budget, train the lane and its winner N laps.",
           range=LAPS),
    # A sweep: one axis or two.
    Option("batch", COUNTS_AXIS, ("sweep",), "sweep.batch", "Batches: 1..1024, or 8,16,24.  [default: 1..1024]",
           metavar="A..B"),
    Option("threads", COUNTS_AXIS, ("sweep",), "sweep.threads", "Threads on the processor.", metavar="A..B"),
    Option("workers", COUNTS_AXIS, ("sweep",), "sweep.workers", "Workers of the loader.", metavar="A..B"),
    Option("items", ITEMS_AXIS, ("sweep",), "sweep.items", "Items that are made to train on; one number is for all.",
           metavar="A..B", fills_one="items"),
    Option("lr", NUMBERS_AXIS, ("sweep",), "sweep.lr", "Learning rates.", metavar="A,B", is_rare=True),
    Option("width", NUMBERS_AXIS, ("sweep",), "sweep.width", "Widths of a built-in network: 0.25..4.", metavar="A..B"),
    # A training on several devices.
    Option(
        "devices", COUNTS, ("scale",), "scale.devices", "Counts to race: 1,2,4.  [default: 1, 2, 4 to all]",
        range=ValueRange(1, 4_096, "expected counts from 1 to 4,096", "such as 1,2,4"),
    ),
    Option("weak", FLAG, ("scale",), "scale.growth", "Each device has the batch as written.  [default]", adds="weak",
           is_rare=True),
    Option("strong", FLAG, ("scale",), "scale.growth", "The devices share out the batch as written.", adds="strong"),
    Option("both", FLAG, ("scale",), "scale.growth", "Race both: the batch as written on each, and shared out.",
           adds="both"),
    # How long, and how.
    Option(
        "budget", DURATION, TIMED, "budget_s", BUDGET_HELP, default="60s",
        defaults={"why": "2m", "scale": "2m", "tune": "5m", "sweep": "5m"},  # experiments take longer than two lanes
        range=ValueRange(1, WEEK_S, "expected 1s to 7d", "such as 60s, 2m or 1h"),
    ),
    Option(
        "margin", SHARE, ("race", "scale"), "margin", "Settled: every ratio is known this well.", default="5%",
        range=ValueRange(0.001, 1, "expected 0.1% to 100%", "such as 3%", shown="{:.3%}"),
    ),
    Option("heats", COUNT, ("race", "infer", "scale"), "heats", "Exactly N heats a lane.",
           range=ValueRange(1, 1000, "expected a whole number from 1 to 1,000", "usually 5")),
    Option("alone", FLAG, TIMED, "alone", "Run heats one after another, not in turns of 0.25 s.", is_rare=True),
    Option("on", CLUSTER, ("scale",), "on", "A cluster: ray, slurm or torchrun.", metavar="WHERE", is_rare=True),
    # Instruments.
    Option("sensors", WORDS, MEASURED, "sensors", f"Instruments: none, or some of {ALL_SENSORS}."),
    Option("sensors", WORDS, ("watch",), "sensors", f"Read these instruments: {ALL_SENSORS}, or none.",
           metavar="WORDS"),
    Option(
        "sensor_rate", NUMBER, MEASURED, "sensors_hz", "Readings a second.  [default: 10; 1 for trainings]",
        range=ValueRange(0.01, 100, "expected 0.01 to 100 a second", "such as 10"), is_rare=True,
    ),
    Option("watchdog", DURATION, MEASURED, "watchdog_s", "End a heat that sends no message for this long.",
           default="60s", range=WAITING, is_rare=True),
    # Money.
    Option("price", NUMBER, PRICED, "price_per_kwh", "Price of a kWh; adds cost.", range=MONEY, is_rare=True),
    Option("rate", NUMBER, PRICED, "rate_per_hour", "Price of the machine per hour; adds cost.", range=MONEY,
           is_rare=True),
    Option("prices", PRICES, ("tune",), "prices", "Price per hour: cpu=0.1,cuda=2.5.", metavar="DEVICE=PRICE",
           is_rare=True),
    # A race.
    Option("batch", COUNTS, ("race",), "batches", "Batch sizes, a lane each: 64,128.", range=BATCHES,
           only_for="trainings"),
    Option("profile", FLAG, ("race",), "profile", "Then profile each lane: operators, kernels, a trace.",
           only_for="trainings"),
    # On the command line they are behind --.
    Option("arguments", COMMAND, ("race", "why"), "command", only="library", only_for="scripts"),
    Option("on", PLACES, ("race",), "on", "A cluster (ray, slurm, torchrun), or a script's devices.", metavar="WHERE",
           is_rare=True),
    Option("each", NAME, ("race",), "each", "Race on each type of Ray nodes: a label such as machine.", metavar="TYPE",
           is_rare=True),
    Option("prices", PRICES, ("race",), "prices", "Price per hour by type: small=0.1,big=1.2.", metavar="TYPE=PRICE",
           is_rare=True),
    Option("set", SETTING, ("race",), "variants", "Race a script so, too: malloc=keep, threads=1.", metavar="SETTING",
           is_rare=True, only="command", only_for="scripts"),
    Option("steps", COUNT, ("race",), "steps", "Stop each run of a script after N timed steps.", is_rare=True,
           range=ValueRange(1, math.inf, "expected a whole number from 1 on", "such as 50"), only_for="scripts"),
    Option("against", RECORD, ("race",), help="Run a recorded race again; compare.", metavar="ID", is_rare=True),
    Option("trust", NAME, ("race",), help="Start what this record names, although it was not made here by you.",
           metavar="ID", is_rare=True),
    Option("fail_above", SHARE, ("race",), help=THRESHOLD_HELP, metavar="SHARE", is_rare=True),
    # A forecast, which is made of a record.
    Option("on", WORDS, ("forecast",), help="These devices: t4,a100-40gb.  [default: eight common ones]"),
    Option("every", FLAG, ("forecast",), help="All devices that are known.", flag="--all"),
    Option("by", NAME, ("forecast",), help="The order of the rows.", default=ORDERS[0], choices=ORDERS, only="command"),
    Option("rate", NUMBER, ("forecast",), help="Price of this machine per hour, to compare.", range=MONEY),
    Option("budget", DURATION, ("forecast",), help=f"{BUDGET_HELP}  [default: 60s]", only="command"),
    Option("check", FLAG, ("forecast",), help="Hold predictions against records and published results.",
           only="command"),
    Option("device_file", PATH, ("forecast",), help="A TOML file with devices of your own.", is_rare=True),
    Option("progress", PROGRESS, (*TRAINED, "watch"), only="library"),
]  # fmt: skip

# What an ask of each question is before any option is set, where that is not `Ask()`.
PLAIN_ASKS: dict[str, Ask] = {
    "train": Ask(full=FullAsk()),
    "infer": Ask(infer=True),
    "profile": Ask(profile=True),
    "scale": Ask(scale=ScaleAsk()),
    "tune": Ask(tune=TuneAsk()),
    "sweep": Ask(sweep=SweepAsk()),
}
ASK_PARTS = {"full": FullAsk, "scale": ScaleAsk, "tune": TuneAsk, "sweep": SweepAsk}
PLAN, LEAST = "plan", "profile"


def options_of(question: str) -> list[Option]:
    """Return the options of a question, by the name of its command, in the order of `--help`.

    A plan takes what a race is asked, and a question that a package adds what a profile takes.
    """
    if question == PLAN:
        return [row for row in options_of("race") if row.fills]
    is_known = any(question in row.questions for row in OPTIONS)
    return [row for row in OPTIONS if (question if is_known else LEAST) in row.questions]


def find_option(question: str, name: str) -> Option:
    return next(row for row in options_of(question) if row.name == name)


def make_ask(question: str, values: Mapping[str, Any], **subject: Any) -> Ask:
    """Return the ask of a question: what was given by the names of options, and defaults for the rest.

    The values are as the readers of their kinds return them; None is one that was not given. `subject` are fields of
    what is trained, and where.
    """
    given = {name: value for name, value in values.items() if value is not None}
    for row in options_of(question):
        text = row.default_of(question)
        if row.fills and row.name not in given and text is not None:
            given[row.name] = row.kind.of_text(text)
    return set_values(PLAIN_ASKS.get(question, Ask()), question, given | subject)


def set_values(ask: Ask, question: str, given: Mapping[str, Any]) -> Ask:
    """Return an ask with these values of options, and fields of what is trained."""
    rows = {row.name: row for row in options_of(question) if row.fills}
    fields: dict[str, dict[str, Any]] = {"": {name: given[name] for name in given.keys() - rows.keys()}}
    for row in (row for row in rows.values() if row.name in given):
        value = given[row.name]
        place = row.fills_one if row.fills_one and isinstance(value, int) else row.fills
        part, _, name = place.rpartition(".")
        filled = fields.setdefault(part, {})
        filled[name] = (*filled.get(name, ()), row.adds) if row.adds else value
    parts = {part: replace(getattr(ask, part), **changed) for part, changed in fields.items() if part}
    return replace(ask, **fields[""], **parts)


def given_options(question: str, ask: Ask) -> list[tuple[Option, Any]]:
    """Return the options that an ask sets to something else than their default, each with its value."""
    found: list[tuple[Option, Any]] = []
    for row in (row for row in options_of(question) if row.fills):
        text = row.default_of(question)
        plain = row.value_of(PLAIN_ASKS.get(question, Ask())) if text is None else row.kind.of_text(text)
        value = row.value_of(ask)
        if value is not None and value != plain:
            found.append((row, value))
    return found


def repeat_options(question: str, ask: Ask) -> list[str]:
    """Return the words of a command that set all that is not its default."""
    given = given_options(question, ask)
    return [word for row, value in given if row.is_repeated and row.only != "library" for word in row.words_of(value)]


def find_out_of_range(asked: Ask | FullAsk | ScaleAsk | TuneAsk) -> tuple[str, str] | None:
    """Return why a figure of an ask, or of a part of it, cannot be, and a hint; or None."""
    part = next((name for name, kind in ASK_PARTS.items() if isinstance(asked, kind)), "")
    rows = [row for row in OPTIONS if row.range is not None and row.fills and row.part == part]
    found = (row.refusal_of(getattr(asked, row.fills.rpartition(".")[2])) for row in rows)
    return next((each for each in found if each is not None), None)
