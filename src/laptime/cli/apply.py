"""`laptime apply`: change the user's code as a record of `why`, `watch` or `tune` says, after showing the change."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from laptime import api
from laptime.api import showing
from laptime.cli.listing import complete_record
from laptime.cli.main import Command
from laptime.cli.output import is_terminal
from laptime.cli.printing import MESSAGES, emit, emit_json, say
from laptime.model.errors import ExitCode, UsageError
from laptime.model.record import Applied

APPLY_HELP = """Change your code as a remedy of a record says. The change is shown, and made after a yes.

ID is a record of `laptime why`, `watch` or `tune`, the beginning of an id, a file, or `latest`.
"""
APPLY_MORE = """\
The record only names the change: laptime makes it again from its own table and from the file that is here, which must
be the one that ran. A record that you did not make here is refused unless --trust names it. So are links, paths outside
of the folder, and a file that git does not track.
Without a terminal that can be asked, the change is shown and not made (exit code 3), unless --yes is there.
"""


NOT_SIGNED = "This record bears no signature of yours. It only named the change, which is made of your own file."


@click.command(
    "apply",
    cls=Command,
    help=APPLY_HELP,
    more=APPLY_MORE,
    examples=("laptime apply latest", "laptime apply r-2026-11-20-a1b2 --remedy 2 --yes"),
    page="docs/why.md",
)
@click.argument("identity", metavar="ID", shell_complete=complete_record)
@click.option("--remedy", "number", type=click.IntRange(1), help="Which of several.  [default: the recommended one]")
@click.option("--yes", is_flag=True, help="Make the change without asking.")
@click.option("--trust", metavar="ID", help="Make a change of this record, although it was not made here by you.")
@click.option("--outside", is_flag=True, help="Also edit a file that is under no version control.")
@click.option("--json", "as_json", is_flag=True, help="Print the change as JSON, and ask nothing.")
def apply(*, identity: str, number: int | None, yes: bool, trust: str | None, outside: bool, as_json: bool) -> int:
    record = api.load(identity)
    offers = api.code_offers(record)
    is_signed = api.is_ours(record, identity)
    # Before anything of the record is said: its reasons and its gains are a stranger's words, too.
    # What a record would have done to the user's code, in the words of our table
    named = [f"{offer.change.file}:{offer.change.line}: {offer.says}" for offer in offers]
    acts = f"change {' Or '.join(named)}" if named else "change no code"
    api.check_trusted(record, trust, is_ours=is_signed, acts=acts)
    if not offers:
        reason = api.why_no_offer(record) or "it names no remedy"
        raise UsageError(f"{record.id} has no change of code to make: {reason}", f"See laptime show {record.id}.")
    if number is None and not offers[0].is_recommended:
        raise UsageError(f"no remedy of {record.id} that is a change of code was recommended", _choice(offers))
    if number is not None and number > len(offers):
        raise UsageError(f"--remedy {number}: {record.id} has {len(offers)}", _choice(offers))
    offer = offers[(number or 1) - 1]
    if as_json:
        edit = api.make_edit(offer.change, outside=outside)
        if yes:
            api.write_edit(edit)
        emit_json(showing.to_json(_as_applied(offer, edit, is_made=yes, is_signed=is_signed)))
        return ExitCode.ANSWERED if yes else ExitCode.UNFINISHED
    more = [_choice(offers)] if len(offers) > 1 else []
    return apply_offer(offer, yes=yes, outside=outside, is_signed=is_signed, more=more)


def apply_offer(offer: Any, *, yes: bool, outside: bool, is_signed: bool = True, more: Sequence[str] = ()) -> int:
    """Show a change with what `more` is to be said, and make it after a yes. Return the exit code."""
    edit = api.make_edit(offer.change, outside=outside)
    emit(f"{offer.says}\n\n{edit.diff}")
    for line in (*more, *([] if is_signed else [NOT_SIGNED])):
        say(line)
    is_asked = not yes and is_terminal() and MESSAGES.isatty() and sys.stdin.isatty()
    is_made = yes or (is_asked and click.confirm(f"Change {edit.change.file}?", err=True))
    if is_made:
        api.write_edit(edit)
        made = _as_applied(offer, edit, is_made=True, is_signed=is_signed)
        emit(f"{os.path.relpath(edit.path)}:{edit.change.line} is changed.")
        emit(f"Undo: {made.undo}\nMeasure it: {made.measure}")
    elif is_asked:
        say("Nothing was changed.")
    else:
        say("Nothing was changed: there is no terminal to ask on. --yes makes the change.")
    return ExitCode.ANSWERED if is_made or is_asked else ExitCode.UNFINISHED


def _as_applied(offer: Any, edit: Any, *, is_made: bool, is_signed: bool) -> Applied:
    # How the change is taken back. With git, what the user had not committed would go as well.
    if edit.is_clean:
        undo = f"git checkout -- {shlex.quote(os.path.relpath(edit.path))}"
    else:
        undo = "take the lines with + away again, for no commit holds the file as it was"
    return Applied(
        is_made,
        is_signed,
        offer.says,
        replace(edit.change, diff=edit.diff),
        undo=undo,
        measure=_measure(os.path.relpath(edit.start), edit.change.function, is_clean=edit.is_clean),
    )


def _choice(offers: Sequence[Any]) -> str:
    """Return a line for each change that the record offers."""
    lines = []
    for number, offer in enumerate(offers, 1):
        gain = f", {offer.gain}" if offer.gain else ""
        lines.append(f"--remedy {number}: {offer.says} ({offer.change.file}:{offer.change.line}{gain})")
    return "\n".join(lines)


def _measure(start: str, function: str | None, *, is_clean: bool) -> str:
    """Return the command that measures what the change gains: against the last commit, if that has the file before."""
    if function is None:
        return f"laptime watch python {shlex.quote(start)}"
    if not is_clean:
        return f"laptime why {shlex.quote(f'{start}:{function}')}"
    return f"laptime verdict {shlex.quote(f'git:HEAD:{start}:{function}')} {shlex.quote(f'{start}:{function}')}"
