"""`laptime.verdict`: is a change faster, and still the same training? From Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from laptime.library.asking import OneTraining, make_ask, with_options
from laptime.library.calls import answer
from laptime.library.results import QuestionCall, Result
from laptime.model.errors import RecordError
from laptime.questions.verdict.nouns import Decision, VerdictAnswer


@dataclass(frozen=True, slots=True, repr=False)
class VerdictResult(Result):
    """The verdict on a change."""

    @property
    def word(self) -> str:
        """KEEP, DISCARD or UNDECIDED."""
        return self._verdict.word

    @property
    def why(self) -> str:
        """Why, in a sentence."""
        return self._verdict.says

    @property
    def needs(self) -> str:
        """What would decide, where the word is UNDECIDED; else nothing."""
        return self._verdict.needs

    @property
    def _verdict(self) -> Decision:
        found = self.record.answer
        if not isinstance(found, VerdictAnswer) or found.verdict is None:
            raise RecordError(f"there is no verdict: the race is {self.status}", "Call laptime.verdict again.")
        return found.verdict


@with_options("verdict")
def verdict(
    base: OneTraining, candidate: OneTraining, lane: str = "", *, progress: bool | None = None, **given: Any
) -> VerdictResult:
    """Say whether `candidate` is faster than `base` by `gain`, and still the same training: `.word`, `.why`, `.needs`.

    Both are functions, or named as on the command line: "git:main:train.py:training". With `gate`, the question is
    whether it is slower. With `learning`, the work may differ, and the loss reached per second is judged, from several
    seeds. All verdicts of a `session` share one error, and fresh rounds confirm a KEEP. With no lane it is the card if
    there is one, else the processor. For the others see `race`.
    """
    ask = make_ask([base, candidate], lane or (), "verdict", **given)
    return VerdictResult(*answer("verdict", ask, progress=progress))


PART = QuestionCall(verdict, VerdictResult)
