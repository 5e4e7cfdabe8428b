"""`laptime race`: run a race, show it while it runs, and end with one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from laptime import api
from laptime.cli.asking import Several, Share, make_ask, takes_an_ask
from laptime.cli.main import EXIT_INTERRUPTED, complain
from laptime.cli.output import Progress, Trainings, may_colour, page_width
from laptime.cli.printing import emit
from laptime.errors import StoreError, UsageError
from laptime.model.ask import FullAsk
from laptime.model.protocol import Moment
from laptime.model.record import Record

EXIT_DNF, EXIT_UNTRUSTED = 3, 4
OF_FULL = ("laps", "steps_per_lap", "seeds", "until_accuracy", "learning_rates", "batches")
FLAGS = {"learning_rates": "--lr", "batches": "--batch"}
OF_HEATS = ("heats", "budget", "margin")
OF_RACES = ("margin",)
Tell = Callable[[Moment], None]
Warn = Callable[[StoreError], None]

HELP = """Race WHAT on each LANE: which is faster, by how much, and did they learn the same?

WHAT is a built-in workload (`laptime workloads`; cifar-cnn if left out) or a training of your own, as
file.py:function where the function returns a laptime.Training. A LANE is [framework/]device[/setting+setting...]:
torch/cpu, cuda:1/best, torch/cpu/bf16+threads=1. With no lane, every usable device races as written and at its best.

Settings: as-written, best, fastest; fp32, tf32, bf16, fp16; eager, compile, graph; channels_last; fused; threads=N,
malloc=keep; input=published|fast|cached|resident|only; workers=N; batch=N, batch=4x; lr=X.

With --full each lane is trained whole, as published, one lane after another: every lap's time, loss and accuracy,
validation, then a test. `laptime resume ID` goes on after the last whole lap.

With --infer nothing is trained: how long one answer takes (p50, p95, p99, the first call and start-up apart), and how
many there are a second in batches of 1, 8, 64 and 256.

Exit codes: 0 answered, 2 usage, 3 a lane did not finish or nothing could be saved, 4 a lane did not do the same
work, 130 interrupted (finished heats and laps are kept).
"""


@click.command("race", help=HELP)
@takes_an_ask
@click.option("--full", is_flag=True, help="Train each lane whole: all laps, validation, test.")
@click.option("--infer", is_flag=True, help="Time answers, not training: latency of one item, throughput by batch.")
@click.option("--laps", type=int, help="With --full: so many laps, in place of those published.")
@click.option("--steps-per-lap", type=int, help="With --full: so many steps a lap, in place of those published.")
@click.option("--seeds", type=int, help="With --full: train each lane from so many seeds.  [default: 1]")
@click.option("--until-accuracy", type=Share(), help="With --full: say when an accuracy was reached: 0.7 or 70%.")
@click.option("--lr", "learning_rates", type=Several(float), help="With --full: a lane each: 1e-3,1e-4.")
@click.option("--batch", "batches", type=Several(int), help="With --full: a lane each: 64,128.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
@click.pass_context
def command(context: click.Context, /, *, as_json: bool, quiet: bool, full: bool, infer: bool, **given: Any) -> int:
    asked = {name: given.pop(name) for name in OF_FULL}
    _refuse_strangers(context, full=full, infer=infer)
    ask = replace(make_ask(given), infer=infer)
    if full:
        numbers = {name: value for name, value in asked.items() if value is not None}
        ask = replace(ask, full=FullAsk(**numbers))
        return train(lambda tell, warn: api.full(ask, tell=tell, warn=warn), quiet=quiet, as_json=as_json)
    unsaved: list[StoreError] = []
    with Progress(quiet=quiet) as progress:
        run = api.infer if infer else api.race
        record = run(ask, show=progress.show, warn=unsaved.append)
    return conclude(record, unsaved, as_json=as_json)


def train(run: Callable[[Tell, Warn], Record], *, quiet: bool, as_json: bool) -> int:
    """Run whole trainings, or the rest of them, and show each moment."""
    unsaved: list[StoreError] = []
    with Trainings(quiet=quiet) as progress:
        record = run(progress.tell, unsaved.append)
    return conclude(record, unsaved, as_json=as_json)


def conclude(record: Record, unsaved: list[StoreError], *, as_json: bool) -> int:
    """Print the record, complain of what could not be saved, and give the exit code."""
    emit(api.as_json(record) if as_json else api.as_text(record, page_width(), color=may_colour(), kept=not unsaved))
    if unsaved:
        complain(unsaved[-1])
    return exit_code(record, saved=not unsaved)


def _refuse_strangers(context: click.Context, *, full: bool, infer: bool) -> None:
    """An option that would do nothing is a mistake to be told, not to be passed over."""
    if full and infer:
        raise UsageError("--full trains and --infer only answers", "leave one of the two out, and ask twice")
    for flag in _given(context, OF_HEATS if full else OF_FULL):
        if full:
            raise UsageError(f"{flag} is of heats, and --full trains whole", "leave one of the two out")
        raise UsageError(f"{flag} is of whole trainings", f"add --full, or leave {flag} out")
    for flag in _given(context, OF_RACES) if infer else ():
        raise UsageError(f"{flag} stops a race, and --infer runs its heats to the end", "--heats N says how many")


def _given(context: click.Context, names: tuple[str, ...]) -> list[str]:
    """Give those flags that are on the command line."""
    typed = click.core.ParameterSource.COMMANDLINE
    told = [name for name in names if context.get_parameter_source(name) is typed]
    return [FLAGS.get(name, f"--{name.replace('_', '-')}") for name in told]


def exit_code(record: Record, *, saved: bool) -> int:
    """Give the one code that says most: a result that cannot be trusted comes before one that is not whole."""
    if record.status == "interrupted":
        return EXIT_INTERRUPTED
    if any(lane.parity.status == "differs" for lane in record.lanes):
        return EXIT_UNTRUSTED
    if not saved or any(lane.status != "ok" for lane in record.lanes):
        return EXIT_DNF
    return 0
