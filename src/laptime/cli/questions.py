"""The commands that answer a question: race, train, infer, why, profile, resume; and plan, which runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from laptime import api, showing
from laptime.cli.asking import (
    DRY_RUN,
    FIELDS,
    INFER_OPTIONS,
    RACE_OPTIONS,
    SUBJECT_OPTIONS,
    TRAIN_OPTIONS,
    WHY_OPTIONS,
    ScriptCommand,
    make_ask,
    make_infer_ask,
    make_profile_ask,
    make_race_ask,
    make_script_ask,
    make_training_ask,
    takes,
)
from laptime.cli.completion import complete_record
from laptime.cli.main import EXIT_INTERRUPTED, Command
from laptime.cli.output import Progress, emit_page, page_view, page_width
from laptime.cli.printing import complain, emit, emit_json
from laptime.errors import StoreError
from laptime.model.ask import Ask
from laptime.model.questions import QUESTIONS, SweepAnswer, TuneAnswer, WhyAnswer, find_question
from laptime.model.record import Record

EXIT_DNF, EXIT_UNTRUSTED = 3, 4

WORDS = """WHAT is a built-in training (laptime workloads; cifar-cnn by default) or your own: file.py:function.
A LANE is framework/device/settings, such as torch/cpu/best (laptime help lanes)."""
ONE_LANE = "By default it is the card if there is one, else the processor, as written."
TRAIN_HELP = f"""Train WHAT whole on each LANE, one after another: time, loss and accuracy of every lap.

{WORDS}
"""
TRAIN_MORE = """\
All laps, validation and test run as published, unless options say otherwise. After each lap a checkpoint is saved;
`laptime resume ID` goes on after the last whole lap.
"""
INFER_HELP = f"""Time answers of WHAT on each LANE: single calls and batches.

{WORDS}
"""
INFER_MORE = """\
The first call and the start-up are apart from later calls. Throughput is measured in batches of 1, 8, 64 and 256.
Answers are checked against a reference in float64.
"""
WHY_HELP = f"""Why does WHAT take so long on LANE, and what would make it faster?

{WORDS}
{ONE_LANE}
A script is looked at unchanged, its arguments behind --.
"""
WHY_MORE = """\
The lane is raced against itself. First next to its three ceilings: its loader alone, the copy to the device alone,
the training alone on batches that are ready. Then next to experiments, in each of which one possible cause is gone;
first those to which readings and ceilings point. A cause is proven where its removal moved the time, likely where
only its signature is there, and ruled out by a figure. Sixteen causes are judged. A lane that did other work than
its reference, or too much noise to conclude anything, is exit code 4. Of a script that knows nothing of laptime
(its arguments are behind --) the batches of its DataLoader are replayed, or fetched alone.
"""
PROFILE_HELP = f"""Where does a step of WHAT go on each LANE? Operators by time and memory, kernels, and a trace.

{WORDS}
{ONE_LANE}
"""
PROFILE_MORE = """\
Each lane is built and warmed up as in a heat, in a fresh process. Then some of its steps (3 to 20, for about two
seconds) run under the framework's own profiler: torch.profiler, JAX's or TensorFlow's. Steps without it are timed
before and after, so the profiler's own cost is known. Nothing is proven and nothing is raced. The trace of each
lane opens in https://ui.perfetto.dev or chrome://tracing.
"""
PLAN_HELP = "Print what `laptime race` with the same arguments would run, and run nothing."
RESUME_HELP = """Go on with a training that was ended: by Ctrl-C, a kill, or a failure.

