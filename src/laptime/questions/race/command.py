"""`laptime race`: a race, one that is run again, or one that fails where a training became slower."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from laptime import api
from laptime.api import showing
from laptime.cli.printing import complain, emit, say
from laptime.cli.questions import (
    BEHIND,
    DRY_RUN,
    LANES_ARGUMENT,
    QUIET,
    RECORD_AS_JSON,
    SHOW_DETAILS,
    WHAT_ARGUMENT,
    ScriptCommand,
    conclude,
    make_ask,
    options_for,
    show_plan,
    takes,
    tell,
    with_progress,
)
from laptime.model.errors import RecordError, UsageError
from laptime.model.questions import WHAT_HELP
from laptime.model.record import Record
from laptime.questions.compare.command import emit_compared, gate_code

RACE_HELP = f"""Race WHAT on each LANE: which is faster, and by how much?

{WHAT_HELP} By default every usable device races as written and at its best.
Trainings race each other: a.py:f b.py:f. A script races unchanged, its
arguments behind --.
"""
RACE_MORE = """\
The lanes of a round are alive at once and take turns of 0.25 s, so that a machine that slows down slows all of
them. Rounds with new processes follow until every ratio is known well within the margin, or the budget is used up.
Each lane proves that it does the same work, against a reference in float64. With --profile, each lane that finished
is profiled after the race, outside the budget. With --data, a workload trains on CIFAR-10's archive, a folder per
class, or a folder of licence plates. The watchdog waits for at least 20 median steps. See
`laptime help exit-codes`.

A script is started once a heat and sees its lane's device alone. It is held at the end of an iteration while others
have their turns, and stopped once enough is known. Its lanes are a device, or a device and what can be set from
outside: cpu/malloc=keep+threads=1. --set adds such a lane for each device, --on names devices. Without WHAT, the
words behind -- are a whole command.

`laptime race --more 2m ID` adds rounds to the record of a race that did not settle: of the same code, data and
machine, for 2 minutes. Without a time, it takes the budget of the race. Its interval was seen before, so two parts
hold at 92.5 % and any number of parts at 90 %.

With --on ray, --on ray://host:10001 or --on slurm each heat runs on a node of that cluster, with --on torchrun on
those on which torchrun has started this command. --each TYPE races the lanes on each type of a Ray cluster's nodes, by
a label or a resource (docs/clusters.md).
"""
MAY_BE_GIVEN = {"against", "trust", "fail_above", "label", "dry_run", "as_json", "quiet", "details"}


@click.command(
    "race",
    cls=ScriptCommand,
    help=RACE_HELP,
    examples=(
        "laptime race cifar-mlp torch/cpu torch/cuda:0/best",
        "laptime race train.py cpu cuda -- --epochs 3",
    ),
    page="docs/reading.md",
    more=RACE_MORE,
)
@takes(WHAT_ARGUMENT, LANES_ARGUMENT, *options_for("race"), DRY_RUN, SHOW_DETAILS, RECORD_AS_JSON, QUIET)
@click.pass_context
def race(
    context: click.Context,
    /,
    *,
    against: str | None,
    trust: str | None,
    fail_above: float | None,
    as_json: bool,
    quiet: bool,
    details: bool,
    dry_run: bool,
    **given: Any,
) -> int:
    before = None if against is None else api.load(against)
    if before is not None:
        _refuse_own(context)
    elif trust is not None:
        raise UsageError("--trust is for a record that is run again", "laptime race --against ID --trust ID")
    ask = (
        make_ask("race", given) if before is None else api.ask_again(before, given["label"], name=against, trust=trust)
    )
    if fail_above is not None:
        api.check_gate(ask, repeats=before is not None)
    if api.stand_by(ask):  # on a further node of a torchrun: the first one shows the answer
        return 0
    if dry_run:
        return show_plan(ask, details=details, as_json=as_json)
    answer = with_progress(partial(api.answer, "race", ask), quiet=quiet)
    tell(answer, as_json=as_json, details=details)
    code = conclude(answer)
    if answer.record.status == "interrupted" or (before is None and fail_above is None):
        return code
    judged = _judge(before, answer.record, fail_above, as_json=as_json)
    return code or judged


def _refuse_own(context: click.Context) -> None:
    """Refuse what would change a race that is run again."""
    given = [
        param.opts[0] if isinstance(param, click.Option) else "WHAT and LANE"
        for param in context.command.params
        if param.name not in MAY_BE_GIVEN
        and context.get_parameter_source(param.name or "") not in {ParameterSource.DEFAULT, None}
        and context.params.get(param.name or "") not in {(), None}
    ]
    given += ["the words behind --"] if BEHIND in context.meta else []
    if given:
        says = f"--against runs a race again as it was, and {', '.join(dict.fromkeys(given))} would change it"
        raise UsageError(says, "leave it out, or race without --against and then: laptime compare ID latest")


def _judge(before: Record | None, record: Record, fail_above: float | None, *, as_json: bool) -> int:
    """Print how the race compares, and return the exit code."""
    try:
        if before is None:
            found = api.compare_trainings(record, fail_above)
        else:
            found = api.compare_records(before, record, fail_above)
        if as_json:
            say(showing.compared_as_text(found, showing.View()))  # stdout has the record, and nothing else
        else:
            emit("")
            emit_compared(found)
    except (RecordError, UsageError) as error:
        complain(error)
        return error.exit_code
    return gate_code(found)
