"""`laptime list`, `show` and `remove`: all saved records, one of them as it was printed, and away with some."""

from __future__ import annotations

import datetime as dt
from typing import Any

import click

from laptime import api, showing
from laptime.cli.asking import FIELDS
from laptime.cli.completion import complete_label, complete_lane, complete_record, complete_what
from laptime.cli.help import Command
from laptime.cli.output import emit_page, may_draw, page_width
from laptime.cli.printing import emit, emit_json
from laptime.cli.questions import DETAILS, QUESTION_OF, emit_record
from laptime.model.quantities import parse_duration
from laptime.model.selection import Selection

LIST_HELP = """List saved records, newest first. Options choose among them; all that are given have to fit."""
SHOW_HELP = """Show a saved record. ID is a record's id or the beginning of one, a file, `latest`, or `@label`.

No framework is needed to read a record.
"""
REMOVE_HELP = """Remove saved records, with their checkpoints and traces. ID is a record's id, or the beginning of one.

A record that is still running is refused. If one of the records cannot be removed, none is.
"""
LISTED_MOST = 30
DEVICES = ("cpu", "gpu", "cuda", "mps", "xpu", "tpu")
STATUSES = ("running", "finished", "interrupted", "ended", "unreadable")


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
@click.option("--device", type=click.Choice(DEVICES), help="Only on this kind of device; gpu is any card.")
@click.option("--label", metavar="NAME", shell_complete=complete_label, help="Only with this label.")
@click.option("--since", metavar="DATE", type=Since(), help="Only from then on: 2026-11-20, or 7d ago.")
@click.option("--question", type=click.Choice(tuple(QUESTION_OF)), help="Only answers to this question.")
@click.option("--status", type=click.Choice(STATUSES), help="Only with this status.")
@click.option("--limit", type=click.IntRange(0), help="At most N; 0 for all.  [default: 30; all in JSON]")
@FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
def list_records(*, details: bool, as_json: bool, limit: int | None, question: str | None, **given: Any) -> None:
    wanted = Selection(question=None if question is None else QUESTION_OF.get(question, question), **given)
    rows = wanted.of(api.records())
    most = (0 if as_json else LISTED_MOST) if limit is None else limit
    shown = rows[:most] if most else rows
    if as_json:
        emit_json(showing.rows_as_json(shown))
    else:
        is_chosen = wanted != Selection()
        page = showing.records_as_text(shown, page_width(), left_out=len(rows) - len(shown), is_chosen=is_chosen)
        emit_page(page, shown, details=details)


@click.command("show", cls=Command, help=SHOW_HELP, examples=("laptime show", "laptime show r-2026-11-20 --details"))
@click.argument("identity", metavar="ID", default="latest", shell_complete=complete_record)
@DETAILS
@click.option("--charts", is_flag=True, help="Print all that laptime report draws, with bars and sparklines.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
def show_record(*, identity: str, as_json: bool, details: bool, charts: bool) -> None:
    record = api.load(identity)
    if as_json:
        emit_json(showing.as_json(record))
    elif charts:
        emit(showing.as_charts(record, page_width(), blocks=may_draw()))
    else:
        emit_record(record, details=details)


@click.command("remove", help=REMOVE_HELP)
@click.argument("identities", metavar="ID...", nargs=-1, required=True, shell_complete=complete_record)
@click.option("--json", "as_json", is_flag=True, help="Print the removed ids as JSON.")
def remove_records(*, identities: tuple[str, ...], as_json: bool) -> None:
    removed = api.remove_records(identities)
    if as_json:
        emit_json(showing.to_json(removed))
    else:
        emit("\n".join(f"removed {each}" for each in removed))
