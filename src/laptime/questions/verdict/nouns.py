"""The verdict on a change: whether to keep it, why, and what would decide where nothing does yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from laptime.model.quantities import Factor
from laptime.model.record import Answer, Comparison, Record
from laptime.model.rows import OF_TRAINING
from laptime.questions.verdict.options import VerdictAsk

ERRORS = 0.02  # of the intervals of all looks together, half of it at either end
Word = Literal["KEEP", "DISCARD", "UNDECIDED"]
Cause = Literal[
    "faster", "not slower", "slower", "no gain", "late gain", "other work", "cheat", "failed", "unproven", "busy",
    "early", "wide",
]  # fmt: skip
"""Why, for a program: what the sentence says in words."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`needs` is what would decide, where the word is UNDECIDED. The factor is the candidate's, against the base.

    `cheat` names what made the candidate seem faster (`questions.verdict.cheats`), where the work is another.

    `twin` is that of the base against itself, which guards a gate: what differs there is the machine's doing.
    """

    word: Word
    cause: Cause
    says: str
    needs: str = ""
    factor: Factor | None = None
    twin: Factor | None = None
    cheat: str | None = None


@dataclass(frozen=True, slots=True)
class VerdictAnswer(Answer):
    """The verdict, and the comparisons that it is made of: the candidate's, and that of the base's twin in a gate."""

    verdict: Decision | None = None
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

FORMAT = 1
EXIT_OF: dict[Word, str] = {"KEEP": "ANSWERED", "DISCARD": "NO", "UNDECIDED": "UNFINISHED"}  # rows of `ExitCode`


def verdict_of(record: Record) -> Decision:
    """Return the verdict of a record that has one."""
    answer = record.answer
    assert isinstance(answer, VerdictAnswer)
    assert answer.verdict is not None
    return answer.verdict


@dataclass(frozen=True, slots=True)
class VerdictFields:
    """The verdict on a change, for programs. The ratio is the candidate's speed over the base's, from `low` to `high`.

    These are null where there is no interval. `cheat` names how the work is another. A new field may be added;
    none changes its meaning.
    """

    format: int
    verdict: Word
    cause: Cause
    cheat: str | None
    reason: str
    needs: str
    base: str
    candidate: str
    lane: str
    gain_wanted: float
    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    rounds: int
    seconds: float
    record: str
    laptime: str


def verdict_fields(record: Record) -> VerdictFields:
    """Return the verdict as a program reads it (docs/verdict.schema.json)."""
    verdict = verdict_of(record)
    ratio, ends = (None, None) if verdict.factor is None else (verdict.factor.ratio, verdict.factor.ends)
    low, high = ends or (None, None)
    return VerdictFields(
        format=FORMAT,
        verdict=verdict.word,
        cause=verdict.cause,
        cheat=verdict.cheat,
        reason=verdict.says,
        needs=verdict.needs,
        base=record.ask.what,
        candidate=record.others[0].what,
        lane=next((lane.name.partition(OF_TRAINING)[0] for lane in record.lanes), ""),
        gain_wanted=(record.ask.verdict or VerdictAsk()).gain,
        ratio=ratio,
        low=low,
        high=high,
        confidence=1 - ERRORS,
        rounds=min((comparison.pairs for comparison in record.answer.comparisons), default=0),
        seconds=round(record.elapsed_s, 1),
        record=record.id,
        laptime=record.tool["version"],
    )
