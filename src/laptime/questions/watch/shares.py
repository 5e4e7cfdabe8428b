"""Shares of an iteration of a watched training: of its parts, and of the lines of the user's code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from laptime.model.quantities import Missing
from laptime.model.script import Phases, ScriptProcess, SeenLine, SpanPart, TrainingLoop

LINE_MUCH = 0.3  # of the time of a part: a line that takes less is not named


def share_of(part: float | Missing, phases: Phases) -> float:
    """Return a part's share of the time, 0 where it is not known."""
    return 0.0 if isinstance(part, Missing) or not phases.wall_s else part / phases.wall_s


def longest_line(process: ScriptProcess, part: SpanPart) -> SeenLine | None:
    """Return the line that takes most of a part; None where none takes much of it."""
    lines = [each for each in process.lines if each.part == part]
    most = max(lines, key=lambda each: each.share, default=None)
    return None if most is None or most.share < LINE_MUCH else most


def words_at(where: str | None) -> str:
    return "" if where is None else f" ({where})"


def shares_of_lines(process: ScriptProcess, loop: TrainingLoop) -> list[tuple[SeenLine, float]]:
    """Return the lines of the user's own code, each with its share of an iteration."""
    parts = loop.steady
    backward = _seconds(parts.backward_s)
    seconds: dict[SpanPart, float] = {
        "forward": parts.forward_backward_s - backward,
        "backward": backward,
        "data": _seconds(parts.data_wait_s),
        "optimizer": _seconds(parts.optimizer_s),
        "outside": _seconds(parts.outside_s),
        "no_grad": _seconds(parts.no_grad_s),
        "unattributed": parts.unattributed_s,
    }
    whole = parts.wall_s or 1.0
    return [(line, line.share * max(seconds.get(line.part, 0.0), 0.0) / whole) for line in process.lines]


def by_line(shares: Iterable[tuple[SeenLine, float]]) -> list[tuple[str, float]]:
    """Return each line with its share in all parts, the largest first."""
    found: defaultdict[str, float] = defaultdict(float)
    for line, share in shares:
        found[line.where] += share
    return sorted(found.items(), key=lambda pair: -pair[1])


def _seconds(part: float | Missing) -> float:
    return 0.0 if isinstance(part, Missing) else part


def is_on_card(process: ScriptProcess) -> bool:
    """Whether it has parameters on a card, to which what is copied may go."""
    return any(name != "cpu" for each in process.optimizers for name in each.parameters)
