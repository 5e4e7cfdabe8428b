"""`laptime tune`: the best settings of each lane."""

from __future__ import annotations

from laptime.cli.questions import ONE_LANE, WORDS, make_command

TUNE_HELP = f"""Find the best settings of each LANE for WHAT, and prove what they gain.

{WORDS}
{ONE_LANE}
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
confirmed.
"""

tune = make_command(
    "tune",
    TUNE_HELP,
    plans=True,
    examples=("laptime tune cifar-cnn torch/cpu", "laptime tune cifar-mlp cpu --frameworks all --allow precision"),
    page="docs/tune.md",
    more=TUNE_MORE,
)
