"""Iterations of a watched script, as they were in time -> the middle one of them, and what it was spent on when."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from laptime.analysis.script_units import SeenSpan, Unit
from laptime.model.script import IterationSpan, SpanPart, TypicalIteration

KEPT_MOST = 128  # iterations
WITHIN: tuple[SpanPart, ...] = (
    "data", "checkpoint", "disk", "copy", "no_grad", "optimizer", "backward", "forward", "step",
)  # fmt: skip
"""Of two things at once, the one that comes first here is within the other."""
LAST_WORK = {"optimizer", "step"}


class KeptIteration(NamedTuple):
    """An iteration as it was: the `number`th that was read."""

    number: int
    begin: int
    end: int
    spans: list[SeenSpan]


class KeptIterations:
    """Keeps some iterations in bounded memory: of very many, every second, fourth ..."""

    def __init__(self) -> None:
        self._kept: list[KeptIteration] = []
        self._every = 1

    def add(self, number: int, unit: Unit) -> None:
        """Take the next iteration. One with too many spans is left out."""
        if not unit.spans or number % self._every:
            return
        self._kept.append(KeptIteration(number, unit.begin, unit.end, unit.spans))
        if len(self._kept) > KEPT_MOST:
            self._every *= 2
            self._kept = [each for each in self._kept if each.number % self._every == 0]

    def typical(self, since: int) -> TypicalIteration | None:
        """Return the middle one, by its time, of those that began since then; None where none was kept."""
        kept = sorted((each for each in self._kept if each.begin >= since), key=lambda each: each.end - each.begin)
        if not kept:
            return None
        middle = kept[len(kept) // 2]
        return TypicalIteration(middle.number, len(kept), middle.end - middle.begin, _laid_out(middle))


def _laid_out(iteration: KeptIteration) -> tuple[IterationSpan, ...]:
    """Return what each stretch was spent on; behind the last work of an iteration is what is outside of its step."""
    begin, end = iteration.begin, iteration.end
    seen = [each for each in iteration.spans if each[1] < end and each[2] > begin]
    edges = sorted({begin, end, *(min(max(at, begin), end) for each in seen for at in each[1:])})
    worked = max((until for part, _, until in seen if part in LAST_WORK), default=end)
    found: list[IterationSpan] = []
    for first, last in pairwise(edges):
        here = {part for part, since, until in seen if since <= first and last <= until}
        part = next((each for each in WITHIN if each in here), "outside" if first >= worked else "unattributed")
        if found and found[-1].part == part:
            found[-1] = IterationSpan(part, found[-1].start_ns, last - begin)
        else:
            found.append(IterationSpan(part, first - begin, last - begin))
    return tuple(found)
