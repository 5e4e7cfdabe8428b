"""Signature and experiments -> how a cause stands: an experiment that moved the time proves, a figure rules out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.words import between, did
from laptime.model.missing import Missing
from laptime.model.why import Factor, Standing, Verdict

NOT_KNOWN = Missing("not measured")
NO_ROOM = "no experiment was made"
ERRORS_OF_TWO = 12.7  # standard errors that the 95 % interval of two pairs reaches to either side


@dataclass(frozen=True, slots=True)
class Signature:
    """What a lane's own figures say of a cause: that it is there, that it is not, or nothing (None).

    `gain` is what its removal would gain, by these figures alone.
    """

    is_there: bool | None
    says: str
    evidence: dict[str, Any] = field(default_factory=dict)
    gain: float | Missing = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class Tried:
    name: str
    factor: Factor


@dataclass(frozen=True, slots=True)
class Question:
    """One cause under judgement: a gain up to `least`, a factor, is none."""

    case: Case
    cause: str
    sign: Signature
    tried: tuple[Tried, ...]
    least: float

    @property
    def best(self) -> Tried | None:
        return max(self.tried, key=lambda each: each.factor.ratio, default=None)

    def answer(self, standing: Standing, best: Tried | None, gain: float | Missing = NOT_KNOWN) -> Verdict:
        says = self.sign.says if best is None else _with(self.sign.says, _what_came(best))
        return Verdict(self.cause, standing, says, _evidence(self), _lanes(self), gain)


def weigh(
    case: Case, cause: str, sign: Signature, experiments: Sequence[str] = (), least: float | None = None
) -> Verdict:
    """Judge a cause; a gain up to `least` (a factor) is none. What contradicts its signature is likely at most."""
    bound = 1 + case.margin if least is None else least
    tried = tuple(Tried(name, factor) for name in experiments if (factor := case.factor(name)) is not None)
    asked = Question(case, cause, sign, tried, bound)
    moved = [each for each in tried if case.moved(each.name, bound)]
    if moved:
        best = max(moved, key=lambda each: each.factor.ratio)
        return asked.answer("likely" if sign.is_there is False else "proven", best, best.factor.ratio)
    if tried and all(case.stays(each.name, bound) for each in tried):
        return asked.answer("ruled out", asked.best)
    return _undecided(asked, experiments)


def _undecided(asked: Question, experiments: Sequence[str]) -> Verdict:
    """Go by the signature, where no experiment settles it; without one, say what is lacking."""
    sign, best = asked.sign, asked.best
    if sign.is_there is not None:
        return asked.answer("likely" if sign.is_there else "ruled out", best, sign.gain if sign.is_there else NOT_KNOWN)
    if best is None:
        return _untried(asked, experiments)
    if best.factor.ratio > asked.least and _stands_out(best.factor):
        return asked.answer("likely", best, best.factor.ratio)
    says = _with(sign.says, f"too few heats to tell: {_what_came(best)}")
    return Verdict(asked.cause, "not tested", says, _evidence(asked), _lanes(asked))


def _stands_out(factor: Factor) -> bool:
    """Tell whether a gain is larger than what its heats vary by; without an interval nobody knows, and it may be."""
    if isinstance(factor.low, Missing) or isinstance(factor.high, Missing):
        return True
    return factor.low > 0 and log(factor.ratio) >= log(factor.high / factor.low) / 2 / ERRORS_OF_TWO


def _untried(asked: Question, experiments: Sequence[str]) -> Verdict:
    """Say why there was no experiment: none can be made here, it failed, or the budget had no room."""
    trials = [asked.case.trials[name] for name in experiments if name in asked.case.trials]
    absent = [each.experiment.absent.missing for each in trials if each.experiment.absent is not None]
    if trials and len(absent) == len(trials):
        says = _with(asked.sign.says, absent[0])
        return Verdict(asked.cause, "not testable here", says, dict(asked.sign.evidence))
    reasons = [each.reason for each in trials if each.reason and each.experiment.absent is None]
    says = _with(asked.sign.says, reasons[0] if reasons else NO_ROOM)
    return Verdict(asked.cause, "not tested", says, dict(asked.sign.evidence))


def _what_came(tried: Tried) -> str:
    return f"{did(tried.name)} it is {between(tried.factor)} as fast"


def _with(first: str, then: str) -> str:
    return "; ".join(words for words in (first, then) if words)


def _evidence(asked: Question) -> dict[str, Any]:
    """Keep the figures: those of the signature, and every experiment's factor with its interval."""
    factors = {each.name: _ends(each.factor) for each in asked.tried}
    return {**asked.sign.evidence, **({"experiments": factors} if factors else {})}


def _ends(factor: Factor) -> list[float | None]:
    ends = (None if isinstance(end, Missing) else end for end in (factor.low, factor.high))
    return [factor.ratio, *ends]


def _lanes(asked: Question) -> tuple[str, ...]:
    named = (asked.case.trials[each.name].lane for each in asked.tried)
    return tuple(dict.fromkeys(name for name in named if name is not None))
