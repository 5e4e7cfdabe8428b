"""`laptime compare`: two records, or the trainings of one race; and the exit code of a gate."""

from __future__ import annotations

import click

from laptime import api
from laptime.api import showing
from laptime.cli.listing import complete_lane, complete_record, complete_what
from laptime.cli.main import QUESTION_OF, Command
from laptime.cli.output import ALL_FIELDS, emit_page
from laptime.cli.printing import emit, emit_json
from laptime.cli.progress import page_view
from laptime.cli.questions import OfKind
from laptime.model.errors import ExitCode, UsageError
from laptime.model.option_kinds import SHARE
from laptime.model.options import THRESHOLD_HELP
from laptime.model.questions import QUESTIONS
from laptime.questions.compare.nouns import HISTORY_POINTS, Compared

COMPARE_HELP = """Compare two records lane by lane: which lanes became faster or slower, and what else differs?

A and B are ids, beginnings of ids, files, `latest`, or `@label`. B is compared with A. Without B, A is a race of
several trainings, whose further ones are compared with its first.
"""
COMPARE_MORE = """\
A ratio is of items per second: of the heats of two races, of whole trainings, of single calls of inference, or of two
watches of a script, with the parts of an iteration that changed. Its
interval is Welch's, since heats of two records do not come in pairs. Records of another question or another training,
and those without a common lane, are refused. What makes a ratio doubtful is a warning: another machine, other settings,
other data, other work. With --fail-above, the exit code is 1 where a lane is slower by more than that even at the end
of its interval that is nearest to 1, and 3 where a lane of A has no result in B.
"""


@click.command(
    "compare",
    cls=Command,
    help=COMPARE_HELP,
    examples=("laptime compare @main latest --fail-above 5%", "laptime compare r-2026-11-20 r-2026-11-23 --md"),
    page="docs/compare.md",
    more=COMPARE_MORE,
)
@click.argument("first", metavar="A", shell_complete=complete_record)
@click.argument("second", metavar="[B]", required=False, shell_complete=complete_record)
@click.option("--fail-above", metavar="SHARE", type=OfKind(SHARE), help=THRESHOLD_HELP)
@click.option("--details", is_flag=True, help="Print all that differs.")
@click.option("--md", "as_markdown", is_flag=True, help="Print a summary in Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def compare(
    *, first: str, second: str | None, fail_above: float | None, details: bool, as_markdown: bool, as_json: bool
) -> int:
    if as_markdown and as_json:
        raise UsageError("--md and --json are two forms of one answer", "leave one of them out")
    found = api.compare(first, second, fail_above)
    if as_json:
        emit_json(showing.to_json(found))
    elif as_markdown:
        emit(showing.compared_as_markdown(found))
    else:
        emit_compared(found, details=details)
    return gate_code(found)


def emit_compared(found: Compared, *, details: bool = False) -> None:
    """Print the page of a comparison."""
    view = page_view(details=details)
    emit(showing.compared_as_text(found, view), color=view.color)


def gate_code(found: Compared) -> int:
    """Return the exit code of a comparison: 0 where nothing was to be judged."""
    if found.failing:
        return ExitCode.NO
    return ExitCode.UNFINISHED if found.unjudged else ExitCode.ANSWERED


# `laptime history`: one lane over time, from the saved records.

HISTORY_HELP = """Show one lane of WHAT over time: a row a saved record, and where it changed beyond noise.

LANE is by default the one that is in most records; a script that was watched has none. Each record is compared with
the last before it on the same machine.
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
    type=click.Choice([row.command for row in QUESTIONS if row.is_followed]),
    help="Of which records.  [default: race; watch where there is none]",
)
@click.option("--limit", type=click.IntRange(0), help="The newest N records; 0 for all.  [default: 30]")
@ALL_FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print the history as JSON.")
def history(
    *, what: str, lane: str | None, question: str | None, limit: int | None, details: bool, as_json: bool
) -> None:
    most = HISTORY_POINTS if limit is None else limit
    of = None if question is None else QUESTION_OF.get(question, question)
    found = api.history(what, lane, question=of, limit=most)
    if as_json:
        emit_json(showing.to_json(found))
    else:
        view = page_view()
        page = showing.history_as_text(found, view, is_short=limit is None)
        emit_page(page, found, details=details, color=view.color)
