"""`laptime sweep`: lanes over a range of batches, threads, workers, items or widths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from laptime.cli.asking import (
    ALONE,
    ITEMS,
    MONEY_OPTIONS,
    SAYS,
    SUBJECT_OPTIONS,
    WATCH_OPTIONS,
    Duration,
    ItemCount,
    make_ask,
)
from laptime.cli.main import rare
from laptime.cli.questions import ONE_LANE, WORDS, make_command
from laptime.model.ask import Ask
from laptime.questions.sweep.nouns import AXES, SweepAsk

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


class ItemsOrCount(ItemCount):
    """A number of items, or several as the text of an axis."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if {".", ","} & set(str(value)) else super().convert(value, param, ctx)


def make_sweep_ask(given: dict[str, Any]) -> Ask:
    """Return the ask of the command."""
    told = dict(given)
    axes = {name: told.pop(name) for name in AXES}
    told["items"] = axes["items"] if isinstance(axes["items"], int) else None  # one number is for all cells
    axes["items"] = axes["items"] if told["items"] is None else None
    return replace(make_ask(told), sweep=SweepAsk(**axes))


sweep = make_command(
    "sweep",
    SWEEP_HELP,
    make_sweep_ask,
    (
        *(option for option in SUBJECT_OPTIONS if option is not ITEMS),
        click.option("--batch", metavar="A..B", help="Batches: 1..1024, or 8,16,24.  [default: 1..1024]"),
        click.option("--threads", metavar="A..B", help="Threads on the processor."),
        click.option("--workers", metavar="A..B", help="Workers of the loader."),
        click.option(
            "--items",
            type=ItemsOrCount("A..B", "is no count"),
            metavar="A..B",
            help="Items that are made to train on; one number is for all.",
        ),
        rare("--lr", metavar="A,B", help="Learning rates."),
        click.option("--width", metavar="A..B", help="Widths of a built-in network: 0.25..4."),
        click.option("--budget", type=Duration(), default="5m", show_default=True, help=SAYS["budget"]),
        ALONE,
        *WATCH_OPTIONS,
        *MONEY_OPTIONS,
    ),
    plans=True,
    examples=("laptime sweep cifar-cnn cpu cuda --batch 1..1024", "laptime sweep my.py:training cpu --workers 0..8"),
    page="docs/sweep.md",
    more=SWEEP_MORE,
)
