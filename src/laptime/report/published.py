"""What others measured, in one line to hold the figures above it against."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.record import Record
from laptime.model.workload import PublishedResult
from laptime.report.figures import duration, published_lap
from laptime.report.layout import SEPARATOR, cells_wide

VENDORS = ("NVIDIA ", "GeForce ", "Intel ", "Core ", "AMD ")


@dataclass(frozen=True, slots=True)
class Quoted:
    """One published result as it is shown; `lap_s` serves to order them."""

    kind: str
    lap_s: float
    words: str


def published_line(record: Record, width: int) -> str:
    """Quote as many results as a line holds: the slowest go first, the fastest of each kind of device stays."""
    results = record.published.results if record.published else ()
    quotes = [quote for result in results if (quote := _quote(result, record.workload.laps))]
    while cells_wide(_line(quotes)) > width and (spare := _slowest_spare(quotes)):
        quotes.remove(spare)
    return _line(quotes)


def _quote(result: PublishedResult, laps: int | None) -> Quoted | None:
    """Quote a middle lap, or the whole training where no lap was published."""
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


def _line(quotes: list[Quoted]) -> str:
    return f"published: {SEPARATOR.join(each.words for each in quotes)}" if quotes else ""
