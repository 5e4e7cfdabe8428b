"""What is known of one setting of a lane: how it is written, read, listed, chosen and refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from laptime.model.lane import Settings
from laptime.model.machine import Device
from laptime.planner import refusals
from laptime.planner.facts import LaneFacts

LARGEST_COUNT = 1_000_000


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. A lane writes it as `name=value`, or as the value alone if it `stands_alone`.

    `listed` are the values as lists of settings show them, or a placeholder if it is a number (`kind`). `accepts`
    checks a value (default: a listed value, or a count); `takes` describes the allowed values. `fields` names the
    fields of Settings that it sets (default: the field of its name), and `read` returns their values. If there is no
    such field, the value is in `Settings.extra`; see `value_of(name)`.

    `tunes` returns the values that `laptime tune` tries on a lane.

    `best` returns the value that the preset `best` sets on a lane, and `fastest` that of `fastest` if it differs
    (None: as written). `refuse` raises UsageError if the setting is not possible. `refused_for` maps a command (train,
    infer) to what is wrong with the setting there, and a hint. `environment` returns variables of the lane's process.
    `code` does the same in a training of your own, where no experiment of `why` has it; {value} is the value.
    """

    name: str
    listed: tuple[str, ...]
    about: str
    takes: str = ""
    stands_alone: bool = False
    kind: type[str | int | float] = str
    accepts: Callable[[str], bool] | None = None
    only_of: str = ""
    changes: Literal["", "arithmetic", "learning"] = ""
    fields: tuple[str, ...] = ()
    read: Callable[[str, LaneFacts], dict[str, Any]] | None = None
    tunes: Callable[[LaneFacts], tuple[str, ...]] = lambda _lane: ()
    best: Callable[[LaneFacts], Any] = lambda _lane: None
    fastest: Callable[[LaneFacts], Any] | None = None
    refuse: Callable[[Settings, LaneFacts], None] = lambda _settings, _lane: None
    refused_for: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    environment: Callable[[Settings, Device], dict[str, str]] = lambda _settings, _device: {}
    code: str = ""

    @property
    def main_field(self) -> str:
        """Return the field of Settings that it sets, or the first if it sets two."""
        return self.fields[0] if self.fields else self.name

    def can_be(self, value: str) -> bool:
        if self.accepts:
            return self.accepts(value)
        return value in self.listed if self.kind is str else is_count(value)

    def values_of(self, settings: Settings) -> tuple[Any, ...]:
        return tuple(map(settings.value_of, self.fields or (self.name,)))

    def fill(self, text: str, lane: LaneFacts) -> dict[str, Any]:
        """Return the values that a written value sets, by field."""
        return self.read(text, lane) if self.read else {self.main_field: self.kind(text)}

    def written(self, value: str) -> str:
        return value if self.stands_alone else f"{self.name}={value}"

    def list_values(self, values: tuple[str, ...]) -> str:
        """Return values as lists of settings show them: `a, b`, `name=a|b` or `name=N, name=4x`."""
        if self.stands_alone or self.kind is not str:
            return ", ".join(map(self.written, values))
        return self.written("|".join(values))


def is_count(value: str) -> bool:
    return re.fullmatch("[1-9][0-9]{0,6}", value) is not None and int(value) <= LARGEST_COUNT


def switch(name: str, value: str, usual: str, about: str, takes: str, **more: Any) -> Setting:
    """Return a setting with one value besides the usual one, which only some devices have."""
    more = {"refuse": partial(refusals.refuse_switch, name, value), **more}
    accepts = {value, usual}.__contains__
    return Setting(name, (value,), about, takes=f"{value} ({takes}) or {usual}", accepts=accepts, **more)


def first_of(tries: Callable[[LaneFacts], tuple[str, ...]]) -> Callable[[LaneFacts], str | None]:
    """Return the choice of a preset that takes what is tried first."""
    return lambda lane: next(iter(tries(lane)), None)
