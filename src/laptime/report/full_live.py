"""A whole training while it runs: a bar for the lap under way, with all that is known of it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from laptime.model.protocol import Moment
from laptime.report.figures import duration, step
from laptime.report.full_words import digits, moment_words
from laptime.report.layout import clean


def lap_bar(moment: Moment) -> RenderableType:
    """Draw the lap under way; where no lap is, say what is being done."""
    if not moment.steps or moment.lap is not None:
        return Text(clean(moment_words(moment)), style="dim")
    row = Table.grid(padding=(0, 2, 0, 0), expand=True)
    row.add_column(ratio=1)
    figures = [
        f"{moment.step:,}/{moment.steps:,}",
        f"{step(moment.step_ms)} a step" if moment.step_ms is not None else "",
        f"loss {digits(moment.loss)}",
        f"accuracy {digits(moment.accuracy)}",
        f"{duration(moment.left_s)} left" if moment.left_s is not None else "",
    ]
    for _ in figures:
        row.add_column(no_wrap=True)
    row.add_row(ProgressBar(total=moment.steps, completed=moment.step), *figures)
    return Group(Text(clean(moment_words(moment)), style="bold"), row)
