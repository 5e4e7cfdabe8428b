"""Find figures that laptime never writes. A file with one was damaged or edited, and is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from laptime.model.profile import Operator, Profile
from laptime.model.protocol import LapFactor, LapResult
from laptime.model.record import Answer, Comparison, Forecast, InferFactor
from laptime.model.sample import Window
from laptime.questions.scale.nouns import LinkCost
from laptime.questions.why.nouns import Factor

NUMBERS = {int, float}
PLAIN = {int, float, str, bool, type(None)}
UNITS = ("_ns", "_us", "_ms", "_s", "_bytes", "_mhz", "_mw", "_w", "_mib")
OTHERS = {"median", "seconds", "steps", "items", "laps", "heats", "calls", "pairs", "seeds", "batch", "processes"}
ABOVE_ZERO: dict[type, tuple[str, ...]] = {
    Comparison: ("ratio",),
    Factor: ("ratio",),
    Forecast: ("laps", "fresh_factor"),
    InferFactor: ("ratio",),
    LapFactor: ("later_laps", "first_lap"),
    LapResult: ("steps",),
    Profile: ("steps", "plain_ms", "profiled_ms"),
    Window: ("steps",),
}
MAY_BE_NEGATIVE: dict[type, tuple[str, ...]] = {
    LinkCost: ("hidden_ms",),  # a step may pay more than an exchange alone
    Operator: ("memory_bytes",),  # freed memory is subtracted
}


def is_sound(value: Any) -> bool:
    """Whether there is no such figure. This must be fast: a list of records may read 100,000 of them."""
    kind: type = type(value)
    if kind is tuple:
        return not value or type(value[0]) in PLAIN or all(map(is_sound, value))
    if kind is dict:
        return all(map(is_sound, value.values()))
    return not _has_fields(kind) or _are_figures_sound(value, kind)


@cache
def _has_fields(kind: type) -> bool:
    return is_dataclass(kind)


def _are_figures_sound(value: Any, kind: type) -> bool:
    for name, above, _ in figures_of(kind):
        found = getattr(value, name)
        if type(found) in NUMBERS and (found < 0 or (above and found == 0)):
            return False
    for name in parts_of(kind):
        part = getattr(value, name)
        if type(part) not in PLAIN and not is_sound(part):
            return False
    return True


def list_faults(value: Any, place: str = "$") -> Iterator[str]:
    """Yield a message for every such figure, with its place in the file."""
    kind: type = type(value)
    if is_dataclass(kind):
        for name, above, expected in figures_of(kind):
            found = getattr(value, name)
            if isinstance(found, int | float) and (found < 0 or (above and found == 0)):
                yield f"{place}.{name}: expected a number {expected}, got {found:g}"
        for name in names_of(kind):
            yield from list_faults(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, tuple) and value and not isinstance(value[0], int | float):
        for number, part in enumerate(value):
            yield from list_faults(part, f"{place}[{number}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from list_faults(part, f"{place}.{key}")


@cache
def parts_of(kind: type) -> tuple[str, ...]:
    """Return the fields of a class that may hold figures inside: not texts and single numbers, nor lists of them."""
    return tuple(name for name, hint in get_type_hints(kind).items() if _holds_parts(hint))


def _holds_parts(hint: Any) -> bool:
    return is_dataclass(hint) or hint is Answer or any(map(_holds_parts, get_args(hint)))


@cache
def names_of(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


@cache
def figures_of(kind: type) -> tuple[tuple[str, bool, str], ...]:
    """Return a class's fields of times, sizes and counts, each with whether 0 is refused and what is expected."""
    above, free = ABOVE_ZERO.get(kind, ()), MAY_BE_NEGATIVE.get(kind, ())
    checked = [name for name in names_of(kind) if name not in free and (name.endswith(UNITS) or name in OTHERS)]
    return tuple((name, name in above, "above 0" if name in above else "from 0 on") for name in {*checked, *above})
