"""A record as a table for people: who was faster, by what factor, and whether all did the same work."""

from __future__ import annotations

from laptime.model.record import LaneResult, Record
from laptime.report import afterwords, figures
from laptime.report.layout import Cell, Column, Row, cells_wide, flow, lay_out, paint, wrap
from laptime.report.phrases import (
    accelerator_words,
    against_first,
    against_title,
    machine_words,
    same_work,
    short_name,
    subject_words,
)

NARROWEST = 40
LEAST_LANE = 14
LEAST_FACTOR = 19
LEAST_PROOF = 22


def render(record: Record, width: int = 100, *, color: bool = False) -> str:
    """Give the whole report of a race, at most `width` places wide."""
    width = max(width, NARROWEST)
    lines = [*_header(record, width, color=color), *_table(record, width, color=color)]
    lines += afterwords.failures(record, width)
    lines += [line for sentence in afterwords.remarks(record) for line in wrap(sentence, width, "  ")]
    lines += _quiet(_flowing(afterwords.starts(record), width), color=color)
    lines += wrap(afterwords.published(record, width), width, "  ")
    lines += _closing(record, width)
    return "\n".join(line for line in lines if line) + "\n"


def _header(record: Record, width: int, *, color: bool) -> list[str]:
    """Set the machine at the right end of the workload's line, or below it where there is no room."""
    subject = subject_words(record.workload)
    machine = ", ".join(words for words in (machine_words(record.machine), accelerator_words(record)) if words)
    space = width - cells_wide(subject) - cells_wide(machine)
    if space >= 2:
        return [paint(subject, "strong", color=color) + " " * space + machine]
    return [paint(line, "strong", color=color) for line in wrap(subject, width, "  ")] + wrap(machine, width, "  ")


def _table(record: Record, width: int, *, color: bool) -> list[str]:
    """Show as many columns as fit: the proof moves below the table first, then the rate is left out."""
    for with_proof, with_rate in ((True, True), (False, True), (False, False)):
        lines = _try_table(record, width, with_proof=with_proof, with_rate=with_rate, color=color)
        if lines is not None:
            return lines if with_proof else [*lines, *_proof_lines(record, width)]
    return [line for lane in record.lanes for line in wrap(_as_sentence(lane, record), width, "  ")]
