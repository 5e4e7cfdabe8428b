"""`laptime verdict`: one word on a change, for people and for programs that edit trainings."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from laptime import api
from laptime.api import showing
from laptime.cli.printing import emit_error, emit_json
from laptime.cli.questions import (
    BEHIND,
    QUIET,
    SHOW_DETAILS,
    FinishedRecord,
    ScriptCommand,
    conclude,
    emit_record,
    options_for,
    takes,
    with_progress,
)
from laptime.model import options
from laptime.model.errors import ExitCode
from laptime.questions.verdict.nouns import EXIT_OF, verdict_fields, verdict_of

VERDICT_HELP = """Is CANDIDATE faster than BASE, and is it still the same training?

Each is file.py:function, git:REV:file.py:function, a script (arguments behind
--), or, as CANDIDATE, a patch of a file or folder. A commit alone (git:HEAD) has
the file of the other. Both race on LANE, in turns. The first word is KEEP,
DISCARD or UNDECIDED; the exit code is 0, 1 or 3.
"""
VERDICT_MORE = """\
KEEP: the whole interval is above 1, it is nearer to --gain than to no gain, and the work is proven to be the same.
DISCARD: slower, or gaining less than --gain for certain, or other work, or it did not finish. UNDECIDED: what would
decide is named. Rounds follow until the word is known, or the budget is used up. With --gate the question is whether
the candidate is slower: what is not is kept, and the base races itself, too, so that a machine that changes from
round to round decides nothing. Commits and patches are copied to laptime's cache folder; nothing is changed in yours,
and data that git ignores is not in the copy. By default the lane is the card if there is one, else the processor.
`laptime verdict --more 3m ID` goes on with one that is UNDECIDED for want of rounds; then at most one KEEP in 66 is
wrong. With --session NAME, all verdicts of a loop share one error: at most one session in a hundred keeps anything
that makes nothing faster. Half of the budget is then held for fresh rounds, which alone confirm a KEEP; other words
come sooner.
With --learning (another batch, rate, optimizer or loss; PyTorch) both are trained from several seeds, as long as the
budget allows or for --laps. The base's network and loss judge the weights of both, on what it holds out (held_out=) or
else on its data. KEEP: the candidate reaches the same loss in less time (p < 0.01), and ends as low.
"""


def end_verdict(answer: FinishedRecord, *, as_json: bool, details: bool) -> int:
    """Print a verdict, and return the exit code of its word."""
    record = answer.record
    code = conclude(answer)
    if as_json and not record.answer.is_concluded:
        says = f"no verdict: {record.status} before it was known"
        emit_error("unfinished", says, f"laptime show {record.id} has what was measured", code)
    elif as_json:
        emit_json(showing.to_json(verdict_fields(record)))
    else:
        emit_record(record, kept=not answer.unsaved, details=details)
    if record.status == "interrupted" or not record.answer.is_concluded:
        return code
    return ExitCode[EXIT_OF[verdict_of(record).word]]


@click.command(
    "verdict",
    cls=ScriptCommand,
    ends=end_verdict,
    help=VERDICT_HELP,
    examples=(
        "laptime verdict old.py:training new.py:training cpu",
        "laptime verdict git:main:train.py:training git:HEAD --gate",
        "laptime verdict git:HEAD:train.py:f train.py:f --session loop --budget 4m",
        "laptime verdict git:main:train.py:training git:HEAD --learning --budget 10m",
        "laptime verdict train.py change.patch --json -- --epochs 9",
    ),
    page="docs/verdict.md",
    more=VERDICT_MORE,
)
@takes(
    click.argument("base"),
    click.argument("candidate"),
    click.argument("lane", required=False),
    *options_for("verdict"),
    SHOW_DETAILS,
    click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON (laptime help schema verdict)."),
    QUIET,
)
@click.pass_context
def verdict(
    context: click.Context,
    /,
    *,
    base: str,
    candidate: str,
    lane: str | None,
    as_json: bool,
    quiet: bool,
    details: bool,
    **given: Any,
) -> int:
    lanes = () if lane is None else (lane,)
    ask = options.make_ask(
        "verdict", given, what=base, others=(candidate,), lanes=lanes, command=context.meta.get(BEHIND, ())
    )
    answer = with_progress(partial(api.answer, "verdict", ask), quiet=quiet)
    return end_verdict(answer, as_json=as_json, details=details)
