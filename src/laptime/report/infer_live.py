"""Inference while it runs: the same words as the final table, as far as they are known."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from laptime.model.record import Record
from laptime.report.infer_words import against, latency_words
from laptime.report.layout import clean
from laptime.report.live import STYLES
from laptime.report.phrases import short_name, subject_words


def live_answers(record: Record, note: str) -> RenderableType:
    """Show each lane's single call so far and, below, what is being done just now."""
    assert record.infer is not None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("lane", overflow="fold")
    table.add_column("heats", justify="right")
    table.add_column("one call", no_wrap=True)
    table.add_column("against first", overflow="fold")
    for lane in record.infer.lanes:
        cell = against(record, lane.lane, None)
        finished = sum(heat.status == "ok" for heat in lane.heats)
        table.add_row(
            Text(clean(short_name(lane.lane))),
            str(finished),
            latency_words(lane.p50_ms),
            Text(clean(cell.text), style=STYLES.get(cell.style, "")),
        )
    return Group(Text(clean(subject_words(record.workload)), style="bold"), table, Text(clean(note), style="dim"))
