"""A record as a table for people: who was faster, by what factor, and whether all did the same work."""

from __future__ import annotations

from laptime.model.checkup import CARD_NOT_SEEN
from laptime.model.record import LaneResult, Record
from laptime.report import afterwords
from laptime.report.instruments import instruments
from laptime.report.layout import Cell, Column, Row, cells_wide, flow, lay_out, paint, wrap
from laptime.report.phrases import (
    accelerator_words,
    against_first,
    against_title,
    failure_words,
    lap_words,
    machine_words,
    rate_words,
    same_work,
    short_name,
    step_words,
    subject_words,
)
from laptime.report.profile import profiles
from laptime.report.published import published_line
from laptime.report.roofline import limit_lines

NARROWEST = 40
LEAST_LANE = 14
LEAST_FACTOR = 19
LEAST_PROOF = 22


def render(record: Record, width: int = 100, *, color: bool = False, kept: bool = True) -> str:
    """Give the whole report of a race, at most `width` places wide; one that is `kept` ends with its id."""
    width = max(width, NARROWEST)
    lines = [*header(record, width, color=color), *_unseen(record, width), *_table(record, width, color=color)]
    lines += instruments(record, width, color=color)
    lines += limit_lines(record, width)
    lines += afterwords.failures(record, width)
    lines += [line for sentence in afterwords.remarks(record) for line in wrap(sentence, width, "  ")]
    lines += quiet(afterwords.starts(record, width), color=color)
    lines += afterwords.forecasts(record, width)
    lines += wrap(published_line(record, width), width, "  ")
    lines += profiles(record, width, color=color)
    saved = afterwords.saved(record) if kept else afterwords.NOT_SAVED
    lines += closing_lines(afterwords.closing(record), width, saved)
    return "\n".join(line for line in lines if line) + "\n"


def header(record: Record, width: int, *, color: bool) -> list[str]:
    """Set the machine at the right end of the workload's line, or below it where there is no room."""
    subject = subject_words(record.workload)
    machine = ", ".join(words for words in (machine_words(record.machine), accelerator_words(record)) if words)
    space = width - cells_wide(subject) - cells_wide(machine)
    if space >= 2:
        return [paint(subject, "strong", color=color) + " " * space + machine]
    return [paint(line, "strong", color=color) for line in wrap(subject, width, "  ")] + wrap(machine, width, "  ")


def _unseen(record: Record, width: int) -> list[str]:
    """Say before all figures which card is here and was not raced on, and what mends it."""
    told = (f"{each.says} {each.advice}" for each in record.findings if each.rule == CARD_NOT_SEEN)
    lines = [line for sentence in told for line in wrap(sentence, width, "  ")]
    return [*lines, "laptime doctor says more."] if lines else []


def _table(record: Record, width: int, *, color: bool) -> list[str]:
    """Show as many columns as fit: the proof moves below the table first, then the rate is left out."""
    for with_proof, with_rate in ((True, True), (False, True), (False, False)):
        lines = _try_table(record, width, with_proof=with_proof, with_rate=with_rate, color=color)
        if lines is not None:
            return lines if with_proof else [*lines, *proof_lines(record, width)]
    told = [line for lane in record.lanes for line in wrap(_as_sentence(lane, record), width, "  ")]
    return [*told, *proof_lines(record, width)]


def _try_table(record: Record, width: int, *, with_proof: bool, with_rate: bool, color: bool) -> list[str] | None:
    """Break names and factors only where even the rate was left out."""
    last_resort = not with_rate
    columns = [
        Column("lane", least=LEAST_LANE if last_resort else None),
        Column("a lap"),
        Column("step"),
        *([Column(f"{record.workload.items}/s", right=True)] if with_rate else []),
        Column(against_title(record), least=LEAST_FACTOR if last_resort else None),
        *([Column("same work", least=LEAST_PROOF)] if with_proof else []),
    ]
    rows = [_row(lane, record, with_proof=with_proof, with_rate=with_rate) for lane in record.lanes]
    return lay_out(columns, rows, width, color=color)


def _row(lane: LaneResult, record: Record, *, with_proof: bool, with_rate: bool) -> Row:
    name = Cell(short_name(lane.name))
    failed = failure_words(lane)
    if failed:
        return Row((name, Cell(failed, "bad")), spans=True)
    cells = [name, Cell(lap_words(lane)), Cell(step_words(lane))]
    cells += [Cell(rate_words(lane))] if with_rate else []
    cells += [against_first(lane, record)]
    cells += [same_work(lane, record)] if with_proof else []
    return Row(tuple(cells))


def proof_lines(record: Record, width: int) -> list[str]:
    """Say below the table what had no room in it, and once for all where all is well."""
    told = [(short_name(lane.name), same_work(lane, record).text) for lane in record.lanes if not failure_words(lane)]
    if not told:
        return []
    first, others = told[0][1], {text for _, text in told[1:]}
    if first.startswith("yes") and others <= {"yes"}:
        who = ", all lanes" if len(told) == len(record.lanes) else ", all that finished"
        return wrap(f"same work: {first}{who if others else ''}", width, "  ")
    return flow((f"{name} {text}" for name, text in told), width, "same work: ")


def _as_sentence(lane: LaneResult, record: Record) -> str:
    """Tell of a lane where no table fits."""
    told = failure_words(lane) or ", ".join(
        (f"a lap {lap_words(lane)}", f"step {step_words(lane)}", against_first(lane, record).text)
    )
    return f"{short_name(lane.name)}: {told}"


def quiet(lines: list[str], *, color: bool) -> list[str]:
    return [paint(line, "quiet", color=color) for line in lines]


def closing_lines(said: str, width: int, saved: str) -> list[str]:
    if cells_wide(said) + 2 + cells_wide(saved) <= width:
        return [f"{said}  {saved}"]
    return [*wrap(said, width, "  "), *wrap(saved, width, "  ")]
