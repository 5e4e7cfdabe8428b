"""`laptime history`: one lane over time, from the saved records."""

from __future__ import annotations

import click

from laptime import api, showing
from laptime.cli.asking import FIELDS
from laptime.cli.completion import complete_lane, complete_what
from laptime.cli.help import Command
from laptime.cli.output import emit_page, page_view
from laptime.cli.printing import emit_json
from laptime.cli.questions import QUESTION_OF
from laptime.model.questions import QUESTIONS

POINTS_MOST = 30
HISTORY_HELP = """Show one lane of WHAT over time: a row a saved record, and where it changed beyond noise.

LANE is by default the one that is in most records. Each record is compared with the last before it on the same machine.
"""


@click.command(
    "history",
    cls=Command,
    help=HISTORY_HELP,
    examples=("laptime history cifar-cnn", "laptime history my.py:training cuda/best --limit 100"),
    page="docs/compare.md",
)
@click.argument("what", shell_complete=complete_what)
@click.argument("lane", required=False, shell_complete=complete_lane)
@click.option(
    "--question",
    type=click.Choice([each.command for each in QUESTIONS if each.rates]),
    default="race",
    help="Of which records.",
)
@click.option("--limit", type=click.IntRange(0), help="The newest N records; 0 for all.  [default: 30]")
@FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print the history as JSON.")
def history(*, what: str, lane: str | None, question: str, limit: int | None, details: bool, as_json: bool) -> None:
    most = POINTS_MOST if limit is None else limit
    found = api.history(what, lane, question=QUESTION_OF.get(question, question), limit=most)
    if as_json:
        emit_json(showing.to_json(found))
    else:
        view = page_view()
        page = showing.history_as_text(found, view, is_short=limit is None)
        emit_page(page, found, details=details, color=view.color)
