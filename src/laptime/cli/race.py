"""`laptime race`: run a race, show it while it runs, and end with one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from laptime import api, pages
from laptime.cli.asking import make_asks, takes_an_ask
from laptime.cli.main import EXIT_INTERRUPTED, complain
from laptime.cli.output import Progress, Trainings, may_colour, may_draw, page_width
from laptime.cli.printing import emit
from laptime.errors import StoreError
from laptime.model.ask import Ask
from laptime.model.protocol import Moment
from laptime.model.record import Record

EXIT_DNF, EXIT_UNTRUSTED = 3, 4
Tell = Callable[[Moment], None]
Warn = Callable[[StoreError], None]

HELP = """Race WHAT on each LANE: which is faster, by how much, and did they learn the same?

WHAT is a built-in workload (`laptime workloads`; cifar-cnn if left out) or a training of your own, as
file.py:function where the function returns a laptime.Training. A LANE is [framework/]device[/setting+setting...]:
torch/cpu, cuda:1/best, torch/cpu/bf16+threads=1, keras-jax/cpu. Frameworks: torch, keras-tf, keras-jax, keras-torch,
and for a step function of your own jax, or python, which calls it as it is, whatever it computes with.
With no lane, every usable device races as written and at its best; with --every, every framework as written.

Settings: as-written, best, fastest; fp32, tf32, bf16, fp16; eager, compile, graph; channels_last; fused; threads=N,
malloc=keep; input=published|fast|cached|resident|only; workers=N; batch=N, batch=4x, batch=0.5x; lr=X;
steps_per_execution=N (Keras). To see what one thing costs: input=one|copy, denormals=flush, reads=deferred.

With --full each lane is trained whole, as published, one lane after another: every lap's time, loss and accuracy,
validation, then a test. `laptime resume ID` goes on after the last whole lap.

With --profile each lane that finished takes some more steps under its framework's profiler, after the race and its
budget: operators by time and memory, kernels, a trace to open; `laptime profile` does that alone.

With --infer nothing is trained: how long one answer takes (p50, p95, p99, the first call and start-up apart), and how
many there are a second in batches of 1, 8, 64 and 256. With both, it follows the training, in a record of its own.

Exit codes: 0 answered, 2 usage, 3 a lane did not finish or nothing could be saved, 4 a lane did not do the same
work, 130 interrupted (finished heats and laps are kept).
"""


@click.command("race", help=HELP)
@takes_an_ask
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.pass_context
def command(context: click.Context, /, *, as_json: bool, quiet: bool, **given: Any) -> int:
    asks = make_asks(context, given)
    for later in asks[1:]:
        api.outline(later)  # what is wrong with it is said now, and not after hours of training
    answers: list[Answer] = []
    for ask in asks:
        answers.append(find_answer(ask, quiet=quiet))
        if not as_json:
            show(answers[-1])
        if answers[-1].record.status == "interrupted":
            break
    if as_json:
        emit(pages.records_as_json([each.record for each in answers]))
    return conclude(answers)


@dataclass(frozen=True, slots=True)
class Answer:
    """A record, and what of it could not be saved."""

    record: Record
    unsaved: list[StoreError]


def find_answer(ask: Ask, *, quiet: bool) -> Answer:
    """Run what is asked, and show its progress."""
    if ask.full is not None:
        return train(lambda tell, warn: api.full(ask, tell=tell, warn=warn), quiet=quiet)
    return ask_one(api.infer if ask.infer else api.race, ask, quiet=quiet)


def ask_one(run: Callable[..., Record], ask: Ask, *, quiet: bool) -> Answer:
    """Run one question, and show its progress."""
    unsaved: list[StoreError] = []
    with Progress(quiet=quiet) as progress:
        return Answer(run(ask, show=progress.show, warn=unsaved.append), unsaved)


def train(run: Callable[[Tell, Warn], Record], *, quiet: bool) -> Answer:
    """Run whole trainings, or the rest of them, and show each moment."""
    unsaved: list[StoreError] = []
    with Trainings(quiet=quiet) as progress:
        return Answer(run(progress.tell, unsaved.append), unsaved)


def tell(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        emit(pages.as_json(answer.record))
    else:
        show(answer)


def show(answer: Answer) -> None:
    kept = not answer.unsaved
    emit(pages.as_text(answer.record, page_width(), color=may_colour(), kept=kept, blocks=may_draw()))


def conclude(answers: Sequence[Answer]) -> int:
    """Complain of what could not be saved, and give the exit code that says most."""
    for answer in answers:
        if answer.unsaved:
            complain(answer.unsaved[-1])
    return max(exit_code(answer.record, saved=not answer.unsaved) for answer in answers)


def exit_code(record: Record, *, saved: bool) -> int:
    """Give the one code that says most: a result that cannot be trusted comes before one that is not whole."""
    if record.status == "interrupted":
        return EXIT_INTERRUPTED
    if any(lane.parity.status == "differs" for lane in record.lanes):
        return EXIT_UNTRUSTED
    if not saved or any(lane.status != "ok" for lane in record.lanes):
        return EXIT_DNF
    return 0
