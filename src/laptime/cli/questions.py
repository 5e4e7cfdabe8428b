"""What all commands that answer a question share: how one is made, run with its progress, shown, and its exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from typing import Any

import click

from laptime import api, showing
from laptime.cli.asking import DRY_RUN, LANES_ARGUMENT, WHAT_ARGUMENT, ScriptCommand, make_ask, options_for, takes
from laptime.cli.main import COMMANDS, EXIT_INTERRUPTED, Command
from laptime.cli.output import Display, emit_page, page_view, page_width
from laptime.cli.printing import complain, emit, emit_json
from laptime.errors import StoreError
from laptime.model.ask import Ask
from laptime.model.progress import Progress
from laptime.model.questions import QUESTIONS, Question, find_question
from laptime.model.record import Record

EXIT_DNF, EXIT_UNTRUSTED = 3, 4

RECORD_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
SHOW_DETAILS = click.option("--details", is_flag=True, help="Print all that the record holds.")
QUIET = click.option("--quiet", "-q", is_flag=True, help="Show no progress.")


def make_command(question: Question) -> click.Command:
    """Return the command of a question as its row says, with its options of the table."""
    name = question.command

    @click.command(
        name,
        cls=ScriptCommand if question.takes_scripts else Command,
        help=question.says,
        more=question.more,
        examples=question.examples,
        page=question.docs,
        hidden=question.is_older,
    )
    @takes(
        WHAT_ARGUMENT,
        LANES_ARGUMENT,
        *options_for(name),
        *([DRY_RUN] if question.plans else []),
        SHOW_DETAILS,
        RECORD_AS_JSON,
        QUIET,
    )
    def command(*, as_json: bool, quiet: bool, details: bool, dry_run: bool = False, **given: Any) -> int:
        ask = make_ask(name, given)
        if api.stand_by(ask):  # on a further node of a torchrun: the first one shows the answer
            return 0
        if dry_run:
            return show_plan(ask, details=details, as_json=as_json)
        answer = with_progress(partial(api.answer, question.name, ask), quiet=quiet)
        tell(answer, as_json=as_json, details=details)
        return conclude(answer)

    return command


QUESTION_OF = {each.command: each.name for each in QUESTIONS}


def find_added(name: str) -> click.Command | None:
    """Return the command of a question that COMMANDS names no module for: its own, or the one that its row says."""
    try:
        question = next((row for row in QUESTIONS if row.command == name), None) or find_question(name)
    except LookupError:
        return None
    if question.command != name:
        return None
    if question.own_command:
        command: click.Command = question.part("own_command")
        return command
    return make_command(question) if question.says else None


def added_lines() -> dict[str, str]:
    """Return the first line of help of each question that is no row of COMMANDS, by its command."""
    rows, broken = [*QUESTIONS], {}
    for point in metadata.entry_points(group="laptime.questions"):
        try:
            rows.append(point.load())
        except (ImportError, AttributeError, SyntaxError) as error:  # one bad package must not take the help away
            broken[point.name] = f"It cannot be loaded: {error}."
    added = {row.command: row.says.splitlines()[0] for row in rows if row.command not in COMMANDS and row.says}
    return added | broken


def show_plan(ask: Ask, *, details: bool, as_json: bool) -> int:
    """Print what an ask would run."""
    outline = api.outline(ask)
    if as_json:
        emit_json(showing.to_json(outline))
    else:
        emit_page(showing.plan_as_text(outline, page_width()), outline, details=details)
    return 0


@dataclass(frozen=True, slots=True)
class FinishedRecord:
    """A record, and the errors of what could not be saved."""

    record: Record
    unsaved: list[StoreError]


def with_progress(run: Callable[..., Record], *, quiet: bool) -> FinishedRecord:
    """Call `run` with callbacks for progress and for what cannot be saved, and return its record.

    That nothing can be saved is also said before: who reads it may end the run, and who does not gets its page.
    """
    unsaved: list[StoreError] = []
    try:
        api.check_store()
    except StoreError as error:
        complain(error)
    with Display(quiet=quiet) as display:
        display.show(None, Progress("finds what there is to train on", is_news=False))
        return FinishedRecord(run(show=display.show, tell=display.tell, warn=unsaved.append), unsaved)


def tell(answer: FinishedRecord, *, as_json: bool, details: bool) -> None:
    if as_json:
        emit_json(showing.as_json(answer.record))
    else:
        emit_record(answer.record, kept=not answer.unsaved, details=details)


def emit_record(record: Record, *, kept: bool = True, details: bool = False) -> None:
    """Print a record's page."""
    view = replace(page_view(details=details), kept=kept)
    emit(showing.as_text(record, view), color=view.color)


def conclude(answer: FinishedRecord) -> int:
    """Report what could not be saved, and return the exit code."""
    if answer.unsaved:
        complain(answer.unsaved[-1])
    return exit_code(answer.record, saved=not answer.unsaved)


def exit_code(record: Record, *, saved: bool) -> int:
    """Return a record's exit code. A result that cannot be trusted comes before one that is incomplete."""
    lanes = record.answer.asked_of(record.lanes)
    if record.status == "interrupted":
        return EXIT_INTERRUPTED
    if any(lane.parity.status == "differs" for lane in lanes):
        return EXIT_UNTRUSTED
    has_none = record.question == "race" and all(lane.step_ms is None for lane in lanes)
    if not saved or has_none or any(lane.status != "ok" for lane in lanes):
        return EXIT_DNF
    return EXIT_UNTRUSTED if record.distrust else 0
