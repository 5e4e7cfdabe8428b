"""Whether the figures can be trusted: is it the measuring that is wrong, and is the machine quiet enough to tell."""

from __future__ import annotations

from math import sqrt
from typing import Any

from laptime.analysis.across import bounds
from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.weigh import Signature, weigh
from laptime.diagnosis.causes.words import between, counted, share, taken, times
from laptime.diagnosis.steps import slow_starts
from laptime.model.missing import Missing
from laptime.model.why import Factor, Verdict
from laptime.stats import log_mean_interval

MEASURING_ERROR = "measuring error"
SLOW_START = 1.5
NAIVE_STEPS = 100  # so many are timed at a glance, the first among them
NAIVE = 1.5
WIDEST = 0.25
ALPHA = 0.05
SQRT_2 = sqrt(2)


def measuring_error(case: Case) -> Verdict:
    """Steps that are slow at first, or one that compiles, are counted in by who times from the start.

    The experiment is laptime's own protocol, which leaves them out: each heat has both figures.
    """
    starts = slow_starts(case.lane)
    parity = case.lane.parity
    if parity.status == "differs":
        says = f"this lane does other work than its reference: {parity.reason or 'its proof failed'}"
        return Verdict(MEASURING_ERROR, "likely", says, {"worst": parity.worst})
    if not starts:
        return Verdict(MEASURING_ERROR, "not tested", "no heat of this lane has windows that could be compared")
    interval = log_mean_interval(starts, ALPHA)
    start = Factor(interval.estimate, *bounds(interval))
    told: dict[str, Any] = {"first_window": [start.ratio, *_ends(start)], "first_step_ms": case.lane.first_step_ms}
    says = f"in the first window a step takes {between(start)} what it takes later"
    if not isinstance(start.low, Missing) and start.low > SLOW_START:
        return Verdict(MEASURING_ERROR, "proven", f"{says}; laptime counts from where it is steady", told)
    return weigh(case, MEASURING_ERROR, _first_step(case, start, says, told))


def _first_step(case: Case, start: Factor, says: str, told: dict[str, Any]) -> Signature:
    first, step = case.lane.first_step_ms, case.step_ms
    if start.ratio >= SLOW_START:
        return Signature(True, f"{says}; laptime counts from where it is steady", told)
    if first is None or not step:
        return Signature(False, f"every window is fenced at both ends, and {says}", told)
    naive = (first + (NAIVE_STEPS - 1) * step) / (NAIVE_STEPS * step)
    told["naive"] = naive
    long = f"the first step takes {taken(first)}, {counted(first / step)} times a later one"
    if naive >= NAIVE:
        return Signature(True, f"{long}: who counts it in measures {times(naive)} the time; laptime does not", told)
    return Signature(False, f"every window is fenced at both ends, {says}, and {long} and in no figure", told)


def find_distrust(case: Case) -> str | None:
    """Say why the noise is too great to tell anything, if it is."""
    step, steps = case.lane.step_ms, [heat.step_ms for heat in case.lane.heats if heat.step_ms]
    if step is None or not steps:
        return f"the lane as it is did not finish: {case.lane.reason or 'no heat of it gave a figure'}"
    apart = max(steps) / min(steps) - 1
    if not isinstance(step.low, Missing) and not isinstance(step.high, Missing):
        half = (step.high - step.low) / 2 / step.median
        if half > WIDEST and apart > WIDEST:
            return (
                f"the step of the lane as it is varies by {share(apart)} from heat to heat, so that it is known to "
                f"\N{PLUS-MINUS SIGN}{share(half)} only: something else works on this machine"
            )
    factors = [trial.factor for trial in case.trials.values() if trial.factor is not None]
    known = [each for each in factors if not isinstance(each.low, Missing)]
    if len(known) > 1 and all(_spans_all(each) for each in known):
        return f"each of {len(known)} experiments may be {times(SQRT_2)} faster or slower: the noise hides every gain"
    return None


def _spans_all(factor: Factor) -> bool:
    low, high = _ends(factor)
    return low is not None and high is not None and low < 1 / SQRT_2 and high > SQRT_2


def _ends(factor: Factor) -> tuple[float | None, float | None]:
    low, high = (None if isinstance(end, Missing) else end for end in (factor.low, factor.high))
    return low, high
