"""The page of `laptime why`: the verdict, where a step's time goes, the ceilings, the remedies, what was ruled out."""

from __future__ import annotations

from dataclasses import replace

from laptime.model.missing import Missing
from laptime.model.record import LaneResult, Record
from laptime.model.why import Ceiling, Standing, Why
from laptime.report import afterwords
from laptime.report.figures import duration, number, percent
from laptime.report.layout import flow, paint, wrap
from laptime.report.phrases import machine_words, step_words
from laptime.report.terminal import NARROWEST, closing_lines, quiet
from laptime.report.why_bar import bar_lines
from laptime.report.why_remedies import remedy_lines

STANDINGS: tuple[Standing, ...] = ("proven", "likely", "ruled out", "not tested", "not testable here")


def render(
    record: Record, width: int = 100, *, color: bool = False, kept: bool = True, ascii_only: bool = False
) -> str:
    """Give the whole page, at most `width` places wide but for a line of code; `ascii_only` has letters for blocks."""
    assert record.why is not None
    width, why = max(width, NARROWEST), record.why
    lines = [*_verdict(why, width, color=color), *_step(record, why, width, ascii_only=ascii_only)]
    lines += _ceilings(record, why, width)
    lines += remedy_lines(why.remedies, width, color=color)
    for standing in STANDINGS:
        lines += _causes(why, standing, width)
    lines += _missing(why, width)
    lines += quiet(_notes(record, width), color=color)
    saved = afterwords.saved(record) if kept else afterwords.NOT_SAVED
    lines += closing_lines(_closing(record), width, saved)
    return "\n".join(line for line in lines if line) + "\n"


def _verdict(why: Why, width: int, *, color: bool) -> list[str]:
    """Where the noise hides all, that comes first."""
    lines = []
    if not why.trusted:
        said = f"Not to be trusted: {why.distrust or 'the noise was too great'}."
        lines += [paint(line, "bad", color=color) for line in wrap(said, width, "  ")]
    return lines + [paint(line, "strong", color=color) for line in wrap(why.says, width, "  ")]


def _step(record: Record, why: Why, width: int, *, ascii_only: bool) -> list[str]:
    lane = _lane(record, why)
    if lane is None or lane.step_ms is None:
        return []
    bar = bar_lines(why.parts, width, ascii_only=ascii_only)
    return [f"a step {step_words(lane)}", *bar]


def _ceilings(record: Record, why: Why, width: int) -> list[str]:
    """What is not known says why, behind those that are."""
    told = sorted(why.ceilings, key=lambda each: isinstance(each.items_per_s, Missing))
    return flow((_ceiling(each, record.workload.items) for each in told), width, "ceilings: ") if told else []


def _ceiling(ceiling: Ceiling, items: str) -> str:
    rate = ceiling.items_per_s
    if isinstance(rate, Missing):
        return f"{ceiling.stage} only - ({rate.missing})"
    words = f"{ceiling.stage} only {number(rate)} {items}/s{_spread(ceiling, rate)}"
    return f"{words} (binds)" if ceiling.binds else words


def _spread(ceiling: Ceiling, rate: float) -> str:
    if isinstance(ceiling.low, Missing) or isinstance(ceiling.high, Missing) or not rate:
        return ""
    half = (ceiling.high - ceiling.low) / 2 / rate
    return f" \N{PLUS-MINUS SIGN}{percent(half)}" if half <= 1 else " (from two heats that differ)"


def _causes(why: Why, standing: Standing, width: int) -> list[str]:
    told = [f"{each.cause} ({each.says})" for each in why.causes if each.standing == standing]
    return flow(told, width, f"{standing}: ") if told else []


def _missing(why: Why, width: int) -> list[str]:
    if not why.missing:
        return []
    names = ", ".join(why.missing)
    return wrap(f"The budget had no room for: {names}. A larger one has: --budget 5m.", width, "  ")


def _notes(record: Record, width: int) -> list[str]:
    """Tell what a reader must know of the lane as it is; of the experiments only what they gained is of interest."""
    asked = replace(record, lanes=record.lanes[:1], findings=(), comparisons=())
    lines = afterwords.failures(asked, width)
    lines += [line for sentence in afterwords.remarks(asked) for line in wrap(sentence, width, "  ")]
    return [*lines, *wrap(machine_words(record.machine), width, "  ")]


def _lane(record: Record, why: Why) -> LaneResult | None:
    return next((lane for lane in record.lanes if lane.name == why.lane), None)


def _closing(record: Record) -> str:
    """Say what was run for it, and in what time."""
    heats = sum(len(lane.heats) for lane in record.lanes)
    lanes = len(record.lanes)
    said = f"{heats} heats of {lanes} lane{'s' * (lanes != 1)}, {duration(record.elapsed_s)}."
    return said if record.status == "finished" else f"{record.status}: {said}"
