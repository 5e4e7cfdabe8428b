"""How near each lane comes to what its device can do at most: a line a lane, below the race's table."""

from __future__ import annotations

from laptime.model.limits import COPY, NOT_MEASURED, Roofline
from laptime.model.record import LaneResult, Record
from laptime.report.figures import percent
from laptime.report.layout import wrap
from laptime.report.peaks import BYTES, FLOPS, rates
from laptime.report.phrases import short_name

HEAD, INDENT = "limit: ", "  "
OVER = {
    "memory": "; more than its memory moves, so some of it stayed in caches",
    "products": "; more than the product that was measured, so it is no limit here",
}


def limit_lines(record: Record, width: int) -> list[str]:
    """Give the block; where no device was measured, a line that says how: only of lanes that were profiled."""
    reasons = [lane.absent.get("roofline") for lane in record.lanes]
    told = [line for line in map(_lane_words, record.lanes) if line]
    if NOT_MEASURED in reasons:
        told.append(NOT_MEASURED.missing)
    heads = [HEAD, *[INDENT] * len(told)]
    return [line for head, words in zip(heads, told, strict=False) for line in wrap(head + words, width, INDENT)]


def _lane_words(lane: LaneResult) -> str:
    if lane.roofline is not None:
        return f"{short_name(lane.name)} {_near(lane.roofline)}"
    why = lane.absent.get("roofline", NOT_MEASURED)
    return "" if why == NOT_MEASURED else f"{short_name(lane.name)} - ({why.missing})"


def _near(found: Roofline) -> str:
    """Say first the side that binds, and of which rates its share is."""
    peaks = found.peaks.peaks
    sides = {
        "products": f"{rates((found.flops_per_s, peaks[found.precision].best_per_s), FLOPS)} {found.precision}",
        "memory": rates((found.bytes_per_s, peaks[COPY].best_per_s), BYTES),
    }
    bound = sides.pop(found.binds)
    (free,) = sides.values()
    over = OVER[found.binds] if found.share > 1 else ""
    allows = "allow" if found.binds == "products" else "allows"
    return f"{percent(found.share)} of what its {found.binds} {allows} ({bound}; {free}{over})"
