"""`laptime list`: all saved records, or those that options choose."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click

from laptime import listing
from laptime.cli.completing import complete_label, complete_lane, complete_what
from laptime.cli.main import QUESTION_OF, Command
from laptime.cli.output import ALL_FIELDS, emit_page, page_width
from laptime.cli.printing import emit_json
from laptime.model.quantities import parse_duration
from laptime.model.rows import Selection

LIST_HELP = """List saved records, newest first. Options choose among them; all that are given have to fit."""
LISTED_MOST = 30
DEVICE_KINDS = ("cpu", "gpu", "cuda", "mps", "xpu", "tpu")
RECORD_STATUSES = ("running", "finished", "interrupted", "ended", "unreadable")


class Since(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A date or a moment, in UTC as lists show it, or how long ago."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        if isinstance(value, dt.datetime):
            return value
        try:
            found = dt.datetime.fromisoformat(str(value))
            return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
        except ValueError:
            pass
        try:
            return dt.datetime.now(dt.UTC) - dt.timedelta(seconds=parse_duration(str(value)))
        except (ValueError, OverflowError):
            self.fail(f"'{value}' is not a date; such as 2026-11-20, '2026-11-20 14:00', or 7d", param, ctx)


@click.command(
    "list",
    cls=Command,
    help=LIST_HELP,
    examples=("laptime list --since 7d --device cuda", "laptime list --workload cifar-cnn --label main --json"),
    page="docs/compare.md",
)
@click.option("--workload", metavar="WHAT", shell_complete=complete_what, help="Only of this training.")
@click.option("--lane", shell_complete=complete_lane, help="Only with this lane: torch/cpu, cuda/best.")
@click.option("--device", type=click.Choice(DEVICE_KINDS), help="Only on this kind of device; gpu is any card.")
@click.option("--label", metavar="NAME", shell_complete=complete_label, help="Only with this label.")
@click.option("--since", metavar="DATE", type=Since(), help="Only from then on: 2026-11-20, or 7d ago.")
@click.option("--question", type=click.Choice(tuple(QUESTION_OF)), help="Only answers to this question.")
@click.option("--status", type=click.Choice(RECORD_STATUSES), help="Only with this status.")
@click.option("--limit", type=click.IntRange(0), help="At most N; 0 for all.  [default: 30; all in JSON]")
@ALL_FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def list_records(*, details: bool, as_json: bool, limit: int | None, question: str | None, **given: Any) -> None:
    wanted = Selection(question=None if question is None else QUESTION_OF.get(question, question), **given)
    rows = wanted.of(listing.records())
    most = (0 if as_json else LISTED_MOST) if limit is None else limit
    shown = rows[:most] if most else rows
    if as_json:
        emit_json(listing.rows_as_json(shown))
    else:
        is_chosen = wanted != Selection()
        page = listing.records_as_text(shown, page_width(), left_out=len(rows) - len(shown), is_chosen=is_chosen)
        emit_page(page, shown, details=details)
