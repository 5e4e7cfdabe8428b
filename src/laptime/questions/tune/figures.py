"""The figures of a tuning: what each setting alone is worth, and all lanes that raced."""

from __future__ import annotations

from laptime.figures.facts import fact_figures
from laptime.figures.readings import reading_figures
from laptime.model.digits import times
from laptime.model.figure import Bar, Bars, Figure
from laptime.model.missing import Missing
from laptime.model.record import Record
from laptime.pages.words import short_name
from laptime.questions.race.figures import figures as race_figures
from laptime.questions.race.figures import lane_bars, proof_figures
from laptime.questions.tune.nouns import SettingWorth, TunedLane
from laptime.questions.tune.page import tuning_of


def figures(record: Record) -> list[Figure]:
    """Return all figures of a tuning; those of a race where nothing was concluded."""
    tuning = tuning_of(record)
    if tuning is None:
        return race_figures(record)
    return [
        *(figure for each in tuning.lanes for figure in _worths(each, record)),
        *lane_bars(record),
        *proof_figures(record),
        *reading_figures(record),
        *fact_figures(record),
    ]


def _worths(tuned: TunedLane, record: Record) -> list[Figure]:
    bars = tuple(_bar(each) for each in tuned.settings)
    aim, lane = record.ask.aim, short_name(tuned.asked)
    says = f"{lane} with one setting alone: how many times {aim.as_much} it {aim.does}."
    return (
        [Figure(f"What each setting is worth on {short_name(tuned.asked)}", Bars("times", bars), says)] if bars else []
    )


def _bar(each: SettingWorth) -> Bar:
    if each.alone is None:
        return Bar(each.word, None, words=each.reason or "", kind="failed")
    low, high = (None if isinstance(end, Missing) else end for end in (each.alone.low, each.alone.high))
    return Bar(each.word, each.alone.ratio, low, high, times(each.alone.ratio), "best" if each.in_winner else "lane")
