"""The verdict on a change: whether to keep it, why, and what would decide where nothing does yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from laptime.model.interval import Factor
from laptime.model.process import OF_TRAINING
from laptime.model.record import Answer, Comparison, Record
from laptime.questions.verdict.options import VerdictAsk

ERRORS = 0.02  # of the intervals of all looks together, half of it at either end
Word = Literal["KEEP", "DISCARD", "UNDECIDED"]
Cause = Literal[
    "faster", "not slower", "slower", "no gain", "other work", "failed", "unproven", "busy", "early", "wide"
]
"""Why, for a program: what the sentence says in words."""


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """`needs` is what would decide, where the word is UNDECIDED. The factor is the candidate's, against the base.

    `twin` is that of the base against itself, which guards a gate: what differs there is the machine's doing.
    """

    word: Word
    cause: Cause
    says: str
    needs: str = ""
    factor: Factor | None = None
    twin: Factor | None = None


@dataclass(frozen=True, slots=True)
class VerdictAnswer(Answer):
    """The verdict, and the comparisons that it is made of: the candidate's, and that of the base's twin in a gate."""

    verdict: ChangeVerdict | None = None
    comparisons: tuple[Comparison, ...] = ()
    alone: tuple[str, ...] = ()

    @property
    def doubt(self) -> str | None:
        """An undecided verdict says itself what is missing."""
        return None

    @property
    def is_concluded(self) -> bool:
        return self.verdict is not None


# The verdict as a program reads it.

FORMAT = 1  # of the fields: a new one may be added, and none of these changes its meaning


def verdict_of(record: Record) -> ChangeVerdict:
    """Return the verdict of a record that has one."""
    answer = record.answer
    assert isinstance(answer, VerdictAnswer)
    assert answer.verdict is not None
    return answer.verdict


def verdict_fields(record: Record) -> dict[str, Any]:
    """Return the verdict as a program reads it (docs/verdict.schema.json)."""
    verdict, (base, candidate) = verdict_of(record), (record.workload, record.others[0].subject)
    low, high = (None, None) if verdict.factor is None else verdict.factor.ends or (None, None)
    pairs = [each.pairs for each in record.answer.comparisons]
    return {
        "format": FORMAT,
        "verdict": verdict.word,
        "cause": verdict.cause,
        "reason": verdict.says,
        "needs": verdict.needs,
        "base": record.ask.what,
        "candidate": record.others[0].what,
        "lane": next((lane.name.partition(OF_TRAINING)[0] for lane in record.lanes), ""),
        "gain_wanted": (record.ask.verdict or VerdictAsk()).gain,
        "ratio": None if verdict.factor is None else verdict.factor.ratio,
        "low": low,
        "high": high,
        "confidence": 1 - ERRORS,
        "rounds": min(pairs, default=0),
        "seconds": round(record.elapsed_s, 1),
        "record": record.id,
        "trainings": [base.name, candidate.name],
        "laptime": record.tool["version"],
    }
