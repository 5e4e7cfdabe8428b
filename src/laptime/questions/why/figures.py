"""The figures of why: the parts of a step, the three ceilings, what each experiment gained, and all causes."""

from __future__ import annotations

from laptime.figures.facts import fact_figures
from laptime.figures.readings import reading_figures
from laptime.figures.rooflines import roofline_figures
from laptime.figures.steps import step_figures
from laptime.model.figure import Bar, Bars, Figure, Part, Stack, Table
from laptime.model.missing import Missing
from laptime.model.questions import WhyAnswer
from laptime.model.record import Record
from laptime.pages.numbers import factor, number
from laptime.pages.words import short_name
from laptime.questions.race.figures import figures as race_figures
from laptime.questions.race.figures import lane_bars
from laptime.questions.why.nouns import Factor, Remedy, Why


def figures(record: Record) -> list[Figure]:
    """Return all figures of why; those of a race where nothing was concluded."""
    why = record.answer.why if isinstance(record.answer, WhyAnswer) else None
    if why is None:
        return race_figures(record)
    return [
        *_parts(why),
        *_ceilings(why, record),
        *_remedies(why),
        _causes(why),
        *lane_bars(record),
        *step_figures(record.lanes[:1]),
        *roofline_figures(record.lanes[:1]),
        *reading_figures(record),
        *fact_figures(record),
    ]


def _parts(why: Why) -> list[Figure]:
    parts = tuple(Part(each.of, each.share) for each in why.parts if each.share > 0)
    return [Figure("Where the time of a step goes", Stack(((short_name(why.lane), parts),)))] if parts else []


def _ceilings(why: Why, record: Record) -> list[Figure]:
    bars = []
    for each in why.ceilings:
        if isinstance(each.items_per_s, Missing):
            bars.append(Bar(each.stage, None, words=each.items_per_s.missing, kind="failed"))
            continue
        low, high = (None if isinstance(end, Missing) else end for end in (each.low, each.high))
        words = f"{number(each.items_per_s)}{', which binds' if each.binds else ''}"
        bars.append(Bar(each.stage, each.items_per_s, low, high, words, "best" if each.binds else "lane"))
    title, says = "The three ceilings", f"{record.workload.items} per second of each stage alone. The lowest binds."
    return [Figure(title, Bars("a second", tuple(bars)), says)] if bars else []


def _remedies(why: Why) -> list[Figure]:
    rows = tuple(_remedy(each) for each in why.remedies)
    heads = ("remedy", "=predicted", "=measured", "changes", "how")
    return [Figure("What may be changed", Table(heads, rows))] if rows else []


def _remedy(remedy: Remedy) -> tuple[str, ...]:
    predicted = "-" if isinstance(remedy.predicted, Missing) else f"{factor(remedy.predicted)}x"
    measured = _factor_words(remedy.measured) if remedy.measured else f"- ({remedy.reason})"
    says = f"{remedy.says} (recommended)" if remedy.recommended else remedy.says
    return says, predicted, measured, remedy.changes, remedy.code


def _factor_words(found: Factor) -> str:
    if isinstance(found.low, Missing) or isinstance(found.high, Missing):
        return f"{factor(found.ratio)}x"
    return f"{factor(found.ratio)}x ({factor(found.low)}-{factor(found.high)})"


def _causes(why: Why) -> Figure:
    rows = tuple((each.cause, each.standing, each.says) for each in why.causes)
    return Figure("Every cause that was judged", Table(("cause", "verdict", "why"), rows))