ID is a record's id or the beginning of one. Each lane goes on from the checkpoint of its last whole lap.
"""
RESUME_MORE = """\
On a processor the curve is then the one of an unbroken training, to the last digit. Lanes that are done stay as
they are. Refused with exit code 2: a training of your own whose sources have changed since (the file and all that
it imports from its own folder), and one whose checkpoint is gone, so that finished laps would be trained again.
"""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
DETAILS = click.option("--details", is_flag=True, help="Print all that the record holds.")
QUIET = click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
Option = Callable[[Any], Any]


def make_command(
    question: str,
    says: str,
    understand: Callable[[dict[str, Any]], Ask] = make_ask,
    options: Sequence[Option] = SUBJECT_OPTIONS,
    *,
    plans: bool = False,
    cls: type[Command] = Command,
    **help_parts: Any,
) -> click.Command:
    """Return the command of a question. If it `plans`, it can also print what would run."""

    @click.command(question, cls=cls, help=says, **help_parts)
    @takes(*options, *([DRY_RUN] if plans else []), DETAILS, AS_JSON, QUIET)
    def command(*, as_json: bool, quiet: bool, details: bool, dry_run: bool = False, **given: Any) -> int:
        ask = understand(given)
        if api.stand_by(ask):  # on a further node of a torchrun: the first one shows the answer
            return 0
        if dry_run:
            return show_plan(ask, details=details, as_json=as_json)
        answer = with_progress(partial(api.answer, QUESTION_OF.get(question, question), ask), quiet=quiet)
        tell(answer, as_json=as_json, details=details)
        return conclude(answer)

    return command


QUESTION_OF = {each.command: each.name for each in QUESTIONS}
train = make_command(
    "train",
    TRAIN_HELP,
    make_training_ask,
    TRAIN_OPTIONS,
    plans=True,
    examples=("laptime train cifar-cnn torch/cpu torch/cpu/best", "laptime train my.py:training --laps 5"),
    page="docs/reading.md",
    more=TRAIN_MORE,
)
infer = make_command(
    "infer",
    INFER_HELP,
    make_infer_ask,
    INFER_OPTIONS,
    plans=True,
    examples=("laptime infer pets-densenet", "laptime infer cifar-cnn torch/cpu torch/cpu/best --budget 2m"),
    page="docs/reading.md",
    more=INFER_MORE,
)
why = make_command(
    "why",
    WHY_HELP,
    make_script_ask,
    WHY_OPTIONS,
    cls=ScriptCommand,
    examples=("laptime why plates-cnn", "laptime why my.py:training cuda --budget 5m", "laptime why train.py -- -e 3"),
    page="docs/why.md",
    more=WHY_MORE,
)
profile = make_command(
    "profile",
    PROFILE_HELP,
    make_profile_ask,
    examples=("laptime profile cifar-cnn torch/cpu", "laptime profile my.py:training cuda"),
    page="docs/why.md",
    more=PROFILE_MORE,
)


def find_added(name: str) -> click.Command | None:
    """Return the command of a question that a package adds, or None."""
    try:
        question = find_question(name)
    except LookupError:
        return None
    return make_command(name, question.says) if question.says else None


@click.command(
    "plan",
    cls=ScriptCommand,
    help=PLAN_HELP,
    examples=("laptime plan cifar-mlp cpu cuda", "laptime train cifar-cnn --dry-run"),
)
@takes(*RACE_OPTIONS)
@FIELDS
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(*, details: bool, as_json: bool, **given: Any) -> int:
    ask = make_race_ask(given)
    return 0 if api.stand_by(ask) else show_plan(ask, details=details, as_json=as_json)


def show_plan(ask: Ask, *, details: bool, as_json: bool) -> int:
    """Print what an ask would run."""
    outline = api.outline(ask)
    if as_json:
        emit_json(showing.to_json(outline))
    else:
        emit_page(showing.plan_as_text(outline, page_width()), outline, details=details)
    return 0


@click.command(
    "resume",
    cls=Command,
    help=RESUME_HELP,
    examples=("laptime resume", "laptime resume r-2026-11-20"),
    more=RESUME_MORE,
)
@click.argument("identity", metavar="ID", default="latest", shell_complete=complete_record)
@click.option("--changed", is_flag=True, help="Go on although its sources changed; the record notes it.")
@click.option("--again", is_flag=True, help="Train laps again whose checkpoint is gone or damaged.")
@click.option("--trust", metavar="ID", help="Go on with this record, although it was not made here by you.")
@takes(DETAILS, AS_JSON, QUIET)
def resume(
    *, identity: str, changed: bool, again: bool, trust: str | None, as_json: bool, quiet: bool, details: bool
) -> int:
    answer = with_progress(partial(api.resume, identity, changed=changed, again=again, trust=trust), quiet=quiet)
    tell(answer, as_json=as_json, details=details)
    return conclude(answer)


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
    with Progress(quiet=quiet) as progress:
        return FinishedRecord(run(show=progress.show, tell=progress.tell, warn=unsaved.append), unsaved)


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
    """Return a record's exit code. A result that cannot be trusted comes before one that is incomplete.

    Of a `why` or a tuning the lanes that were asked for have to finish; an experiment may fail. In a sweep a lane may
    have no room in memory.
    """
    lanes, answer = record.lanes, record.answer
    if isinstance(answer, WhyAnswer):
        lanes = record.lanes[:1]
    if isinstance(answer, TuneAnswer) and answer.tuning is not None:
        asked = {each.asked for each in answer.tuning.lanes}
        lanes = tuple(lane for lane in lanes if lane.name in asked)
    if isinstance(answer, SweepAnswer) and answer.sweep is not None:
        full = {each.lane for each in answer.sweep.cells if each.out_of_memory}
        of_cells = {each.lane for each in answer.sweep.cells} - full
        lanes = tuple(lane for lane in lanes if lane.name in of_cells)
    if record.status == "interrupted":
        return EXIT_INTERRUPTED
    if any(lane.parity.status == "differs" for lane in lanes):
        return EXIT_UNTRUSTED
    has_none = record.question == "race" and all(lane.step_ms is None for lane in lanes)
    if not saved or has_none or any(lane.status != "ok" for lane in lanes):
        return EXIT_DNF
    return EXIT_UNTRUSTED if record.distrust else 0
