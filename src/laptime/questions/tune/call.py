"""`laptime.tune`: the best settings of each lane, from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laptime.library.asking import LaneNames, What, make_ask, with_options
from laptime.library.calls import answer
from laptime.library.results import QuestionCall, Result
from laptime.model.ask import DEFAULT_WORKLOAD
from laptime.model.errors import RecordError
from laptime.questions.tune.nouns import TuneAnswer, TunedLane, Tuning


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult(Result):
    """The best settings of each lane."""

    @property
    def verdict(self) -> str:
        """What the best settings gain, in a sentence for each lane."""
        return self._tuning.says

    @property
    def tuned(self) -> tuple[TunedLane, ...]:
        """Each lane's winner, its gain on fresh heats, and what each setting alone is worth."""
        return self._tuning.lanes

    @property
    def _tuning(self) -> Tuning:
        found = self.record.answer
        if not isinstance(found, TuneAnswer) or found.tuning is None:
            raise RecordError(f"there is no verdict: the search is {self.status}", "Call laptime.tune again.")
        return found.tuning


@with_options("tune")
def tune(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> TuneResult:
    """Search for the best settings of each lane, and race the winner again on fresh heats.

    `allow` names what may change besides: "precision", "batch", "learning". `frameworks` are those to tune on, or
    "all". With `laps` the lane and its winner are then trained whole, and `.tuned[0].learned` has their loss and
    accuracy. `aim` is what to minimise: "time", "energy" or "money"; `prices` are those of an hour, by device.
    `.verdict` is a sentence, `.tuned` has each lane's winner and what each setting is worth; of code of your own, a
    script too, `.tuned[0].changes` are diffs. For the other arguments see `race`.
    """
    return TuneResult(*answer("tune", make_ask(what, lanes, "tune", **given), progress=progress))


PART = QuestionCall(tune, TuneResult)
