"""`laptime.why`: why a lane is as fast as it is, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laptime.library.asking import LaneNames, What, make_ask, with_options
from laptime.library.calls import answer
from laptime.library.results import QuestionCall, Result
from laptime.model.ask import DEFAULT_WORKLOAD
from laptime.model.errors import RecordError
from laptime.questions.why.nouns import Remedy, Why, WhyAnswer


@dataclass(frozen=True, slots=True, repr=False)
class WhyResult(Result):
    """Why a lane is as fast as it is."""

    @property
    def verdict(self) -> str:
        """What limits the lane, in a sentence."""
        return self._why.says

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What may be changed, what that gains, and the line of code; the recommended first."""
        return tuple(sorted(self._why.remedies, key=lambda remedy: not remedy.recommended))

    @property
    def _why(self) -> Why:
        found = self.record.answer
        if not isinstance(found, WhyAnswer) or found.why is None:
            raise RecordError(f"there is no verdict: the search is {self.status}", "Call laptime.why again.")
        return found.why


@with_options("why")
def why(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> WhyResult:
    """Find what limits a lane, and what each remedy gains: `.verdict`, `.remedies`. For the arguments see `race`.

    With no lane it is the card if there is one, else the processor, as written.
    """
    return WhyResult(*answer("why", make_ask(what, lanes, "why", **given), progress=progress))


PART = QuestionCall(why, WhyResult)
