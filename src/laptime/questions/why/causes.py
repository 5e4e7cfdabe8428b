"""The table of causes: the rule that judges each and its words in the verdict; and the verdict as a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from laptime.analysis.step_states import find_lane_state
from laptime.diagnosis.findings import describe_state
from laptime.model.missing import Missing
from laptime.model.quantities import brief, count, percent, times
from laptime.model.symptoms import TimedPlace
from laptime.questions.why import compute_causes, step_causes
from laptime.questions.why.experiments import LEARNING
from laptime.questions.why.facts import WhyFacts, places_of
from laptime.questions.why.nouns import Cause, Standing, Verdict
from laptime.questions.why.step_causes import TIMED, WORTH

# Causes in the code of a script, next to its training: evaluation, checkpoints, waits for the disk; with their lines.
#
# The script's own agent timed them within its steps, so each has a gain without an experiment: it is what would be
# left.

LINES_MOST = 3
NAMED = 0.2  # of the time of the line that takes longest
LEAST_LEFT = 0.02  # of a step


def is_script(facts: WhyFacts) -> bool:
    """Whether the lane is a script whose lines were timed."""
    return facts.symptoms is not None and places_of(facts.symptoms) is not None


def timed_places(cause: Cause) -> Callable[[WhyFacts], Verdict]:
    """Return the rule for what the script does next to its training."""

    def judge(facts: WhyFacts) -> Verdict:
        symptoms = facts.symptoms
        known = None if symptoms is None else places_of(symptoms)
        if symptoms is None or known is None:
            return Verdict(cause, "not tested", "the lines of this script were not timed")
        places, wall_ns = known
        mine = [each for each in places if each.what == cause]
        share = fsum(each.ns for each in mine) / wall_ns
        says = f"{cause} {_takes(cause)} {percent(share)} of the steps"
        if not mine:
            return Verdict(cause, "ruled out", f"{says}: none was seen within them", {TIMED: share})
        says += f": {', '.join(_line(each, symptoms.steps) for each in mine[:LINES_MOST])}"
        most = [each.where for each in mine if each.where and each.ns >= NAMED * mine[0].ns]
        evidence = {TIMED: share, "where": most, "steps": symptoms.steps}
        if share < WORTH:
            return Verdict(cause, "ruled out", says, evidence)
        return Verdict(cause, "likely", says, evidence, gain=1 / max(1 - share, LEAST_LEFT))

    return judge


def name_places(verdict: Verdict) -> str:
    """Name what takes the time, and the lines that do it."""
    where = verdict.evidence.get("where", [])[:LINES_MOST]
    at = f" at {' and '.join(where)}" if where else ""
    return f"{verdict.cause}{at} {_takes(verdict.cause)} {percent(verdict.evidence[TIMED])} of its steps"


def _takes(cause: str) -> str:
    return "take" if cause == Cause.CHECKPOINTS else "takes"


def _line(place: TimedPlace, steps: int) -> str:
    where = place.where or "a line of a library"
    often = place.times / steps if steps else 0.0
    if often >= 1:
        return f"{where} ({count(often)} times a step)"
    return f"{where} (every {count(1 / often)} steps)" if often else where


NAMED_MOST = 2


@dataclass(frozen=True, slots=True)
class CauseRow:
    """One cause, a `Cause` or an extension's own word: its rule, and how the verdict names it in a sentence.

    The sentence may depend on the judgement. With a standing of `first_where` the cause is named before all others.
    `when` says of which lanes the cause may be one.
    """

    cause: str
    rule: Callable[[WhyFacts], Verdict]
    sentence: str | Callable[[Verdict], str]
    first_where: tuple[Standing, ...] = ()
    when: Callable[[WhyFacts], bool] = lambda _facts: True


# In the order of judgement: whether the figures are right, whether the device is used, its state; then where the time
# of a step goes, and then the causes within its parts.
CAUSES: list[CauseRow] = [
    CauseRow(Cause.MEASURING_ERROR, step_causes.measuring_error, "its first steps are not its pace", ("proven",)),
    CauseRow(Cause.NOT_ON_DEVICE, step_causes.not_on_device, step_causes.name_unused, ("proven", "likely")),
    CauseRow(Cause.MEMORY_FULL, step_causes.memory_full, "memory that is nearly full holds this training back"),
    CauseRow(Cause.SHARED, step_causes.shared, "other processes take their share of the device"),
    CauseRow(Cause.CLOCKS, step_causes.clocks_lowered, "lowered clocks hold this training back"),
    CauseRow(Cause.OUTSIDE_STEP, step_causes.outside_step, "the time goes between the steps"),
    CauseRow(Cause.INPUT, step_causes.input_pipeline, "the loader bounds this training"),
    CauseRow(Cause.COPY, step_causes.copy_to_device, "the copy to the device bounds this training"),
    CauseRow(Cause.HOST_WAITS, step_causes.host_waits, step_causes.name_reads),
    CauseRow(Cause.LITTLE_WORK, step_causes.too_little_work, "a step has too little work"),
    CauseRow(Cause.SEVERAL_DEVICES, step_causes.several_devices, "traffic between devices bounds this training"),
    CauseRow(Cause.PROCESSOR_LIMITED, compute_causes.processor_limited, compute_causes.name_limit),
    CauseRow(Cause.PROCESSOR_ODDITIES, compute_causes.processor_oddities, compute_causes.name_oddity),
    CauseRow(Cause.FLOAT64, compute_causes.double_numbers, compute_causes.name_double),
    CauseRow(
        Cause.SHAPES, compute_causes.changing_shapes, "batches of changing shapes are compiled or prepared for again"
    ),
    *(
        CauseRow(cause, timed_places(cause), name_places, when=is_script)
        for cause in (Cause.EVALUATION, Cause.CHECKPOINTS, Cause.DISK)
    ),
    CauseRow(Cause.KERNELS, compute_causes.poor_kernels, "its kernels are slower than this device allows"),
]


def judge_causes(facts: WhyFacts) -> tuple[Verdict, ...]:
    return tuple(row.rule(facts) for row in CAUSES if row.when(facts))


def sum_up(facts: WhyFacts, verdicts: Sequence[Verdict]) -> tuple[str, tuple[str, ...]]:
    """Return the verdict in a sentence or two, and the causes that it names, in their order."""
    standing = sorted((each for each in verdicts if each.standing in {"proven", "likely"}), key=_weight)
    named = standing[:NAMED_MOST]
    state = find_lane_state(facts.lane)
    if state is not None and state.is_sure and not any(map(compute_causes.may_be_denormals, named)):
        says = f"{_subject(facts)}{describe_state(state)}, and its own code is why.{_pace(facts, None)}"
        says += "".join(f" Then: {_sentence(each)} ({each.standing}{_by(each)})." for each in named)
        return says, tuple(each.cause for each in named)
    if not named:
        return f"{_subject(facts)}{_nothing_found(facts, verdicts)}", ()
    first, *others = named
    says = f"{_subject(facts)}{_sentence(first)} ({first.standing}).{_pace(facts, first)}"
    says += "".join(f" Then: {_sentence(each)} ({each.standing}{_by(each)})." for each in others)
    return says, tuple(each.cause for each in named)


def _weight(verdict: Verdict) -> tuple[bool, bool, float]:
    """Sort causes that invalidate all other figures first, then proven and timed ones, and those by their gain."""
    gain = 1.0 if isinstance(verdict.gain, Missing) else verdict.gain
    first = verdict.standing in _row_of(verdict).first_where or compute_causes.are_denormals(verdict)
    known = verdict.standing == "proven" or step_causes.were_timed(verdict)
    return not first, not known, 0.0 if first else -gain


def _sentence(verdict: Verdict) -> str:
    sentence = _row_of(verdict).sentence
    return sentence if isinstance(sentence, str) else sentence(verdict)


def _row_of(verdict: Verdict) -> CauseRow:
    return next(row for row in CAUSES if row.cause == verdict.cause)


def _subject(facts: WhyFacts) -> str:
    lane = facts.lane.name.removesuffix("/as-written")
    return f"{facts.what} on {lane}: " if facts.what else f"{lane}: "


def _by(verdict: Verdict) -> str:
    return "" if isinstance(verdict.gain, Missing) else f", {times(verdict.gain)}"


def _pace(facts: WhyFacts, verdict: Verdict | None) -> str:
    """State how fast the lane is, and how fast it would be without the cause."""
    rate = facts.lane.items_per_s
    if rate is None:
        return ""
    plain = f" {brief(rate.median)} {facts.items}/s."
    if verdict is None or isinstance(verdict.gain, Missing) or verdict.gain <= 1 or _changes_learning(facts, verdict):
        return plain
    if verdict.cause == Cause.SHARED and verdict.standing != "proven":
        return plain  # what other processes take is known, and not how many cores each step could have filled
    return f" {brief(rate.median)} {facts.items}/s of a possible {brief(rate.median * verdict.gain)}."


def _changes_learning(facts: WhyFacts, verdict: Verdict) -> bool:
    """Whether a gain was only found by what changes the learning: the same training cannot have it."""
    tried = [trial for trial in facts.trials.values() if trial.lane in verdict.lanes]
    deciding = [each.experiment for each in tried if each.factor and each.factor.ratio == verdict.gain]
    return bool(deciding) and all(each.changes == LEARNING for each in deciding)


def _nothing_found(facts: WhyFacts, verdicts: Sequence[Verdict]) -> str:
    """State what bounds the lane then, if the device's limits were measured."""
    tried = [trial for trial in facts.trials.values() if trial.factor is not None and trial.experiment.is_remedy]
    untested = sum(each.standing == "not tested" for each in verdicts)
    start = "nothing that was tried makes it faster" if tried else "nothing points at a cause, and no remedy was tried"
    rate = facts.lane.items_per_s
    pace = "" if rate is None else f" {brief(rate.median)} {facts.items}/s."
    limit = facts.lane.roofline
    if limit is not None:
        of = "arithmetic" if limit.binds == "products" else "memory"
        bound = f": it is bound by its device's {of}, at {percent(limit.share)} of what that can do."
    else:
        bound = "; how near it comes to what its device can do is not known."
    left = f" {untested} cause{'s' * (untested != 1)} could not be tested." if untested else ""
    return f"{start}{bound}{pace}{left}"
