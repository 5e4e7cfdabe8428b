"""The commands that run something: race, why, profile and resume print a record's page, plan says what would run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import click

from laptime import api, pages
from laptime.cli.asking import (
    make_ask,
    make_asks,
    make_profile_ask,
    make_why_ask,
    takes_a_subject,
    takes_an_ask,
    takes_an_inquiry,
)
from laptime.cli.main import EXIT_INTERRUPTED
from laptime.cli.output import Progress, may_colour, may_draw, page_width
from laptime.cli.printing import complain, emit, emit_json
from laptime.errors import StoreError
from laptime.model.ask import Ask
from laptime.model.frameworks import FRAMEWORKS
from laptime.model.questions import WhyAnswer, find_question
from laptime.model.record import Record

EXIT_DNF, EXIT_UNTRUSTED = 3, 4

TRAINING = [row.name for row in FRAMEWORKS if not row.takes_steps_only and not row.switch]
RACE_HELP = f"""Race WHAT on each LANE: which is faster, by how much, and did they learn the same?

WHAT is a built-in workload (`laptime workloads`; cifar-cnn if left out) or a training of your own, as
file.py:function where the function returns a laptime.Training. A LANE is [framework/]device[/setting+setting...]:
torch/cpu, cuda:1/best, torch/cpu/bf16+threads=1, keras-jax/cpu. Frameworks: {", ".join(TRAINING)},
and for a step function of your own jax, or python, which calls it as it is, whatever it computes with.
With no lane, every usable device races as written and at its best; with --every, every framework as written.

{api.describe_settings()}

With --full each lane is trained whole, as published, one lane after another: every lap's time, loss and accuracy,
validation, then a test. `laptime resume ID` goes on after the last whole lap.

With --profile each lane that finished takes some more steps under its framework's profiler, after the race and its
budget: operators by time and memory, kernels, a trace to open; `laptime profile` does that alone.

With --infer nothing is trained: how long one answer takes (p50, p95, p99, the first call and start-up apart), and how
many there are a second in batches of 1, 8, 64 and 256. With both, it follows the training, in a record of its own.

Exit codes: 0 answered, 2 usage, 3 a lane did not finish or nothing could be saved, 4 a lane did not do the same
work, 5 an instrument that --sensors names is not there, 130 interrupted, 143 terminated (finished heats and laps are
kept).
"""
WHY_HELP = """Why does WHAT take so long on LANE, and what would make it faster?

WHAT and LANE are those of `laptime race`; with no lane it is the one that a framework's bare name means: its card if
there is one, else the processor, as written.

The lane is raced against itself. First next to its three ceilings: its loader alone, the copy to the device alone, the
training alone on batches that are ready. Then next to experiments, in each of which one possible cause is gone; those
first to which readings and ceilings point. A cause is proven where its removal moved the time, likely where only its
signature is there, and ruled out by a figure. Fifteen causes are judged.

The answer: the verdict in one sentence; where a step's time goes; the ceilings, and which binds; remedies, each with
the predicted and the measured gain, what it changes, and the line of code that does it; and what was ruled out.

Exit codes: 0 answered, 2 usage, 3 the lane did not finish or nothing could be saved, 4 the lane did other work than its
reference, or the noise was too great to tell anything, 130 interrupted (finished heats are kept).
"""
PROFILE_HELP = """Where does a step of WHAT go on each LANE? Operators by time and memory, kernels, and a trace.

WHAT and LANE are those of `laptime race`; with no lane it is the one that a framework's bare name means: its card if
there is one, else the processor, as written. With --every, each framework that is installed, on every device.

Each lane is built and warmed up as in a heat, in a fresh process; then some of its steps (as many as take two seconds,
3 to 20) are taken under the framework's own profiler: torch.profiler, JAX's or TensorFlow's. A step without it is timed
before and after, so that the profiler's own cost is known. Nothing is proven and nothing is raced.

The trace of each lane opens in https://ui.perfetto.dev or chrome://tracing.

Exit codes: 0 answered, 2 usage, 3 a lane could not be profiled or nothing could be saved, 130 interrupted.
"""
RESUME_HELP = """Train on where a whole training was ended: by Ctrl-C, a kill, or a failure.

ID is a record's id or the beginning of one, or `latest`. Each lane goes on from the checkpoint of its last whole lap;
on a processor its curve is the one that it would have had unbroken, to the last digit. Lanes that are done stay as
they are.

