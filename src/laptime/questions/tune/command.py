"""`laptime tune`: the best settings of each lane."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from laptime.cli.asking import (
    ALONE,
    MONEY_OPTIONS,
    SAYS,
    SUBJECT_OPTIONS,
    WATCH_OPTIONS,
    Duration,
    Prices,
    Words,
    make_ask,
)
from laptime.cli.main import rare
from laptime.cli.questions import ONE_LANE, WORDS, make_command
from laptime.model.ask import Ask
from laptime.questions.tune.nouns import AIMS, DEFAULT_AIM, TuneAsk

TUNE_HELP = f"""Find the best settings of each LANE for WHAT, and prove what they gain.

{WORDS}
{ONE_LANE}
"""
AIM_HELP = f"What to minimise: {', '.join(AIMS)}."
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
confirmed.
"""


def make_tune_ask(given: dict[str, Any]) -> Ask:
    """Return the ask of the command."""
    told = dict(given)
    allow, frameworks, laps = told.pop("allow") or (), told.pop("frameworks") or (), told.pop("laps")
    wanted = TuneAsk(allow, frameworks, laps, told.pop("aim"))
    return replace(make_ask(told), tune=wanted)


tune = make_command(
    "tune",
    TUNE_HELP,
    make_tune_ask,
    (
        *SUBJECT_OPTIONS,
        click.option("--for", "aim", default=DEFAULT_AIM, metavar="AIM", show_default=True, help=AIM_HELP),
        click.option("--allow", type=Words(), help="What may change besides: precision, batch, learning."),
        click.option("--frameworks", type=Words(), help="Tune on each of these, or on all.  [default: the lane's]"),
        click.option("--laps", type=int, help="After the budget, train the lane and its winner N laps."),
        click.option("--budget", type=Duration(), default="5m", show_default=True, help=SAYS["budget"]),
        ALONE,
        *WATCH_OPTIONS,
        *MONEY_OPTIONS,
        rare("--prices", type=Prices(), default=(), metavar="DEVICE=PRICE", help="Price per hour: cpu=0.1,cuda=2.5."),
    ),
    plans=True,
    examples=("laptime tune cifar-cnn torch/cpu", "laptime tune cifar-mlp cpu --frameworks all --allow precision"),
    page="docs/tune.md",
    more=TUNE_MORE,
)
