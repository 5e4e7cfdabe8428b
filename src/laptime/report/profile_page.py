"""The page of a record of profiles: what is above and below them."""

from __future__ import annotations

from laptime.model.record import Record
from laptime.report import afterwords
from laptime.report.figures import duration
from laptime.report.layout import wrap
from laptime.report.profile import profiles
from laptime.report.roofline import limit_lines
from laptime.report.terminal import NARROWEST, closing_lines, header

TOP = 15


def render(record: Record, width: int = 100, *, color: bool = False, kept: bool = True) -> str:
    """Give the whole page, at most `width` places wide but for a trace's name."""
    width = max(width, NARROWEST)
    lines = [*header(record, width, color=color), *profiles(record, width, TOP, color=color)]
    lines += limit_lines(record, width)
    lines += [line for sentence in afterwords.remarks(record) for line in wrap(sentence, width, "  ")]
    saved = afterwords.saved(record) if kept else afterwords.NOT_SAVED
    lines += closing_lines(_closing(record), width, saved)
    return "\n".join(line for line in lines if line) + "\n"


def _closing(record: Record) -> str:
    done, lanes = sum(lane.profile is not None for lane in record.lanes), len(record.lanes)
    count = str(done) if done == lanes else f"{done} of {lanes}"
    said = f"{count} lane{'s' * (lanes != 1)} profiled, {duration(record.elapsed_s)}."
    return said if record.status == "finished" else f"{record.status}: {said}"
