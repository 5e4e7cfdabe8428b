"""What all commands that answer a question share: their options, made from the table, and what a shell completes; how
one is made, run with its progress, shown, and its exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from importlib import metadata
from typing import Any

import click
from click.core import ParameterSource

from laptime import api
from laptime.api import showing
from laptime.cli.interrupts import INTERRUPTS
from laptime.cli.listing import complete_lane, complete_record, complete_what
from laptime.cli.main import COMMANDS, Command, RareOption
from laptime.cli.output import emit_page, page_width
from laptime.cli.printing import complain, emit, emit_json
from laptime.cli.progress import Display, page_view
from laptime.model import options
from laptime.model.ask import DEFAULT_WORKLOAD, Ask
from laptime.model.errors import ExitCode, StoreError, UsageError
from laptime.model.option_kinds import DURATION, FLAG, PATH, RECORD, SETTING, Option, OptionKind
from laptime.model.options import find_option, options_of
from laptime.model.plan import find_launcher
from laptime.model.questions import QUESTIONS, Question, find_part, find_question
from laptime.model.record import Progress, Record

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
        return tell_and_conclude(answer, as_json=as_json, details=details)

    return command


def find_added(name: str) -> click.Command | None:
    """Return the command of a question that COMMANDS names no module for: its own, or the one that its row says."""
    try:
        question = next((row for row in QUESTIONS if row.command == name), None) or find_question(name)
    except LookupError:
        return None
    if question.command != name:
        return None
    if question.has_command:
        command: click.Command = find_part(f"{question.package}.command:{question.function}")
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
        return INTERRUPTS.exit_code
    if any(lane.parity.status == "differs" for lane in lanes):
        return ExitCode.NOT_RELIABLE
    has_none = record.question == "race" and all(lane.step_ms is None for lane in lanes)
    if not saved or has_none or any(lane.status != "ok" for lane in lanes):
        return ExitCode.UNFINISHED
    return ExitCode.NOT_RELIABLE if record.distrust else ExitCode.ANSWERED


# The options of commands, made from the table, and the ask that they make.

BEHIND = "laptime.behind"  # the words behind --, in a context's notes
Decorator = Callable[[Any], Any]
TellEnd = Callable[..., int]

WHAT_ARGUMENT = click.argument("what", default=DEFAULT_WORKLOAD, shell_complete=complete_what)
LANES_ARGUMENT = click.argument("lanes", nargs=-1, metavar="[LANE]...", shell_complete=complete_lane)
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would run, and run nothing.")


class OfKind(click.ParamType):  # type: ignore[type-arg]  # before click 8.4 it takes none
    """A value of a kind, read as its row in the table says."""

    def __init__(self, kind: OptionKind) -> None:
        self.name, self._kind = kind.name, kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._kind.of_text(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def takes(*decorators: Decorator) -> Decorator:
    """Return a decorator that adds these options to a command."""
    return lambda function: reduce(lambda made, option: option(made), reversed(decorators), function)


def options_for(question: str) -> list[Decorator]:
    """Return what adds each option of a question to its command."""
    return [_decorator(row, question) for row in options_of(question) if row.only != "library"]


def _decorator(row: Option, question: str) -> Decorator:
    default = row.default_of(question)
    looks: dict[str, Any] = {"help": row.help, "metavar": row.metavar, "cls": RareOption if row.is_rare else None}
    if row.kind is FLAG:
        looks["is_flag"] = True
    elif row.choices:
        looks["type"] = click.Choice(row.choices)
    else:
        looks["type"] = click.Path() if row.kind is PATH else OfKind(row.kind)  # a shell completes its files
    if row.kind is SETTING:
        looks["multiple"] = True
    if row.kind is RECORD:
        looks["shell_complete"] = complete_record
    if default is not None:
        looks |= {"default": default, "show_default": True}
    return click.option(row.option, row.name, **looks)


def make_ask(question: str, given: dict[str, Any]) -> Ask:
    """Turn a command's options into an ask. `laptime race torch/cpu cpu/best` means the default workload.

    Words that name a file after the first are further trainings. Behind -- are a script's arguments, or a command.
    """
    values = {name: value for name, value in given.items() if value is not None and value is not False and value != ()}
    what, words = values.pop("what"), tuple(values.pop("lanes", ()))
    if isinstance(values.get("on"), tuple):
        values["on"], devices = _split_on(values["on"])
        words = (*words, *devices)
    if api.names_a_lane(what):
        what, words = DEFAULT_WORKLOAD, (what, *words)
    subject: dict[str, Any] = {
        "what": what,
        "others": tuple(word for word in words if api.names_a_file(word)),
        "lanes": tuple(word for word in words if not api.names_a_file(word)),
    }
    context = click.get_current_context()
    if (behind := context.meta.get(BEHIND)) is not None:
        names_none = context.get_parameter_source("what") is ParameterSource.DEFAULT or what != given["what"]
        if names_none and not behind:
            raise UsageError("there is no script to race", "name one: laptime race train.py -- --epochs 3")
        subject |= {"what": "" if names_none else what, "command": behind}
    return options.make_ask(question, values, **subject)


def _split_on(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the cluster that --on names, or None, and the devices that it names."""
    clusters = [word for word in words if find_launcher(word) is not None]
    if len(clusters) > 1:
        raise UsageError(f"--on {','.join(words)}: a race runs on one cluster", f"name one: --on {clusters[0]}")
    unknown = [word for word in words if word not in clusters and not api.names_a_lane(word)]
    if unknown:
        says = f"--on {unknown[0]}: expected a cluster (ray, slurm, torchrun), or devices of a script"
        raise UsageError(says, "such as --on ray, or --on cpu,cuda")
    return next(iter(clusters), None), tuple(word for word in words if word not in clusters)


