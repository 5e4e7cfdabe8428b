"""`laptime sweep`: lanes over a range of batches, threads, workers, items or widths."""

from __future__ import annotations

from laptime.cli.questions import ONE_LANE, WORDS, make_command

SWEEP_HELP = f"""How fast is each LANE at each batch, and where does one overtake another?

{WORDS}
{ONE_LANE}
"""
SWEEP_MORE = """\
`1..1024` doubles from the first value to the last, `8,16,24` is a list. One axis or two. At each value all lanes race
in turns, in short heats, and again as long as the budget allows. Between two values the crossover is found on
logarithmic axes, with its interval. Memory is estimated before a batch runs: what surely does not fit is left out.
Where a lane has no memory left, larger batches are left out, too, and the largest that fits is found to within 5 %. The
page has the batch from which on a lane has 90 % of its highest rate, and what a step with nothing in it would take.
--items makes a data set of each size, to see where it no longer fits into memory. --width multiplies the filters and
hidden units of a built-in network; inputs and classes stay.
"""

sweep = make_command(
    "sweep",
    SWEEP_HELP,
    plans=True,
    examples=("laptime sweep cifar-cnn cpu cuda --batch 1..1024", "laptime sweep my.py:training cpu --workers 0..8"),
    page="docs/sweep.md",
    more=SWEEP_MORE,
)
