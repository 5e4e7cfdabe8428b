"""`laptime.scale`: one training on several devices, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laptime.library.asking import LaneNames, What, make_ask, with_options
from laptime.library.calls import answer
from laptime.library.results import QuestionCall, Result
from laptime.model.ask import DEFAULT_WORKLOAD
from laptime.model.errors import RecordError
from laptime.questions.scale.nouns import ScaleAnswer, ScaleCurve, Scaling


@dataclass(frozen=True, slots=True, repr=False)
class ScaleResult(Result):
    """What several devices bring."""

    @property
    def verdict(self) -> str:
        """What the largest count brings, and what is lost, in a sentence."""
        return self._scaling.says

    @property
    def curves(self) -> tuple[ScaleCurve, ...]:
        """The speed-ups of each lane over the counts, what is lost, and what more devices would bring."""
        return self._scaling.curves

    @property
    def _scaling(self) -> Scaling:
        found = self.record.answer
        if not isinstance(found, ScaleAnswer) or found.scaling is None:
            raise RecordError(f"there is no verdict: the race is {self.status}", "Call laptime.scale again.")
        return found.scaling


@with_options("scale")
def scale(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> ScaleResult:
    """Race one training on 1, 2, 4 `devices`: what they bring, and where the time of a step goes.

    Each device has the batch as written (`weak`, the default), or all share it out (`strong`), or `both` are raced.
    `.verdict` is a sentence, `.curves` has the figures. For the other arguments see `race`.
    """
    return ScaleResult(*answer("scale", make_ask(what, lanes, "scale", **given), progress=progress))


PART = QuestionCall(scale, ScaleResult)
