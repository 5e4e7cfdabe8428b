"""Causes in the stages of a step: measuring, pauses, loader, copy, waits, too little work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from laptime.diagnosis.findings import THROTTLED_SHARE
from laptime.diagnosis.lane_readings import finished, long_share, others_cores, slow_starts, steps_ns
from laptime.model.digits import cores, count, percent, taken, times
from laptime.model.missing import Missing
from laptime.model.symptoms import NO_INPUT
from laptime.questions.why.facts import WhyFacts, part_share, stage_share
from laptime.questions.why.judging import NOT_KNOWN, Signature, between, figures, judge, mean_factor
from laptime.questions.why.nouns import Cause, Factor, Verdict

SLOW_START = 1.5
NAIVE_STEPS = 100  # a simple timing takes this many, including the first
NAIVE = 1.5
WORTH = 0.05  # of a step: XProf calls an input's share moderate above this, and high above 20 %
FIXED = 1.2  # the gain of twice the batch where a third of a step does not grow with the batch
LAUNCHED = 1.1
SEEN_LEAST = 4  # pauses
TIMED = "timed_share"  # what was timed within the steps, line by line
MANY_READS = 8  # a step: a loss and some scores are fewer
READ_BY_CODE = "read_by_its_code"
BUSY, IDLE = 0.9, 0.6
OTHERS = 0.3  # cores


def measuring_error(facts: WhyFacts) -> Verdict:
    """A timing from the start includes slow first steps, or a first step that compiles.

    The experiment is laptime's own protocol, which leaves them out: each heat has both figures.
    """
    starts = slow_starts(facts.lane)
    parity = facts.lane.parity
    if parity.status == "differs":
        says = f"this lane does other work than its reference: {parity.reason or 'its proof failed'}"
        return Verdict(Cause.MEASURING_ERROR, "likely", says, {"worst": parity.worst})
    if not starts:
        return Verdict(Cause.MEASURING_ERROR, "not tested", "no heat of this lane has windows that could be compared")
    start = mean_factor(starts)
    told: dict[str, Any] = {"first_window": figures(start), "first_step_ms": facts.lane.first_step_ms}
    says = f"in the first window a step takes {between(start)} what it takes later"
    if not isinstance(start.low, Missing) and start.low > SLOW_START:
        return Verdict(Cause.MEASURING_ERROR, "proven", f"{says}; laptime counts from where it is steady", told)
    return judge(facts, Cause.MEASURING_ERROR, _first_step(facts, start, says, told))


def _first_step(facts: WhyFacts, start: Factor, says: str, told: dict[str, Any]) -> Signature:
    first, step = facts.lane.first_step_ms, facts.step_ms
    if start.ratio >= SLOW_START:
        return Signature(True, f"{says}; laptime counts from where it is steady", told)
    if first is None or not step:
        return Signature(False, f"every window is fenced at both ends, and {says}", told)
    naive = (first + (NAIVE_STEPS - 1) * step) / (NAIVE_STEPS * step)
    told["naive"] = naive
    long = f"the first step takes {taken(first)}, {count(first / step)} times a later one"
    if naive >= NAIVE:
        return Signature(True, f"{long}: who counts it in measures {times(naive)} the time; laptime does not", told)
    return Signature(False, f"every window is fenced at both ends, {says}, and {long} and in no figure", told)


def outside_step(facts: WhyFacts) -> Verdict:
    """Pauses at even distances are the ends of laps, or validations; batches that are ready remove them."""
    pauses = facts.pauses()
    if pauses is None:
        return _no_pauses(facts)
    often = f"every {count(pauses.every)} steps a pause of {taken(pauses.pause_ms)}"
    says = f"{often} takes {percent(pauses.share)} of the time"
    evidence = {"share": pauses.share, "every_steps": pauses.every, "pause_ms": pauses.pause_ms, "seen": pauses.count}
    if pauses.share < WORTH:
        return Verdict(Cause.OUTSIDE_STEP, "ruled out", says, evidence)
    throttled = facts.throttled_share() or 0.0
    if throttled > THROTTLED_SHARE and pauses.share <= throttled + WORTH:
        says = f"{says}: so the container's quota stops it, for {percent(throttled)} of the time"
        return Verdict(Cause.OUTSIDE_STEP, "ruled out", says, {**evidence, "throttled_share": throttled})
    gain = 1 / (1 - pauses.share)
    # The same change removes the loader: it proves the pauses only if the loader is the smaller part.
    loader = part_share(facts, "loader")
    moved = [name for name in ("compute", "decoded") if loader < pauses.share and facts.moved(name)]
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=gain)
    return replace(judge(facts, Cause.OUTSIDE_STEP, sign, moved), gain=gain)


def were_timed(verdict: Verdict) -> bool:
    """Whether it was timed again and again: then no experiment has to show what it costs."""
    if TIMED in verdict.evidence:
        return True
    return verdict.cause == Cause.OUTSIDE_STEP and verdict.evidence.get("seen", 0) >= SEEN_LEAST


def _no_pauses(facts: WhyFacts) -> Verdict:
    """Perhaps no lap ended while steps were timed. A published validation was measured separately."""
    looks = _share_of_validation(facts)
    if looks is not None and looks >= WORTH:
        says = f"by a look at some items, validation after each lap takes {percent(looks)} of the training"
        return Verdict(Cause.OUTSIDE_STEP, "likely", says, {"validation_share": looks}, gain=1 / (1 - looks))
    long = long_share(facts.lane)
    if long is None:
        return Verdict(Cause.OUTSIDE_STEP, "not testable here", "no step of this lane was timed on its own")
    timed = max(len(steps_ns(heat)) for heat in finished(facts.lane))
    lap = facts.steps_per_lap()
    says = f"steps that are far longer than the others take {percent(long)} of the time, at no even distances"
    evidence = {"long_share": long, "steps_timed": timed, "steps_per_lap": lap}
    if lap is not None and lap > timed and long < WORTH:
        says = f"a lap has {count(lap)} steps, and no more than {timed} were timed at once: no end of a lap was seen"
        return Verdict(Cause.OUTSIDE_STEP, "not tested", says, evidence)
    return Verdict(Cause.OUTSIDE_STEP, "ruled out", says, evidence)


def _share_of_validation(facts: WhyFacts) -> float | None:
    whole = facts.lane.whole
    if whole is None:
        return None
    return whole.validation_s / (whole.validation_s + whole.train_s.median)


def input_pipeline(facts: WhyFacts) -> Verdict:
    """Decoded batches from memory remove the loader, and on a processor nothing else: that proves it."""
    if facts.symptoms is not None and NO_INPUT in facts.symptoms.notes:
        return Verdict(Cause.INPUT, "not testable here", facts.symptoms.notes[NO_INPUT])
    part, alone = part_share(facts, "loader"), stage_share(facts, "loader")
    if (
        isinstance(alone, Missing)
        and facts.symptoms is None
        and not (facts.factor("compute") or facts.factor("decoded"))
    ):
        return judge(
            facts, Cause.INPUT, Signature(None, f"the loader's share is not known: {alone.missing}"), ["decoded"]
        )
    says = f"the loader takes {percent(part)} of a step"
    if not isinstance(alone, Missing):
        says += f", alone {_ms(facts, alone)} of {_ms(facts, 1.0)}" if part >= WORTH else _beside(facts, alone)
    evidence = {"share": part, "alone": None if isinstance(alone, Missing) else alone}
    if part < WORTH:
        return Verdict(Cause.INPUT, "ruled out", says, evidence)
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=1 / (1 - min(part, 0.999)))
    return judge(facts, Cause.INPUT, sign, _swaps(facts))


def _swaps(facts: WhyFacts) -> list[str]:
    """Return the experiments that remove the loader; batches on the device count if the copy is the smaller part."""
    names = [name for name in ("decoded", "fast", "workers") if facts.moved(name) or name == "decoded"]
    if facts.on_processor or part_share(facts, "loader") > part_share(facts, "copy"):
        names.append("compute")
    return names


def _beside(facts: WhyFacts, alone: float) -> str:
    if alone < WORTH:
        return f" ({_ms(facts, alone)} of {_ms(facts, 1.0)})"
    return f": alone it takes {_ms(facts, alone)} of {_ms(facts, 1.0)}, and works while the step computes"


def copy_to_device(facts: WhyFacts) -> Verdict:
    """The copy is what batches on the device gain and decoded batches in memory do not."""
    if facts.on_processor:
        return Verdict(Cause.COPY, "not testable here", "a lane on the processor copies nothing to a device")
    part, alone = part_share(facts, "copy"), stage_share(facts, "copy")
    if isinstance(alone, Missing):
        return judge(facts, Cause.COPY, Signature(None, f"the copy's share is not known: {alone.missing}"), ["copy"])
    says = f"the copy to the device takes {percent(part)} of a step{_rate(facts)}"
    evidence = {"share": part, "alone": alone, "bytes_per_s": _bytes_per_s(facts)}
    if part < WORTH:
        return Verdict(Cause.COPY, "ruled out", says, evidence)
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=1 / (1 - min(part, 0.999)))
    # Batches on the device also remove the loader.
    proves = part_share(facts, "loader") < part
    return judge(facts, Cause.COPY, sign, ["compute"] if proves else [])


def host_waits(facts: WhyFacts) -> Verdict:
    """A host that reads a value waits until the device has computed it. A deferred read waits for nothing."""
    reads = facts.symptom("reads")
    sites = [f"{each.where} ({each.what})" for each in facts.symptoms.sites[:3]] if facts.symptoms else []
    at = f", at {', '.join(sites)}" if sites else ""
    if facts.on_processor:
        return _reads_of_processor(facts, reads, at)
    if isinstance(reads, Missing):
        return judge(facts, Cause.HOST_WAITS, Signature(None, f"reads were not counted: {reads.missing}"), ["deferred"])
    says = f"the host asks the device for a value {count(reads)} times a step{at}"
    idle = part_share(facts, "host")
    gain: float | Missing = 1 / (1 - min(idle, 0.9)) if idle > 0 else NOT_KNOWN
    evidence = {"reads_per_step": reads, "sites": sites, "host_share": idle}
    if reads <= 0:
        return Verdict(Cause.HOST_WAITS, "ruled out", "the host asks the device for no value within a step", evidence)
    return judge(
        facts, Cause.HOST_WAITS, Signature(is_there=True, says=says, evidence=evidence, gain=gain), ["deferred"]
    )


def _reads_of_processor(facts: WhyFacts, reads: float | Missing, at: str) -> Verdict:
    """Many values that are read in each step are statistics, or are printed: that takes its time whatever the batch.

    No experiment takes them out. More items a step show what does not grow with them.
    """
    if isinstance(reads, Missing) or reads < MANY_READS:
        says = "on the processor a value is there as soon as it is computed: reading it waits for nothing"
        return Verdict(Cause.HOST_WAITS, "not testable here", says)
    says = f"its own code reads {count(reads)} values in each step{at}"
    sign = Signature(is_there=None, says=says, evidence={READ_BY_CODE: reads})
    verdict = judge(facts, Cause.HOST_WAITS, sign, ["batch 2x", "batch 4x"], FIXED)
    return replace(verdict, standing="likely") if verdict.standing == "proven" else verdict


def name_reads(verdict: Verdict) -> str:
    if READ_BY_CODE in verdict.evidence:
        return "its own code reads, prints or adds up values in every step"
    return "the host waits for values of the device in every step"


def too_little_work(facts: WhyFacts) -> Verdict:
    """A step that takes no longer with twice the batch is bound by its launches, not by its work."""
    computing = part_share(facts, "compute") + part_share(facts, "host")
    busy = facts.busy()
    sign = _little(facts, busy)
    if computing and computing < 0.3:
        says = f"computing takes {percent(computing)} of a step: what starts it matters little"
        return Verdict(Cause.LITTLE_WORK, "ruled out", says, {**sign.evidence, "compute_share": computing})
    verdict = judge(facts, Cause.LITTLE_WORK, sign, ["batch 2x", "batch 4x"], FIXED)
    if verdict.standing != "proven" and not facts.on_processor:
        launched = judge(facts, Cause.LITTLE_WORK, sign, ["graph", "strides", "compile"], LAUNCHED)
        verdict = launched if launched.standing == "proven" else verdict
    other = explained_otherwise(facts)
    if verdict.standing == "proven" and (other or (computing and computing < 0.5)):
        why = other or f"computing takes {percent(computing)} of a step only"
        return replace(verdict, standing="likely", says=f"{verdict.says}; but {why}")
    return verdict


def _little(facts: WhyFacts, busy: float | Missing) -> Signature:
    if isinstance(busy, Missing):
        says = f"a step takes {taken(facts.step_ms)}" if facts.step_ms else ""
        return Signature(None, says, {"step_ms": facts.step_ms})
    says = f"the device is busy for {percent(busy)} of the time"
    gain = min(2.0, 1 / max(busy, 0.01))
    there = True if busy < IDLE and part_share(facts, "host") >= WORTH else False if busy > BUSY else None
    return Signature(there, says, {"busy": busy}, gain)


def explained_otherwise(facts: WhyFacts) -> str | None:
    """Return what else makes every step cost the same, whatever its batch: then a larger batch proves nothing."""
    batch = facts.factor("batch 2x")
    gained = batch.ratio if batch is not None else 1.0
    for name, words in (("threads", "other threads gain more"), ("deferred", "reads put off gain as much"),
                        ("one", "one shape of batch gains as much")):  # fmt: skip
        factor = facts.factor(name)
        if factor is not None and facts.moved(name, 1.1) and factor.ratio >= 0.9 * gained:
            return words
    if (facts.throttled_share() or 0.0) > THROTTLED_SHARE:
        return "the container's quota held it back"
    other = others_cores(facts.lane)
    if other is not None and other >= OTHERS:
        return f"other processes take {cores(other)}"
    reads = facts.symptom("reads")
    if facts.on_processor and not isinstance(reads, Missing) and reads >= MANY_READS:
        return "what its own code does with the values that it reads in each step is shared by more items, too"
    pauses = facts.pauses()
    if pauses is not None and pauses.share >= 2 * WORTH:
        return "pauses between steps are shared by more items, too"
    return None


def several_devices(facts: WhyFacts) -> Verdict:
    """A lane trains on one device, without traffic between several."""
    says = f"this lane trains on one device ({facts.lane.device.name}): no gradient travels"
    return Verdict(Cause.SEVERAL_DEVICES, "not testable here", says, {"devices": 1})


def _ms(facts: WhyFacts, part: float) -> str:
    return taken(part * (facts.step_ms or 0.0))


def _bytes_per_s(facts: WhyFacts) -> float | None:
    """Return how fast batches were copied to the device in the steps that were taken apart."""
    copied, spent = facts.symptom("copied_bytes"), facts.symptom("copy_ns")
    if isinstance(copied, Missing) or isinstance(spent, Missing) or not spent or not copied:
        return None
    return copied / spent * 1e9


def _rate(facts: WhyFacts) -> str:
    rate = _bytes_per_s(facts)
    return "" if rate is None else f", at {rate / 1e9:.2g} GB/s"
