"""What an option is: the kinds of its values, the range that they are in, and what its row in the table says.

The rows are in `model/options.py`; those of one question alone are in its folder.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from laptime.model.quantities import parse_duration, parse_share

# Kinds of values. Each has one reader from a text and one from a Python value; both say in words what they expected.


@dataclass(frozen=True, slots=True)
class OptionKind:
    """A kind of values."""

    name: str  # as `--help` writes it
    annotation: str  # as a signature writes it
    of_text: Callable[[str], Any]  # raises ValueError
    of_value: Callable[[object], Any]  # raises ValueError or TypeError
    write: Callable[[Any], str] = str  # a text that `of_text` reads as the same value
    shown: str = "{}"  # in a refusal


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _digits(value: float) -> str:
    """Return all digits of a number that read as the same number, without a power of ten."""
    from decimal import Decimal  # noqa: PLC0415  a script that imports laptime needs none of it

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
    if not is_number(value):
        raise ValueError("expected a number")
    return float(value)  # type: ignore[arg-type]


def read_duration(value: object) -> float:
    if not (is_number(value) or isinstance(value, str)):
        raise ValueError("expected seconds, or a text such as '60s', '2m' or '1h'")
    return parse_duration(value) if isinstance(value, str) else read_number(value)


def read_share(value: object) -> float:
    if not (is_number(value) or isinstance(value, str)):
        raise ValueError("expected a number such as 0.03, or a text such as '3%'")
    return parse_share(value if isinstance(value, str) else f"{value:.12f}".rstrip("0").rstrip("."))


def read_item_count(value: object) -> int:
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


def read_words(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise ValueError("expected names, such as ['host', 'rapl']")
    return tuple(words)


def _read_command(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(word, str) for word in value):
        raise ValueError("expected a list of words, such as ['--epochs', '3']")
    return tuple(value)


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


def parse_items(text: str, refusal: str = "is not a count; such as 5000, or all") -> int:
    if text == "all":
        return 0
    if not re.fullmatch("[1-9][0-9]*", text):
        raise ValueError(f"'{text}' {refusal}")
    return int(text)


def split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def write_items(value: object) -> str:
    return "all" if value == 0 else str(value)


FLAG = OptionKind("flag", "bool", bool, read_flag)
COUNT = OptionKind("integer", "int", _parse_count, read_count)
NUMBER = OptionKind("float", "float", _parse_number, read_number, _digits, "{:g}")
DURATION = OptionKind(
    "time", "DurationLike", parse_duration, read_duration, lambda value: f"{_digits(value)}s", "{:g}s"
)
SHARE = OptionKind("share", "ShareLike", parse_share, read_share, _digits, "{:g}")
ITEMS = OptionKind("number", "ItemsLike", parse_items, read_item_count, write_items)
COUNTS = OptionKind("numbers", "int | Sequence[int]", lambda text: _parse_list(int, "64,128", text),
                    lambda value: tuple(map(read_count, value if isinstance(value, Sequence) else [value])),
                    lambda value: ",".join(map(str, value)))  # fmt: skip
NUMBERS = OptionKind("numbers", "float | Sequence[float]", lambda text: _parse_list(float, "1e-3,1e-4", text),
                     lambda value: tuple(map(read_number, value if isinstance(value, Sequence) else [value])),
                     lambda value: ",".join(map(_digits, value)), "{:g}")  # fmt: skip
NAME = OptionKind("text", "str", str, _read_name)
WORDS = OptionKind("words", "str | Sequence[str]", split_words, read_words, ",".join)
SETTING = OptionKind("text", "Sequence[str]", str, _read_command)  # each time that the option is given
COMMAND = OptionKind("words", "Sequence[str]", split_words, _read_command)
PATH = OptionKind("path", "PathLike", str, _read_path)
RECORD = OptionKind("text", "Recorded", str, _read_name)
PROGRESS = OptionKind("flag", "bool", bool, read_flag)  # by default it depends on where the call is


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
    kind: OptionKind
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
        """The part of the ask that its field is in, which one question alone has; or none."""
        return self.fills.rpartition(".")[0]

    def default_of(self, question: str) -> str | None:
        return self.defaults.get(question, self.default)

    def value_of(self, ask: object) -> Any:
        """Return what an ask says, or None where it says nothing."""
        if self.fills_one and (one := getattr(ask, self.fills_one)) is not None:
            return one
        holder = getattr(ask, self.part) if self.part else ask
        value = None if holder is None else getattr(holder, self.fills.rpartition(".")[2])
        return (True if self.adds in (value or ()) else None) if self.adds else value

    def refusal_of(self, value: Any) -> tuple[str, str] | None:
        """Return why a value, or one of several, is out of range, and a hint; or None."""
        if self.range is None or value is None:
            return None
        for figure in value if isinstance(value, tuple) else (value,):
            if not self.range.holds(figure):
                shown = (self.range.shown or self.kind.shown).format(figure)
                return f"{self.option} {shown}: {self.range.expected}", self.range.hint
        return None

    def words_of(self, value: Any) -> list[str]:
        """Return the words that set this value on the command line."""
        if self.kind is FLAG:
            return [self.option]
        values = value if self.kind is SETTING else [self.kind.write(value)]
        # A value such as -- would be read as an option of its own.
        parts = [[f"{self.option}={text}"] if text.startswith("-") else [self.option, text] for text in values]
        return [word for part in parts for word in part]


WEEK_S = 7 * 24 * 3600.0
MOST_BATCH = 1_000_000
BATCHES = ValueRange(1, MOST_BATCH, f"expected whole numbers from 1 to {MOST_BATCH:,}", "such as 64,128")
LAPS_RANGE = ValueRange(1, 100_000, "expected a whole number from 1 to 100,000", "such as 3")


@dataclass(frozen=True, slots=True)
class QuestionOptions:
    """What `options.py` of a question holds: the part of an `Ask` that it alone has, and the options that fill it."""

    FILE: ClassVar[str] = "options"

    ask: type
    rows: Sequence[Option]
