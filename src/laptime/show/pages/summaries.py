"""The result of a record in a few words, for a list: what the questions' own words are made of."""

from __future__ import annotations

from laptime.model.protocol import LapFactor
from laptime.model.record import Comparison, InferFactor, Record
from laptime.show.pages.lanes import most_telling, names_of_trainings
from laptime.show.pages.words import short_name


def summary_of_race(record: Record) -> list[str]:
    faster = [
        comparison
        for comparison in record.answer.comparisons
        if comparison.verdict == "faster" and comparison.same_work is not False
    ]
    best = most_telling(faster) if faster else None
    return [lanes_counted(record), *([factor_named(best, best.ratio)] if best else []), *lanes_failed(record)]


def lanes_counted(record: Record) -> str:
    return f"{len(record.lanes)} lane{'s' * (len(record.lanes) != 1)}"


def lanes_failed(record: Record) -> list[str]:
    failed = sum(lane.status != "ok" for lane in record.lanes)
    return [f"{failed} without a result"] if failed else []


def factor_named(found: Comparison | LapFactor | InferFactor, ratio: float) -> str:
    """Return a factor, with a remark if the same work is unproven: a list has no column for the proof."""
    doubt = "" if found.same_work is True else " (same work unproven)"
    names = names_of_trainings(found.lane, found.reference) or (short_name(found.lane), short_name(found.reference))
    return f"{names[0]} {ratio:.2f}x faster than {names[1]}{doubt}"
