"""`laptime tune`: the best settings, and with --apply the change of the user's code that makes them."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from laptime import api
from laptime.cli.apply import apply_offer
from laptime.cli.printing import complain, say
from laptime.cli.questions import (
    DRY_RUN,
    LANES_ARGUMENT,
    QUIET,
    RECORD_AS_JSON,
    SHOW_DETAILS,
    WHAT_ARGUMENT,
    FinishedRecord,
    ScriptCommand,
    conclude,
    make_ask,
    options_for,
    show_plan,
    takes,
    tell,
    with_progress,
)
from laptime.model.errors import ExitCode, UsageError
from laptime.model.questions import ONE_LANE_HELP, WHAT_HELP

TUNE_HELP = f"""Find the best settings of each LANE for WHAT, and prove what they gain.

{WHAT_HELP}
{ONE_LANE_HELP}
A script's words are behind --.
"""
TUNE_MORE = """\
The lane races in short heats against each single setting, and against what the presets set: threads, memory, compile,
graph, layout, optimizer, input, workers. What seems faster is joined, and the best set is changed step by step as long
as that helps. Settings that change the arithmetic or the batch are tried only if --allow names them. With --allow
batch,learning another batch also gets the learning rate that belongs to it. A setting that fails, hangs, or does other
work than the reference is out, and the page says why. The best of many seems faster than it is, so at the end the
winner races the lane as it was on fresh heats, and the page shows that gain. With --frameworks all, each device is
tuned on every installed framework. With --laps N, the lane and its winner are then trained N whole laps from the same
seed, after the budget. --for energy rates settings by items per joule, which needs an instrument that reads the power;
--for money by what an item costs, which needs --rate or --prices. Ctrl-C ends the search; the best so far is then not
confirmed. `laptime tune --more 2m ID` goes on with the search, and races its winner on fresh heats.

A script is started once a heat, and what can be set in it without a changed line is tried: workers, prefetch, threads,
memory, compile, the fused optimizer, channels last; of Keras also several steps in a call. Its first losses prove the
same work. The page has the winner as a diff of the script; --apply writes it after a yes, or --yes, into files that
git tracks, as `laptime apply` does.
"""
NOTHING_CONFIRMED = "no other settings were confirmed to be faster"


@click.command(
    "tune",
    cls=ScriptCommand,
    help=TUNE_HELP,
    more=TUNE_MORE,
    examples=("laptime tune cifar-cnn torch/cpu", "laptime tune train.py --apply -- --epochs 3"),
    page="docs/tune.md",
)
@takes(WHAT_ARGUMENT, LANES_ARGUMENT, *options_for("tune"), DRY_RUN, SHOW_DETAILS, RECORD_AS_JSON, QUIET)
def tune(*, as_json: bool, quiet: bool, details: bool, dry_run: bool, apply: bool, yes: bool, **given: Any) -> int:
    ask = make_ask("tune", given)
    if yes and not apply:
        raise UsageError("--yes is for a change of code", "add --apply")
    if apply and as_json:
        raise UsageError("--apply shows a change and asks, and --json prints the record alone", "laptime apply latest")
    if apply and not api.names_a_file(ask.what):
        says = f"--apply: {ask.what or 'a whole command'} is no file of yours whose code could be changed"
        raise UsageError(says, "leave it out, or tune a script: laptime tune train.py --apply")
    if dry_run:
        return show_plan(ask, details=details, as_json=as_json)
    answer = with_progress(partial(api.answer, "tune", ask), quiet=quiet)
    tell(answer, as_json=as_json, details=details)
    code = conclude(answer)
    if apply and code:
        say(f"Nothing was changed, for the answer is not whole. If you want it: laptime apply {answer.record.id}")
    return _apply(answer, yes=yes) if apply and not code else code


def _apply(answer: FinishedRecord, *, yes: bool) -> int:
    """Offer each change of the user's code that was confirmed, one file after another."""
    offers = [offer for offer in api.code_offers(answer.record) if offer.is_recommended]
    if not offers:
        say(f"Nothing was changed: {api.why_no_offer(answer.record) or NOTHING_CONFIRMED}")
        return ExitCode.UNFINISHED
    try:
        return max(apply_offer(offer, yes=yes, outside=False) for offer in offers)
    except UsageError as error:
        complain(error)
        return error.exit_code
