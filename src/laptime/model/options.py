"""The table of options: one row an option of a question, as the command line and the library have it.

From a row are made: the option of each command, the argument of each function with its type, how both are read, the
refusal of what is out of range, and the words of a command that asks the same again. Rows of one question alone, which
fill a part of the ask that only it has, are in its folder (`questions/tune/options.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from laptime.model.ask import Ask, TypePrice
from laptime.model.option_kinds import (
    BATCHES,
    COMMAND,
    COUNT,
    COUNTS,
    DURATION,
    FLAG,
    ITEMS,
    NAME,
    NUMBER,
    PATH,
    PROGRESS,
    RECORD,
    SETTING,
    SHARE,
    WEEK_S,
    WORDS,
    Option,
    OptionKind,
    QuestionOptions,
    ValueRange,
    read_number,
    split_words,
)
from laptime.model.plan import find_launcher
from laptime.model.questions import QUESTIONS, Question
from laptime.model.sample import SENSORS

# Kinds of values that know clusters and prices.


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


def _parse_prices(text: str) -> tuple[TypePrice, ...]:
    pairs = [word.rpartition("=")[::2] for word in text.split(",")]
    try:
        prices = {name: float(price) for name, price in pairs}
    except ValueError:
        prices = {"": 0.0}
    if "" in prices:
        raise ValueError(f"'{text}' is no list of prices; such as small=0.10,big=1.20")
    return tuple(TypePrice(name, price) for name, price in prices.items())


CLUSTER = OptionKind("text", "str", str, _read_cluster)
PLACES = OptionKind("words", "str", split_words, _read_cluster,
                    lambda value: value if isinstance(value, str) else ",".join(value))  # fmt: skip
"""Clusters, and devices of a script."""
PRICES = OptionKind("prices", "Mapping[str, float]", _parse_prices, _read_prices,
                    lambda prices: ",".join(f"{price.of}={price.per_hour!r}" for price in prices))  # fmt: skip

# The rows, in the order in which `--help` lists them.


def taking(what: str) -> tuple[str, ...]:
    """Return the commands of the questions that take such options."""
    return tuple(row.command for row in QUESTIONS if what in row.takes)


TRAINED, TIMED, MEASURED, PRICED = map(taking, ("trained", "timed", "measured", "priced"))
WAITING = ValueRange(0.1, WEEK_S, "expected 0.1s to 7d", "such as 10m")
MONEY = ValueRange(0, math.inf, "expected 0 or more", "such as 0.25")
THRESHOLD_HELP = "Exit code 1 if slower by more, for certain."
ORDERS = ("time", "money")
BUDGETS = ValueRange(1, WEEK_S, "expected 1s to 7d", "such as 60s, 2m or 1h")
BUDGET_HELP = "Time that it may take: 60s, 2m, 1h."
ALL_SENSORS = ",".join(row.name for row in SENSORS)

OPTIONS: list[Option] = [
    # What is trained.
    Option("every", FLAG, TRAINED, "every", "Every installed framework on every device, as written.", is_rare=True,
           only_for="trainings"),
    Option("data", PATH, TRAINED, "data", "Folder or archive of real data.", only_for="trainings"),
    Option(
        "items", ITEMS, TRAINED, "items",
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
    # What one question alone is asked.
    *(option for row in QUESTIONS if row.has_options for option in row.part(QuestionOptions).rows),
    # How long, and how.
    Option(
        "budget", DURATION, TIMED, "budget_s", BUDGET_HELP, default="60s",
        defaults={row.command: row.budget for row in QUESTIONS if row.budget},
        range=BUDGETS,
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
    Option("batch", COUNTS, ("race",), "batches", "Batch sizes, a lane each: 64,128.", range=BATCHES, is_rare=True,
           only_for="trainings"),
    Option("profile", FLAG, ("race",), "profile", "Then profile each lane: operators, kernels, a trace.",
           only_for="trainings"),
    # On the command line they are behind --.
    Option("arguments", COMMAND, ("race", "why", "tune", "verdict"), "command", only="library", only_for="scripts"),
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
    Option("more", DURATION, ("race",), help="Go on with the latest race, or with ID.", metavar="[TIME]",
           only="command", range=BUDGETS),
    Option("more", DURATION, ("verdict", "why", "tune"), help="Go on with the latest one, or with ID.",
           metavar="[TIME]", only="command", range=BUDGETS, is_rare=True),
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
    Option("board", PATH, ("forecast",), help="A folder of a board: its measured cards count, too.",
           only="command"),
    Option("progress", PROGRESS, (*TRAINED, "watch"), only="library"),
]  # fmt: skip

# The parts of an ask that one question alone has, and what an ask of each question is before any option is set, where
# that is not `Ask()`.


def _plain_ask(row: Question) -> Ask:
    meant: dict[str, Any] = {row.asks: ASK_PARTS[row.asks]() if row.has_options else True}
    return Ask(**meant)


ASK_PARTS: dict[str, type] = {row.asks: row.part(QuestionOptions).ask for row in QUESTIONS if row.has_options}
PLAIN_ASKS = {row.command: _plain_ask(row) for row in QUESTIONS if row.asks}
PLAN = "plan"
LEAST = "profile"


def options_of(question: str) -> list[Option]:
    """Return the options of a question, by the name of its command, in the order of `--help`.

    A plan takes what a race is asked, and a question that a package adds what a profile takes. An option of one
    question alone replaces one of the same name that several have.
    """
    if question == PLAN:
        return [row for row in options_of("race") if row.fills]
    asked = question if any(question in row.questions for row in OPTIONS) else LEAST
    rows = [row for row in OPTIONS if asked in row.questions]
    own = {row.name for row in rows if row.questions == (asked,)}
    return [row for row in rows if row.name not in own or row.questions == (asked,)]


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


def find_out_of_range(asked: object) -> tuple[str, str] | None:
    """Return why a figure of an ask, or of a part of it, cannot be, and a hint; or None."""
    part = next((name for name, kind in ASK_PARTS.items() if isinstance(asked, kind)), "")
    rows = [row for row in OPTIONS if row.range is not None and row.fills and row.part == part]
    for row in rows:
        refusal = row.refusal_of(getattr(asked, row.fills.rpartition(".")[2]))
        if refusal is not None:
            return refusal
    return None
