"""`laptime infer`: answers, not training."""

from __future__ import annotations

from laptime.cli.questions import WORDS, make_command

INFER_HELP = f"""Time answers of WHAT on each LANE: single calls and batches.

{WORDS}
"""
INFER_MORE = """\
The first call and the start-up are apart from later calls. Throughput is measured in batches of 1, 8, 64 and 256.
Answers are checked against a reference in float64.
"""

infer = make_command(
    "infer",
    INFER_HELP,
    plans=True,
    examples=("laptime infer pets-densenet", "laptime infer cifar-cnn torch/cpu torch/cpu/best --budget 2m"),
    page="docs/reading.md",
    more=INFER_MORE,
)
