"""The answer of `laptime watch`."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.process import Timeline
from laptime.model.quantities import Missing
from laptime.model.record import Answer, Record
from laptime.model.sample import Usage
from laptime.model.script import RankSkew, ScriptProcess


@dataclass(frozen=True, slots=True)
class WatchAnswer(Answer):
    """What was seen of a command.

    `processes` are those that trained; `others` counts further Python processes that reported. `unseen` says why no
    training loop is known, if so. `usage` and `timeline` are of all processes of the command, which ran for `wall_s`.
    """

    command: tuple[str, ...]
    exit_code: int | None
    wall_s: float
    processes: tuple[ScriptProcess, ...] = ()
    others: int = 0
    unseen: Missing | None = None
    skew: RankSkew | None = None
    left_running: int = 0
    usage: Usage | None = None
    timeline: Timeline | None = None


def watch_of(record: Record) -> WatchAnswer:
    assert isinstance(record.answer, WatchAnswer)
    return record.answer
