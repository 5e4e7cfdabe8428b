"""`laptime.sweep`: lanes over a range of values, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laptime.library.asking import LaneNames, What, make_ask, with_options
from laptime.library.calls import answer
from laptime.library.results import QuestionCall, Result
from laptime.model.ask import DEFAULT_WORKLOAD
from laptime.model.errors import RecordError
from laptime.questions.sweep.nouns import Crossover, Sweep, SweepAnswer, SweepCell, SweepCurve


@dataclass(frozen=True, slots=True, repr=False)
class SweepResult(Result):
    """Lanes over a range of batches, threads or workers."""

    @property
    def verdict(self) -> str:
        """Where one lane overtakes another, or which is the fastest where."""
        return self._sweep.says

    @property
    def cells(self) -> tuple[SweepCell, ...]:
        """Each lane at each value: its step, its rate, its memory, or why there is none."""
        return self._sweep.cells

    @property
    def curves(self) -> tuple[SweepCurve, ...]:
        """Each lane's best value, knee, largest batch, and what an empty step takes."""
        return self._sweep.curves

    @property
    def crossovers(self) -> tuple[Crossover, ...]:
        return self._sweep.crossovers

    @property
    def _sweep(self) -> Sweep:
        found = self.record.answer
        if not isinstance(found, SweepAnswer) or found.sweep is None:
            raise RecordError(f"there is no verdict: the sweep is {self.status}", "Call laptime.sweep again.")
        return found.sweep


@with_options("sweep")
def sweep(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> SweepResult:
    """Race the lanes at each value of one axis or two: `"1..1024"` doubles, `[8, 16, 24]` is a list.

    One number of `items` is for all cells, several are an axis. `.verdict` is a sentence, `.curves`, `.crossovers` and
    `.cells` have the figures. For other arguments see `race`.
    """
    return SweepResult(*answer("sweep", make_ask(what, lanes, "sweep", **given), progress=progress))


PART = QuestionCall(sweep, SweepResult)