class ScriptCommand(Command):
    """A command whose words behind -- are a script's own, and which goes on with a record where --more is given.

    `ends` prints what it found, and returns the exit code.
    """

    def __init__(self, *args: Any, ends: TellEnd | None = None, **given: Any) -> None:
        super().__init__(*args, **given)
        self._ends = ends or tell_and_conclude

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(word.partition("=")[0] == MORE for word in args) and "--help" not in args:
            ctx.meta[MORE] = read_more(str(self.name), args)
            return []
        if "--" in args:
            place = args.index("--")
            ctx.meta[BEHIND] = tuple(args[place + 1 :])
            args = args[:place]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        more: MoreAsked | None = ctx.meta.get(MORE)
        if more is None:
            return super().invoke(ctx)
        question = next((row.name for row in QUESTIONS if row.command == self.name), str(self.name))
        answer = with_progress(partial(api.go_on, question, more.record, more.budget_s), quiet=more.is_quiet)
        return self._ends(answer, as_json=more.as_json, details=more.has_details)


def tell_and_conclude(answer: FinishedRecord, *, as_json: bool, details: bool) -> int:
    tell(answer, as_json=as_json, details=details)
    return conclude(answer)


# With --more, a command goes on with a record, and asks nothing else: so its words are read here, and not as an ask.

MORE = "--more"
NEXT_TO_MORE = {"--details": "has_details", "--json": "as_json", "--quiet": "is_quiet", "-q": "is_quiet"}


@dataclass(frozen=True, slots=True)
class MoreAsked:
    """A record to go on with, by default the latest of the question, and for how long, by default as at first."""

    record: str | None = None
    budget_s: float | None = None
    has_details: bool = False
    as_json: bool = False
    is_quiet: bool = False


def read_more(command: str, words: Sequence[str]) -> MoreAsked:
    """Read `--more [TIME] [RECORD]`, in any order."""
    times, records, flags = list[float](), list[str](), dict[str, bool]()
    for word in words:
        if word in NEXT_TO_MORE:
            flags[NEXT_TO_MORE[word]] = True
        elif word.startswith("-") and word.partition("=")[0] != MORE:
            says = f"{MORE} goes on with a record as it was asked, and {word} would change it"
            raise UsageError(says, f"leave it out: laptime {command} {MORE} 2m")
        elif time := word.removeprefix(MORE).removeprefix("="):
            with suppress(ValueError):
                times.append(DURATION.of_text(time))
                continue
            records.append(time)
    if len(times) > 1 or len(records) > 1:
        says = f"{MORE} takes a time and a record, and these are more: {' '.join(words)}"
        raise UsageError(says, f"laptime {command} {MORE} 2m ID")
    refusal = find_option("race", "more").refusal_of(tuple(times))
    if refusal is not None:
        raise UsageError(*refusal)
    return MoreAsked(next(iter(records), None), next(iter(times), None), **flags)