Refused with exit code 2: a training of your own whose sources have changed since (the file and all that it imports from
its own folder), and one whose checkpoint is gone, so that its finished laps would be trained again.
"""
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
QUIET = click.option("--quiet", "-q", is_flag=True, help="Show no progress.")


@click.command("race", help=RACE_HELP)
@takes_an_ask
@AS_JSON
@QUIET
@click.pass_context
def race(context: click.Context, /, *, as_json: bool, quiet: bool, **given: Any) -> int:
    asks = make_asks(context, given)
    for later in asks[1:]:
        api.outline(later)  # fails now if something is wrong, and not after hours of training
    answers: list[FinishedRecord] = []
    for ask in asks:
        answers.append(find_answer(api.question_of(ask).name, ask, quiet=quiet))
        if not as_json:
            show(answers[-1])
        if answers[-1].record.status == "interrupted":
            break
    if as_json:
        emit_json(pages.records_as_json([each.record for each in answers]))
    return conclude(answers)


@click.command("plan", help="Show what `laptime race` with the same arguments would run, without running it.")
@takes_an_ask
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.pass_context
def plan(context: click.Context, /, *, as_json: bool, **given: Any) -> None:
    outlines = [api.outline(ask) for ask in make_asks(context, given)]
    if as_json:
        emit_json(pages.to_json(outlines if len(outlines) > 1 else outlines[0]))
        return
    for number, outline in enumerate(outlines):
        emit("\n" * bool(number) + pages.plan_as_text(outline, page_width()))


@click.command("why", help=WHY_HELP)
@takes_an_inquiry
@AS_JSON
@QUIET
def why(*, as_json: bool, quiet: bool, **given: Any) -> int:
    answer = find_answer("why", make_why_ask(given), quiet=quiet)
    tell(answer, as_json=as_json)
    return _exit_code_of_why(answer)


def make_command(
    question: str, help_text: str, understand: Callable[[dict[str, Any]], Ask] = make_ask
) -> click.Command:
    """Return the command of a question that has no options of its own: WHAT, lanes, and the common options."""

    @click.command(question, help=help_text)
    @takes_a_subject
    @AS_JSON
    @QUIET
    def command(*, as_json: bool, quiet: bool, **given: Any) -> int:
        answer = find_answer(question, understand(given), quiet=quiet)
        tell(answer, as_json=as_json)
        return conclude([answer])

    return command


profile = make_command("profile", PROFILE_HELP, make_profile_ask)


def find_added(name: str) -> click.Command | None:
    """Return the command of a question that a package adds, or None."""
    try:
        question = find_question(name)
    except LookupError:
        return None
    return make_command(name, question.says) if question.says else None


@click.command("resume", help=RESUME_HELP)
@click.argument("identity", metavar="ID", default="latest")
@click.option("--changed", is_flag=True, help="Go on although its sources changed; the record notes it.")
@click.option("--again", is_flag=True, help="Train laps again whose checkpoint is gone or damaged.")
@AS_JSON
@QUIET
def resume(*, identity: str, changed: bool, again: bool, as_json: bool, quiet: bool) -> int:
    answer = with_progress(partial(api.resume, identity, changed=changed, again=again), quiet=quiet)
    tell(answer, as_json=as_json)
    return conclude([answer])


@dataclass(frozen=True, slots=True)
class FinishedRecord:
    """A record, and the errors of what could not be saved."""

    record: Record
    unsaved: list[StoreError]


def find_answer(question: str, ask: Ask, *, quiet: bool) -> FinishedRecord:
    """Run a question of the table with progress shown."""
    return with_progress(partial(api.answer, question, ask), quiet=quiet)


def with_progress(run: Callable[..., Record], *, quiet: bool) -> FinishedRecord:
    """Call `run` with callbacks for progress and for what cannot be saved, and return its record."""
    unsaved: list[StoreError] = []
    with Progress(quiet=quiet) as progress:
        return FinishedRecord(run(show=progress.show, tell=progress.tell, warn=unsaved.append), unsaved)


def tell(answer: FinishedRecord, *, as_json: bool) -> None:
    if as_json:
        emit_json(pages.as_json(answer.record))
    else:
        show(answer)


def show(answer: FinishedRecord) -> None:
    emit_record(answer.record, kept=not answer.unsaved)


def emit_record(record: Record, *, kept: bool = True) -> None:
    """Print a record's page."""
    color = may_colour()
    emit(pages.as_text(record, page_width(), color=color, kept=kept, blocks=may_draw()), color=color)


def conclude(answers: Sequence[FinishedRecord]) -> int:
    """Report what could not be saved, and return the highest of the exit codes."""
    for answer in answers:
        if answer.unsaved:
            complain(answer.unsaved[-1])
    return max(exit_code(answer.record, saved=not answer.unsaved) for answer in answers)


def exit_code(record: Record, *, saved: bool) -> int:
    """Return a record's exit code. A result that cannot be trusted comes before one that is incomplete."""
    if record.status == "interrupted":
        return EXIT_INTERRUPTED
    if any(lane.parity.status == "differs" for lane in record.lanes):
        return EXIT_UNTRUSTED
    if not saved or any(lane.status != "ok" for lane in record.lanes):
        return EXIT_DNF
    return 0


def _exit_code_of_why(answer: FinishedRecord) -> int:
    """Return the exit code of `why`. The lane under study has to finish; an experiment may fail."""
    record = answer.record
    found = record.answer.why if isinstance(record.answer, WhyAnswer) else None
    untrusted = found is not None and not found.trusted
    code = conclude([replace(answer, record=replace(record, lanes=record.lanes[:1]))])
    return EXIT_UNTRUSTED if code == 0 and untrusted else code
