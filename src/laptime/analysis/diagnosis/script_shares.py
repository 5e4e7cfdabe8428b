"""Shares of the time of a watched training, and the line of the user's code that takes most of one."""

from __future__ import annotations

from laptime.model.quantities import Missing
from laptime.model.script import Phases, ScriptProcess, SeenLine, SpanPart

LINE_MUCH = 0.3  # of the time of a part: a line that takes less is not named


def share_of(part: float | Missing, phases: Phases) -> float:
    """Return a part's share of the time, 0 where it is not known."""
    return 0.0 if isinstance(part, Missing) or not phases.wall_s else part / phases.wall_s


def longest_line(process: ScriptProcess, part: SpanPart) -> SeenLine | None:
    """Return the line that takes most of a part; None where none takes much of it."""
    lines = [line for line in process.lines if line.part == part]
    most = max(lines, key=lambda line: line.share, default=None)
    return None if most is None or most.share < LINE_MUCH else most


def words_at(where: str | None) -> str:
    return "" if where is None else f" ({where})"


def is_on_card(process: ScriptProcess) -> bool:
    """Whether it has parameters on a card, to which what is copied may go."""
    return any(name != "cpu" for optimizer in process.optimizers for name in optimizer.parameters)
