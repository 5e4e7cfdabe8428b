"""The figures of a profile: the operators that take a step's time, on each lane."""

from __future__ import annotations

from laptime.figures.facts import fact_figures
from laptime.figures.rooflines import roofline_figures
from laptime.model.figure import Bar, Bars, Figure
from laptime.model.missing import Missing
from laptime.model.profile import Profile
from laptime.model.record import LaneResult, Record
from laptime.pages.numbers import number
from laptime.pages.words import short_name

OPERATORS_MOST = 15


def figures(record: Record) -> list[Figure]:
    """Return all figures of a profile."""
    profiled = [figure for lane in record.lanes if lane.profile is not None for figure in _of(lane, lane.profile)]
    return [*profiled, *roofline_figures(record.lanes), *fact_figures(record)]


def _of(lane: LaneResult, profile: Profile) -> list[Figure]:
    shown = profile.operators[:OPERATORS_MOST]
    bars = tuple(
        Bar(each.name, each.own_ms, words=f"{number(each.own_ms)} ms, {number(each.calls)} calls, {each.where}")
        for each in shown
    )
    busy = "" if isinstance(profile.device_busy, Missing) else f" The device was busy {profile.device_busy:.0%}."
    says = f"Own time a step in {profile.steps} steps under {profile.by}, {profile.cost:.2f} times a plain step.{busy}"
    return [Figure(f"Operators of {short_name(lane.name)}", Bars("ms a step", bars), says)] if bars else []
