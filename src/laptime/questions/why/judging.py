"""Signature and experiments -> the verdict on one cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from laptime.analysis.aggregate import ALPHA, bounds
from laptime.model.digits import times
from laptime.model.missing import Missing
from laptime.questions.why.facts import WhyFacts
from laptime.questions.why.nouns import Factor, Standing, Verdict
from laptime.stats import log_mean_interval

NOT_KNOWN = Missing("not measured")
NO_EXPERIMENT = "no experiment was made"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a lane's own figures say about a cause: that it exists, that it does not, or nothing (None).

    `gain` is what removing it would gain, by these figures alone.
    """

    is_there: bool | None
    says: str
    evidence: dict[str, Any] = field(default_factory=dict)
    gain: float | Missing = NOT_KNOWN


def judge(
    facts: WhyFacts, cause: str, sign: Signature, experiments: Sequence[str] = (), least: float | None = None
) -> Verdict:
    """Judge a cause by its signature and by the experiments of these names. Only a factor above `least` is a gain.

    An experiment that changed the time proves the cause; one that contradicts the signature makes it at most likely.
    """
    bound = 1 + facts.margin if least is None else least
    tried = {name: factor for name in experiments if (factor := facts.factor(name)) is not None}
    moved = {name: factor for name, factor in tried.items() if facts.moved(name, bound)}
    if not tried:
        return _untried(facts, cause, sign, experiments)
    name, best = max((moved or tried).items(), key=lambda pair: pair[1].ratio)
    trial = facts.trials[name]
    came = f"{trial.experiment.did or name} it is {between(best)} as fast"
    came += "" if trial.since is None else f" from step {trial.since} on"
    standing: Standing
    gain: float | Missing = NOT_KNOWN
    if moved:
        standing, gain = "likely" if sign.is_there is False else "proven", best.ratio
    elif all(facts.stays(name, bound) for name in tried):
        standing = "ruled out"
    elif sign.is_there is not None:
        standing, gain = ("likely", sign.gain) if sign.is_there else ("ruled out", NOT_KNOWN)
    elif best.ratio > bound and _exceeds_noise(best):
        standing, gain = "likely", best.ratio
    else:
        standing, came = "not tested", f"too few heats to tell: {came}"
    evidence = {**sign.evidence, "experiments": {name: figures(factor) for name, factor in tried.items()}}
    lanes = (facts.trials[name].lane for name in tried)
    return Verdict(cause, standing, _joined(sign.says, came), evidence, tuple(dict.fromkeys(filter(None, lanes))), gain)


def _untried(facts: WhyFacts, cause: str, sign: Signature, experiments: Sequence[str]) -> Verdict:
    """Judge by the signature alone. If it says nothing, report why there was no experiment."""
    if sign.is_there is not None:
        standing: Standing = "likely" if sign.is_there else "ruled out"
        return Verdict(cause, standing, sign.says, dict(sign.evidence), gain=sign.gain if sign.is_there else NOT_KNOWN)
    trials = [facts.trials[name] for name in experiments if name in facts.trials]
    absent = [each.experiment.absent.missing for each in trials if each.experiment.absent is not None]
    if trials and len(absent) == len(trials):
        return Verdict(cause, "not testable here", _joined(sign.says, absent[0]), dict(sign.evidence))
    reasons = [each.reason for each in trials if each.reason and each.experiment.absent is None]
    says = _joined(sign.says, reasons[0] if reasons else NO_EXPERIMENT)
    return Verdict(cause, "not tested", says, dict(sign.evidence))


def _exceeds_noise(factor: Factor) -> bool:
    """Whether a gain is larger than the spread of its heats: an interval that holds 1 says nothing. None is unknown."""
    return isinstance(factor.low, Missing) or factor.low > 1


def _joined(first: str, then: str) -> str:
    return "; ".join(words for words in (first, then) if words)


def mean_factor(ratios: Sequence[float]) -> Factor:
    """Return the mean of one ratio per heat, with its interval."""
    interval = log_mean_interval(ratios, ALPHA)
    return Factor(interval.estimate, *bounds(interval))


def figures(factor: Factor) -> list[float | None]:
    """Return a factor and its interval, as evidence."""
    ends = (None if isinstance(end, Missing) else end for end in (factor.low, factor.high))
    return [factor.ratio, *ends]


def between(factor: Factor) -> str:
    """Return a factor and its interval in words."""
    if isinstance(factor.low, Missing) or isinstance(factor.high, Missing):
        return f"{times(factor.ratio)} (no interval)"
    return f"{times(factor.ratio)} ({times(factor.low)[:-1]} to {times(factor.high)[:-1]})"
