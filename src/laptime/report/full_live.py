"""A whole training while it runs: a bar for the lap under way, with all that is known of it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from laptime.model.protocol import Moment
from laptime.report.figures import duration, step
from laptime.report.full_words import digits, lap_words
from laptime.report.layout import clean
from laptime.report.phrases import short_name

BAR_PLACES = 24


def moment_words(moment: Moment) -> str:
    """Say a moment in one line, for a file or above the bar."""
    who = short_name(moment.lane) + (f" (seed {moment.seed})" if moment.seed is not None else "")
    if moment.lap is not None:
        return f"{who} {lap_words(moment.lap)}"
    where = f" {moment.number} of {moment.laps}" if moment.number else ""
    return f"{who}{': ' if who else ''}{moment.doing}{where}"


def lap_bar(moment: Moment) -> RenderableType:
    """Draw the lap under way; where no lap is, say what is being done."""
    if not moment.steps or moment.lap is not None:
        return Text(clean(moment_words(moment)), style="dim")
    row = Table.grid(padding=(0, 2, 0, 0))
    figures = [
        f"{moment.step:,}/{moment.steps:,}",
        f"{step(moment.step_ms)} a step" if moment.step_ms is not None else "",
        f"loss {digits(moment.loss)}",
        f"accuracy {digits(moment.accuracy)}",
        f"{duration(moment.left_s)} left" if moment.left_s is not None else "",
    ]
    bar = ProgressBar(total=moment.steps, completed=moment.step, width=BAR_PLACES)
    row.add_row(bar, *(Text(figure, no_wrap=True) for figure in figures))
    return Group(Text(clean(moment_words(moment)), style="bold"), row)
