"""`laptime history`: one lane over time, from the saved records."""

from __future__ import annotations

import click

from laptime import api, showing
from laptime.cli.completion import complete_lane, complete_what
from laptime.cli.help import Command
from laptime.cli.output import may_colour, may_draw, page_width
from laptime.cli.printing import emit, emit_json
from laptime.cli.questions import QUESTION_OF

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
@click.option("--question", type=click.Choice(["race", "train", "infer"]), default="race", help="Of which records.")
@click.option("--limit", type=click.IntRange(0), help="The newest N records; 0 for all.  [default: 30]")
@click.option("--json", "as_json", is_flag=True, help="Print the history as JSON.")
def history(*, what: str, lane: str | None, question: str, limit: int | None, as_json: bool) -> None:
    most = POINTS_MOST if limit is None else limit
    found = api.history(what, lane, question=QUESTION_OF.get(question, question), limit=most)
    if as_json:
        emit_json(showing.to_json(found))
        return
    color = may_colour()
    view = showing.View(page_width(), color=color, blocks=may_draw())
    emit(showing.history_as_text(found, view, is_short=limit is None), color=color)
