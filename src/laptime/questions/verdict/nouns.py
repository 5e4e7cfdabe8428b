"""The verdict on a change: whether to keep it, why, and what would decide where nothing does yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from math import fsum
from typing import Literal

from laptime.model.process import ProcessRun
from laptime.model.quantities import Factor
from laptime.model.record import Answer, Comparison, QuestionAnswer, Record
from laptime.model.rows import OF_TRAINING
from laptime.questions.verdict.options import VerdictAsk

ERRORS = 0.02  # of the intervals of all looks together, half of it at either end
Word = Literal["KEEP", "DISCARD", "UNDECIDED"]
Judged = Literal["work", "learning"]
Cause = Literal[
    "faster", "not slower", "slower", "no gain", "late gain", "other work", "cheat", "failed", "sandbox", "unproven",
    "busy", "early", "wide", "unconfirmed",
    "learns faster", "learns slower", "learns worse", "trained before", "other network", "one seed", "no loss",
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


# With --session, all verdicts of a loop share one error. Only a change that the first rounds would keep is tested at a
# share of it, in fresh rounds: what is discarded spends nothing. A share is spent before its rounds begin, and comes
# back where they say KEEP: then the change is a gain, or the session has had its one error already.

SESSION_ERROR = 0.01  # that a session keeps anything that makes nothing faster, however many verdicts it has


def share_of_error(number: int) -> float:
    """Return the error of one share. All of them together, of which there is no last one, are `SESSION_ERROR`."""
    return SESSION_ERROR / (number * (number + 1))


@dataclass(frozen=True, slots=True)
class SessionState:
    """How many verdicts have begun, and the numbers of the shares that are spent, or in use by a verdict that runs."""

    name: str
    verdicts: int = 0
    spent: tuple[int, ...] = ()

    @property
    def next_share(self) -> int:
        """The largest share that is left."""
        return next(number for number in count(1) if number not in self.spent)

    def with_verdict(self) -> SessionState:
        return replace(self, verdicts=self.verdicts + 1)

    def without_share(self, number: int) -> SessionState:
        return replace(self, spent=tuple(sorted({*self.spent, number})))

    def with_share(self, number: int) -> SessionState:
        return replace(self, spent=tuple(share for share in self.spent if share != number))


@dataclass(frozen=True, slots=True)
class SessionPart:
    """What one verdict had of its session: its number there, and the `error` of the share that a KEEP is confirmed at.

    `held_s` of the budget are held for that. `chosen` is how the first rounds compare where these would keep the
    candidate, and `is_spent` whether the share was spent, and has not come back.
    """

    name: str
    number: int
    error: float
    held_s: float
    chosen: Comparison | None = None
    is_spent: bool = False


# With --learning, what the work is does not matter: each side is trained from several seeds, and its loss is judged.


@dataclass(frozen=True, slots=True)
class LearningPoint:
    """The loss after these steps, and these seconds of training; None where it is not finite.

    `flag` names what disturbed the leg that ends here, and `seen_s` is how long it took by laptime's own clock, which
    the training's code cannot reach: its weights were written in that time, too.
    """

    steps: int
    train_s: float
    loss: float | None
    flag: str | None = None
    seen_s: float | None = None


@dataclass(frozen=True, slots=True)
class LearningRun:
    """One side, trained from one seed. `order` is its number, and `misfit` why its weights cannot be judged.

    `changed` is what its code replaced of what judges it.
    """

    process: ProcessRun
    seed: int
    order: int
    points: tuple[LearningPoint, ...] = ()
    first_step_ms: float | None = None
    misfit: str = ""
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeedPair:
    """What base and candidate reached from one seed: the lowest `loss` that both reach, and after how many seconds.

    The seconds are None where one of them begins below that loss. `starts` and `ends` are their losses before the first
    step, and after as many seconds as both trained, the base's first. `late_gains` are how much these fell in the last
    third.
    """

    seed: int
    loss: float
    base_s: float | None
    candidate_s: float | None
    starts: tuple[float, float]
    ends: tuple[float, float]
    late_gains: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Learning:
    """What both sides learned, by the loss that the base's network has with their weights, on `items` of the base.

    They are held out from its training, or drawn from its data. `why_no_loss` says why nothing can be judged.
    """

    seeds: int  # that were planned
    items: int = 0
    is_held_out: bool = False
    runs: tuple[LearningRun, ...] = ()
    pairs: tuple[SeedPair, ...] = ()
    why_no_loss: str = ""

    @property
    def seconds(self) -> tuple[list[float | None], list[float | None]]:
        """The base's and the candidate's seconds until the common loss, seed by seed."""
        return [pair.base_s for pair in self.pairs], [pair.candidate_s for pair in self.pairs]


def mean_over_seeds(values: Iterable[float]) -> float:
    found = [*values]
    return fsum(found) / len(found)


@dataclass(frozen=True, slots=True)
class VerdictAnswer(Answer):
    """The verdict, and the comparisons that it is made of: the candidate's, and that of the base's twin in a gate.

    With `learning`, it is a verdict on that alone, and nothing was compared in turns. In a `session`, a candidate that
    was chosen is compared by its fresh rounds alone.
    """

    verdict: Decision | None = None
    comparisons: tuple[Comparison, ...] = ()
    alone: tuple[str, ...] = ()
    learning: Learning | None = None
    session: SessionPart | None = None

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


def learning_of(record: Record) -> Learning | None:
    """Return what was learned, where that was judged and not the work."""
    answer = record.answer
    return answer.learning if isinstance(answer, VerdictAnswer) else None


def session_of(record: Record) -> SessionPart | None:
    """Return what a verdict had of its session, if it is of one."""
    answer = record.answer
    return answer.session if isinstance(answer, VerdictAnswer) else None


@dataclass(frozen=True, slots=True)
class LearningFields:
    """How fast a candidate learns, for programs: seconds of training until the same loss, means over the seeds.

    `times_as_fast` is the base's seconds over the candidate's, from `low` to `high`. `loss_on` is "held-out" or "data".
    """

    loss: float
    base_s: float
    candidate_s: float
    times_as_fast: float
    low: float | None
    high: float | None
    base_end_loss: float
    candidate_end_loss: float
    seeds: int
    loss_on: Literal["held-out", "data"]
    items: int


@dataclass(frozen=True, slots=True)
class SessionFields:
    """The number of a verdict in its session, and the `error` at which its KEEP is confirmed; whether that `is_spent`.

    `chosen_ratio` is of the `chosen_rounds` that would keep the candidate; null where none would. The ratio of the
    verdict is then that of fresh rounds.
    """

    name: str
    number: int
    error: float
    is_spent: bool
    held_s: float
    chosen_ratio: float | None
    chosen_rounds: int | None


@dataclass(frozen=True, slots=True)
class VerdictFields:
    """The verdict on a change, for programs. The ratio is the candidate's speed over the base's, from `low` to `high`.

    These are null where there is no interval, and where `judged` is "learning": then `learning` has other figures, and
    the work may differ. `cheat` names how the work is another. A new field may be added; none changes its meaning.
    """

    format: int
    judged: Judged
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
    learning: LearningFields | None
    session: SessionFields | None


def verdict_fields(record: Record) -> VerdictFields:
    """Return the verdict as a program reads it (docs/verdict.schema.json)."""
    verdict, learning, session = verdict_of(record), learning_of(record), session_of(record)
    factor = verdict.factor if learning is None else None
    ratio = None if factor is None else factor.ratio
    ends = None if factor is None else factor.ends
    low, high = ends or (None, None)
    errors = ERRORS * record.error_times
    return VerdictFields(
        format=FORMAT,
        judged="work" if learning is None else "learning",
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
        confidence=1 - (errors if session is None or session.chosen is None else 2 * session.error),
        rounds=min((comparison.pairs for comparison in record.answer.comparisons), default=0),
        seconds=round(record.elapsed_s, 1),
        record=record.id,
        laptime=record.tool["version"],
        learning=None if learning is None else learning_fields(learning, verdict.factor),
        session=None if session is None else session_fields(session),
    )


def session_fields(session: SessionPart) -> SessionFields:
    chosen = session.chosen
    return SessionFields(
        name=session.name,
        number=session.number,
        error=session.error,
        is_spent=session.is_spent,
        held_s=session.held_s,
        chosen_ratio=None if chosen is None else chosen.ratio,
        chosen_rounds=None if chosen is None else chosen.pairs,
    )


def learning_fields(learning: Learning, factor: Factor | None) -> LearningFields | None:
    """Return what was learned as a program reads it; None where no seed has a pair that can be compared."""
    pairs = learning.pairs
    base_s, candidate_s = ([time for time in times if time is not None] for times in learning.seconds)
    if not (pairs and base_s and candidate_s) or factor is None:
        return None
    low, high = factor.ends or (None, None)
    return LearningFields(
        loss=mean_over_seeds(pair.loss for pair in pairs),
        base_s=mean_over_seeds(base_s),
        candidate_s=mean_over_seeds(candidate_s),
        times_as_fast=factor.ratio,
        low=low,
        high=high,
        base_end_loss=mean_over_seeds(pair.ends[0] for pair in pairs),
        candidate_end_loss=mean_over_seeds(pair.ends[1] for pair in pairs),
        seeds=len(pairs),
        loss_on="held-out" if learning.is_held_out else "data",
        items=learning.items,
    )


PART = QuestionAnswer(VerdictAnswer)
