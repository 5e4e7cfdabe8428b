"""`laptime why`: what limits a lane, and what would gain."""

from __future__ import annotations

from laptime.cli.asking import ScriptCommand
from laptime.cli.questions import ONE_LANE, WORDS, make_command

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

why = make_command(
    "why",
    WHY_HELP,
    cls=ScriptCommand,
    examples=("laptime why plates-cnn", "laptime why my.py:training cuda --budget 5m", "laptime why train.py -- -e 3"),
    page="docs/why.md",
    more=WHY_MORE,
)
