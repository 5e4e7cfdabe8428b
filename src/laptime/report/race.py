"""The page of a race, and its live view: which lane was faster, by what factor, and whether all did the same work."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.checkup import CARD_NOT_SEEN
from laptime.model.record import LaneResult, Record
from laptime.model.workload import PublishedResult
from laptime.report import footnotes
from laptime.report.layout import SEPARATOR, Cell, flow, wrap, wrap_all
from laptime.report.numbers import duration, published_lap
from laptime.report.page import NARROWEST, RecordColumn, fit_table, header, live_page, page_text, quiet
from laptime.report.profile import limit_lines, profiles
from laptime.report.usage import usage_lines
from laptime.report.words import (
    against_first,
    against_title,
    failure_words,
    lap_words,
    rate_words,
    same_work,
    short_name,
    step_words,
)
from laptime.visible import cells_wide

VENDORS = ("NVIDIA ", "GeForce ", "Intel ", "Core ", "AMD ")


def _against(lane: LaneResult, record: Record) -> Cell:
    """Return a lane's factor or, in its place, its failure."""
    failed = failure_words(lane)
    return Cell(failed, "bad") if failed else against_first(lane, record)


def _heats(lane: LaneResult, _record: Record) -> str:
    return str(sum(heat.process.status == "ok" for heat in lane.heats))


SAME_WORK = RecordColumn("same work", same_work, least=18, leaves=1, view="page")
RACE_COLUMNS: list[RecordColumn[LaneResult]] = [
    RecordColumn("lane", lambda lane, _: short_name(lane.name), least=14, breaks_last=True),
    RecordColumn("heats", _heats, right=True, view="live"),
    RecordColumn("a lap", lambda lane, _: lap_words(lane)),
    RecordColumn("step", lambda lane, _: step_words(lane)),
    RecordColumn(lambda record: f"{record.workload.items}/s", lambda lane, _: rate_words(lane), right=True, leaves=2),
    RecordColumn(against_title, _against, least=19, breaks_last=True),
    SAME_WORK,
]


def render(record: Record, width: int = 100, *, color: bool = False, kept: bool = True, blocks: bool = True) -> str:  # noqa: ARG001
    """Return the page of a race, at most `width` cells wide. If the record is `kept`, it ends with the id."""
    width = max(width, NARROWEST)
    lines = [*header(record, width, color=color), *_unseen(record, width), *_table(record, width, color=color)]
    lines += usage_lines(record, width, color=color)
    lines += limit_lines(record, width)
    lines += footnotes.failures(record, width)
    lines += wrap_all(footnotes.remarks(record), width)
    lines += quiet(footnotes.starts(record, width), color=color)
    lines += footnotes.forecasts(record, width)
    lines += wrap(published_line(record, width), width, "  ")
    lines += profiles(record, width, color=color)
    return page_text(lines, footnotes.closing(record), record, width, kept=kept)


def live_lines(record: Record, note: str, width: int, *, color: bool = False) -> list[str]:
    """Return a running record as a table and, below it, what is being done now."""
    table, _ = fit_table(RACE_COLUMNS, record.lanes, record, width, color=color, view="live")
    return live_page(record, note, table, width, color=color)


def _unseen(record: Record, width: int) -> list[str]:
    """Return, for the top of the page, which card is here but was not used, and how to fix that."""
    lines = wrap_all((f"{each.says} {each.advice}" for each in record.findings if each.rule == CARD_NOT_SEEN), width)
    return [*lines, "laptime doctor says more."] if lines else []


def _table(record: Record, width: int, *, color: bool) -> list[str]:
    """Return the table with the columns that fit. The proof moves below the table first; then the rate is left out."""
    lines, gone = fit_table(RACE_COLUMNS, record.lanes, record, width, color=color, failed=failure_words)
    return [*lines, *proof_lines(record, width)] if SAME_WORK in gone else lines


def proof_lines(record: Record, width: int) -> list[str]:
    """Return each lane's proof, for below the table. If all did the same work, that is one line."""
    told = [(short_name(lane.name), same_work(lane, record).text) for lane in record.lanes if not failure_words(lane)]
    if not told:
        return []
    first, others = told[0][1], {text for _, text in told[1:]}
    if first.startswith("yes") and others <= {"yes"}:
        who = ", all lanes" if len(told) == len(record.lanes) else ", all that finished"
        return wrap(f"same work: {first}{who if others else ''}", width, "  ")
    return flow((f"{name} {text}" for name, text in told), width, "same work: ")


@dataclass(frozen=True, slots=True)
class Quoted:
    """One published result as it is shown. `lap_s` is for sorting only."""

    kind: str
    lap_s: float
    words: str


def published_line(record: Record, width: int) -> str:
    """Return the published results that fit on a line. The slowest are dropped first; the fastest of a kind stay."""
    results = record.published.results if record.published else ()
    quotes = [quote for result in results if (quote := _quoted(result, record.workload.laps))]
    while cells_wide(_published_words(quotes)) > width and (spare := _slowest_spare(quotes)):
        quotes.remove(spare)
    return _published_words(quotes)


def _quoted(result: PublishedResult, laps: int | None) -> Quoted | None:
    """Return the median lap of a result, or the whole training if no lap was published."""
    device = result.device
    for vendor in VENDORS:
        device = device.replace(vendor, "")
    if result.lap_s:
        lap_s = sorted(result.lap_s)[len(result.lap_s) // 2]
        return Quoted(result.kind, lap_s, f"{device} {published_lap(lap_s)}")
    if result.total_s is not None:
        return Quoted(result.kind, result.total_s / (laps or 1), f"{device} {duration(result.total_s)} in all")
    return None


def _slowest_spare(quotes: list[Quoted]) -> Quoted | None:
    fastest = {each.kind: min(other.lap_s for other in quotes if other.kind == each.kind) for each in quotes}
    spare = [each for each in quotes if each.lap_s > fastest[each.kind]]
    return max(spare, key=lambda each: each.lap_s, default=None)


def _published_words(quotes: list[Quoted]) -> str:
    return f"published: {SEPARATOR.join(each.words for each in quotes)}" if quotes else ""
