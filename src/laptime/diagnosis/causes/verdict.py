"""The verdict in one sentence: the proven cause that costs the most, then the next; or that none was found."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.device import KERNELS, SHAPES
from laptime.diagnosis.causes.host import LIMITED, ODDITIES
from laptime.diagnosis.causes.placement import NOT_ON_DEVICE
from laptime.diagnosis.causes.stages import COPY, INPUT, LITTLE_WORK, OUTSIDE, SEVERAL, WAITS
from laptime.diagnosis.causes.state import CLOCKS, MEMORY_FULL, SHARED
from laptime.diagnosis.causes.trust import MEASURING_ERROR
from laptime.diagnosis.causes.words import share, times
from laptime.diagnosis.host import THROTTLED_SHARE
from laptime.model.missing import Missing
from laptime.model.why import Verdict

NAMED_MOST = 2
SENTENCES = {
    MEASURING_ERROR: "its first steps are not its pace",
    NOT_ON_DEVICE: "a device that is here is not used",
    MEMORY_FULL: "memory that is nearly full holds this training back",
    SHARED: "other processes take their share of the device",
    CLOCKS: "lowered clocks hold this training back",
    OUTSIDE: "what lies between the steps takes the time",
    INPUT: "the loader bounds this training",
    COPY: "the copy to the device bounds this training",
    WAITS: "the host waits for values of the device in every step",
    LITTLE_WORK: "a step has too little work",
    SEVERAL: "traffic between devices bounds this training",
    LIMITED: "threads that the processor has no cores for hold this training back",
    SHAPES: "batches of changing shapes are prepared for anew",
    KERNELS: "its kernels are slower than this device allows",
}
OF_ODDITIES = {
    "denormal numbers": "denormal numbers slow the processor down",
    "memory given back": "memory is given back to the system and fetched again in every step",
    "one thread": "one thread works while other cores are idle",
}


def sum_up(case: Case, verdicts: Sequence[Verdict]) -> tuple[str, tuple[str, ...]]:
    """Give the verdict in a sentence or two, and the causes that are named first, in their order."""
    standing = sorted((each for each in verdicts if each.standing in {"proven", "likely"}), key=_weight)
    named = standing[:NAMED_MOST]
    if not named:
        return f"{_subject(case)}{_nothing_found(case, verdicts)}", ()
    first, *others = named
    says = f"{_subject(case)}{_sentence(first)} ({first.standing}).{_pace(case, first)}"
    says += "".join(f" Then: {_sentence(each)} ({each.standing}{_by(each)})." for each in others)
    return says, tuple(each.cause for each in named)


def _weight(verdict: Verdict) -> tuple[int, int, float]:
    """Put first who is in the wrong place, or mismeasured; then what is proven, and of that what gains most."""
    gain = 1.0 if isinstance(verdict.gain, Missing) else verdict.gain
    proven = 0 if verdict.standing == "proven" else 1
    if verdict.cause == NOT_ON_DEVICE or (verdict.cause == MEASURING_ERROR and not proven):
        return 0, proven, 0.0
    return 1, proven, -gain


def _sentence(verdict: Verdict) -> str:
    if verdict.cause == ODDITIES:
        return OF_ODDITIES.get(str(verdict.evidence.get("oddity")), "the processor works oddly")
    if verdict.cause == NOT_ON_DEVICE and verdict.evidence.get("unseen"):
        return str(verdict.evidence["unseen"][0]).rstrip(".")
    if verdict.cause == LIMITED and (verdict.evidence.get("throttled_share") or 0.0) > THROTTLED_SHARE:
        return "the container's quota holds this training back"
    return SENTENCES[verdict.cause]


def _subject(case: Case) -> str:
    lane = case.lane.name.removesuffix("/as-written")
    return f"{case.what} on {lane}: " if case.what else f"{lane}: "


def _by(verdict: Verdict) -> str:
    return "" if isinstance(verdict.gain, Missing) else f", {times(verdict.gain)}"


def _pace(case: Case, verdict: Verdict) -> str:
    """Say how fast it is, and how fast it would be without the cause."""
    rate = case.lane.items_per_s
    if rate is None:
        return ""
    if isinstance(verdict.gain, Missing) or verdict.gain <= 1:
        return f" {_number(rate.median)} {case.items}/s."
    return f" {_number(rate.median)} {case.items}/s of a possible {_number(rate.median * verdict.gain)}."


def _nothing_found(case: Case, verdicts: Sequence[Verdict]) -> str:
    """Say by what it is bound then, where the device's limits were measured."""
    tried = [trial for trial in case.trials.values() if trial.factor is not None and trial.experiment.is_remedy]
    untested = sum(each.standing == "not tested" for each in verdicts)
    start = "nothing that was tried makes it faster" if tried else "nothing points at a cause, and no remedy was tried"
    rate = case.lane.items_per_s
    pace = "" if rate is None else f" {_number(rate.median)} {case.items}/s."
    limit = case.lane.roofline
    if limit is not None:
        of = "arithmetic" if limit.binds == "products" else "memory"
        bound = f": it is bound by its device's {of}, at {share(limit.share)} of what that can do."
    else:
        bound = "; how near it comes to what its device can do is not known."
    left = f" {untested} cause{'s' * (untested != 1)} could not be tested." if untested else ""
    return f"{start}{bound}{pace}{left}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
