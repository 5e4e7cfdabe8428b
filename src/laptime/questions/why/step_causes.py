"""Causes in the stages of a step: measuring, pauses, loader, copy, waits, too little work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from laptime.analysis.diagnosis import findings
from laptime.analysis.diagnosis.findings import RUN_THROTTLED_SHARE, SLOW_START
from laptime.analysis.diagnosis.lane_readings import (
    LaneReadings,
    disturbed_slowdowns,
    finished,
    long_share,
    others_cores,
    others_in,
    slow_starts,
    steps_ns,
)
from laptime.analysis.usage import channel_name, points_of
from laptime.model.quantities import Factor, Missing, cores, count, few, percent, taken, times
from laptime.model.sample import HEAT_BITS, POWER_BITS, Meaning, Window
from laptime.model.symptoms import DATA_LINE, NO_INPUT
from laptime.questions.why.facts import (
    NO_INSTRUMENT,
    PART_NOT_KNOWN,
    Signature,
    WhyFacts,
    between,
    figures,
    judge,
    largest_part,
    mean_factor,
    part_share,
    stage_share,
)
from laptime.questions.why.nouns import INPUT, Verdict

# The words of these causes in records.
MEASURING_ERROR = "measuring error"
NOT_ON_DEVICE = "not on the device"
MEMORY_FULL = "device memory full"
DEVICE_SHARED = "device shared"
CLOCKS = "clocks lowered"
OUTSIDE_STEP = "outside the step"
COPY_PART = "copy to the device"
HOST_WAITS = "host waits for values"
LITTLE_WORK = "too little work a step"
SEVERAL_DEVICES = "several devices"

NAIVE_STEPS = 100  # a simple timing takes this many, including the first
NAIVE = 1.5
WORTH_SHARE = 0.05  # of a step: XProf calls an input's share moderate above this, and high above 20 %
FIXED = 1.2  # the gain of twice the batch where a third of a step does not grow with the batch
LAUNCHED = 1.1
SEEN_LEAST = 4  # pauses
TIMED_LINES = "timed_share"  # what was timed within the steps, line by line
TIMED_PART = "timed"  # a share that the script's own steps had
LARGER_PART = "larger_part"  # the part of a step that takes longer, and its share
_PARTS = {"outside": "what is outside of it", "compute": "computing", "host": "the host", "copy": "the copy"}
MANY_READS = 8  # a step: a loss and some scores are fewer
READ_BY_CODE = "read_by_its_code"
NEARLY_BUSY = 0.9
NEARLY_IDLE = 0.6
OTHERS_CORES_BUSY = 0.3  # cores


def measuring_error(facts: WhyFacts) -> Verdict:
    """A timing from the start includes slow first steps, or a first step that compiles.

    The experiment is laptime's own protocol, which leaves them out: each heat has both figures.
    """
    starts = slow_starts(facts.lane)
    parity = facts.lane.parity
    if parity.status == "differs":
        says = f"this lane does other work than its reference: {parity.reason or 'its proof failed'}"
        return Verdict(MEASURING_ERROR, "likely", says, {"worst": parity.worst})
    if not starts:
        return Verdict(MEASURING_ERROR, "not tested", "no heat of this lane has windows that could be compared")
    start = mean_factor(starts)
    evidence: dict[str, Any] = {"first_window": figures(start), "first_step_ms": facts.lane.first_step_ms}
    says = f"in the first window a step takes {between(start)} what it takes later"
    if start.is_above(SLOW_START):
        return Verdict(MEASURING_ERROR, "proven", f"{says}; laptime counts from where it is steady", evidence)
    first = facts.lane.first_step_ms
    step = facts.step_ms
    if start.ratio >= SLOW_START:
        sign = Signature(True, f"{says}; laptime counts from where it is steady", evidence)
    elif first is None or not step:
        sign = Signature(False, f"every window is fenced at both ends, and {says}", evidence)
    else:
        naive = (first + (NAIVE_STEPS - 1) * step) / (NAIVE_STEPS * step)
        evidence["naive"] = naive
        long = f"the first step takes {taken(first)}, {count(first / step)} times a later one"
        says = f"every window is fenced at both ends, {says}, and {long} and in no figure"
        if naive >= NAIVE:
            says = f"{long}: who counts it in measures {times(naive)} the time; laptime does not"
        sign = Signature(naive >= NAIVE, says, evidence)
    return judge(facts, MEASURING_ERROR, sign)


def outside_step(facts: WhyFacts) -> Verdict:
    """Pauses at even distances are the ends of laps, or validations; batches that are ready remove them."""
    pauses = facts.pauses()
    if pauses is None:
        return _no_pauses(facts)
    often = f"every {count(pauses.every)} steps a pause of {taken(pauses.pause_ms)}"
    says = f"{often} takes {percent(pauses.share)} of the time"
    evidence = {"share": pauses.share, "every_steps": pauses.every, "pause_ms": pauses.pause_ms, "seen": pauses.count}
    if pauses.share < WORTH_SHARE:
        return Verdict(OUTSIDE_STEP, "ruled out", says, evidence)
    throttled = facts.throttled_share() or 0.0
    if throttled > RUN_THROTTLED_SHARE and pauses.share <= throttled + WORTH_SHARE:
        says = f"{says}: so the container's quota stops it, for {percent(throttled)} of the time"
        return Verdict(OUTSIDE_STEP, "ruled out", says, {**evidence, "throttled_share": throttled})
    gain = 1 / (1 - pauses.share)
    # The same change removes the loader: it proves the pauses only if the loader is the smaller part.
    loader = part_share(facts, "loader")
    moved = [name for name in ("compute", "decoded") if loader < pauses.share and facts.moved(name)]
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=gain)
    return replace(judge(facts, OUTSIDE_STEP, sign, moved), gain=gain)


def were_timed(verdict: Verdict) -> bool:
    """Whether it was timed again and again: then no experiment has to show what it costs."""
    if TIMED_LINES in verdict.evidence or TIMED_PART in verdict.evidence:
        return True
    return verdict.cause == OUTSIDE_STEP and verdict.evidence.get("seen", 0) >= SEEN_LEAST


def _no_pauses(facts: WhyFacts) -> Verdict:
    """Perhaps no lap ended while steps were timed. A published validation was measured separately."""
    whole = facts.lane.whole
    looks = 0.0 if whole is None else whole.validation_s / (whole.validation_s + whole.train_s.median)
    if whole is not None and looks >= WORTH_SHARE:
        says = f"by a look at some items, validation after each lap takes {percent(looks)} of the training"
        return Verdict(OUTSIDE_STEP, "likely", says, {"validation_share": looks}, gain=1 / (1 - looks))
    long = long_share(facts.lane)
    if long is None:
        return Verdict(OUTSIDE_STEP, "not testable here", "no step of this lane was timed on its own")
    timed = max(len(steps_ns(heat)) for heat in finished(facts.lane))
    lap = facts.steps_per_lap()
    says = f"steps that are far longer than the others take {percent(long)} of the time, at no even distances"
    evidence = {"long_share": long, "steps_timed": timed, "steps_per_lap": lap}
    if lap is not None and lap > timed and long < WORTH_SHARE:
        says = f"a lap has {count(lap)} steps, and no more than {timed} were timed at once: no end of a lap was seen"
        return Verdict(OUTSIDE_STEP, "not tested", says, evidence)
    return Verdict(OUTSIDE_STEP, "ruled out", says, evidence)


def input_pipeline(facts: WhyFacts) -> Verdict:
    """Decoded batches from memory remove the loader, and on a processor nothing else: that proves it.

    Of batches that cannot be replayed, the wait may have been seen, and workers may have removed it.
    """
    part = part_share(facts, "loader")
    alone = stage_share(facts, "loader")
    if isinstance(alone, Missing) and facts.symptoms is not None and NO_INPUT in facts.symptoms.notes:
        return Verdict(INPUT, "not testable here", facts.symptoms.notes[NO_INPUT])
    if (
        isinstance(alone, Missing)
        and facts.symptoms is None
        and not (facts.factor("compute") or facts.factor("decoded"))
    ):
        return judge(facts, INPUT, Signature(None, f"the loader's share is not known: {alone.missing}"), ["decoded"])
    says = f"the loader takes {percent(part)} of a step"
    if not isinstance(alone, Missing):
        took = f"{_ms(facts, alone)} of {_ms(facts, 1.0)}"
        if part >= WORTH_SHARE:
            says += f", alone {took}"
        else:
            says += (
                f" ({took})" if alone < WORTH_SHARE else f": alone it takes {took}, and works while the step computes"
            )
    evidence: dict[str, object] = {"share": part, "alone": None if isinstance(alone, Missing) else alone}
    line = None if facts.symptoms is None else facts.symptoms.notes.get(DATA_LINE)
    if line is not None and part >= WORTH_SHARE:
        says += f", most of it in {line}"
        evidence["where"] = line
    if part < WORTH_SHARE:
        return Verdict(INPUT, "ruled out", says, evidence)
    most = largest_part(facts)
    if most is not None and most.share > part:
        evidence[LARGER_PART] = [most.of, most.share]
    evidence |= {TIMED_PART: True} if facts.is_timed else {}
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=1 / (1 - min(part, 0.999)))
    # The experiments that remove the loader; batches on the device count if the copy is the smaller part
    swaps = [name for name in ("decoded", "fast", "workers") if facts.moved(name) or name == "decoded"]
    if facts.on_processor or part > part_share(facts, "copy"):
        swaps.append("compute")
    return judge(facts, INPUT, sign, swaps)


def name_loader(verdict: Verdict) -> str:
    """Name the loader, and the line of the user's own code that takes most of its time.

    It bounds a training only where no other part of a step takes longer.
    """
    where = verdict.evidence.get("where")
    larger = verdict.evidence.get(LARGER_PART)
    if larger is None:
        return "the loader bounds this training" + (f", most of all {where}" if where else "")
    at = f" at {where}" if where else ""
    of, share = larger
    return f"the loader{at} takes {percent(verdict.evidence['share'])} of a step, and {_PARTS[of]} {percent(share)}"


def copy_to_device(facts: WhyFacts) -> Verdict:
    """The copy is what batches on the device gain and decoded batches in memory do not."""
    if facts.on_processor:
        return Verdict(COPY_PART, "not testable here", "a lane on the processor copies nothing to a device")
    part = part_share(facts, "copy")
    alone = stage_share(facts, "copy")
    if isinstance(alone, Missing):
        return judge(facts, COPY_PART, Signature(None, f"the copy's share is not known: {alone.missing}"), ["copy"])
    # How fast batches were copied in the steps that were taken apart
    copied = facts.symptom("copied_bytes")
    spent_ns = facts.symptom("copy_ns")
    bytes_per_s = None
    if not isinstance(copied, Missing) and not isinstance(spent_ns, Missing) and spent_ns and copied:
        bytes_per_s = copied / spent_ns * 1e9
    rate = "" if bytes_per_s is None else f", at {bytes_per_s / 1e9:.2g} GB/s"
    says = f"the copy to the device takes {percent(part)} of a step{rate}"
    evidence = {"share": part, "alone": alone, "bytes_per_s": bytes_per_s}
    if part < WORTH_SHARE:
        return Verdict(COPY_PART, "ruled out", says, evidence)
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=1 / (1 - min(part, 0.999)))
    # Batches on the device also remove the loader.
    proves = part_share(facts, "loader") < part
    return judge(facts, COPY_PART, sign, ["compute"] if proves else [])


def host_waits(facts: WhyFacts) -> Verdict:
    """A host that reads a value waits until the device has computed it. A deferred read waits for nothing."""
    reads = facts.symptom("reads")
    sites = [f"{site.where} ({site.what})" for site in facts.symptoms.sites[:3]] if facts.symptoms else []
    at = f", at {', '.join(sites)}" if sites else ""
    if facts.on_processor:
        return _reads_of_processor(facts, reads, at)
    if isinstance(reads, Missing):
        return judge(facts, HOST_WAITS, Signature(None, f"reads were not counted: {reads.missing}"), ["deferred"])
    says = f"the host asks the device for a value {count(reads)} times a step{at}"
    idle = part_share(facts, "host")
    gain: float | Missing = 1 / (1 - min(idle, 0.9)) if idle > 0 else PART_NOT_KNOWN
    evidence = {"reads_per_step": reads, "sites": sites, "host_share": idle}
    if reads <= 0:
        return Verdict(HOST_WAITS, "ruled out", "the host asks the device for no value within a step", evidence)
    return judge(facts, HOST_WAITS, Signature(is_there=True, says=says, evidence=evidence, gain=gain), ["deferred"])


def _reads_of_processor(facts: WhyFacts, reads: float | Missing, at: str) -> Verdict:
    """Many values that are read in each step are statistics, or are printed: that takes its time whatever the batch.

    No experiment takes them out. More items a step show what does not grow with them.
    """
    if isinstance(reads, Missing) or reads < MANY_READS:
        says = "on the processor a value is there as soon as it is computed: reading it waits for nothing"
        return Verdict(HOST_WAITS, "not testable here", says)
    says = f"its own code reads {count(reads)} values in each step{at}"
    sign = Signature(is_there=None, says=says, evidence={READ_BY_CODE: reads})
    verdict = judge(facts, HOST_WAITS, sign, ["batch 2x", "batch 4x"], FIXED)
    return replace(verdict, standing="likely") if verdict.standing == "proven" else verdict


def name_reads(verdict: Verdict) -> str:
    if READ_BY_CODE in verdict.evidence:
        return "its own code reads, prints or adds up values in every step"
    return "the host waits for values of the device in every step"


def too_little_work(facts: WhyFacts) -> Verdict:
    """A step that takes no longer with twice the batch is bound by its launches, not by its work."""
    computing = part_share(facts, "compute") + part_share(facts, "host")
    busy = facts.busy()
    if isinstance(busy, Missing):
        says = f"a step takes {taken(facts.step_ms)}" if facts.step_ms else ""
        sign = Signature(None, says, {"step_ms": facts.step_ms})
    else:
        is_idle = busy < NEARLY_IDLE and part_share(facts, "host") >= WORTH_SHARE
        there = True if is_idle else False if busy > NEARLY_BUSY else None
        says = f"the device is busy for {percent(busy)} of the time"
        sign = Signature(there, says, {"busy": busy}, min(2.0, 1 / max(busy, 0.01)))
    if computing and computing < 0.3:
        says = f"computing takes {percent(computing)} of a step: what starts it matters little"
        return Verdict(LITTLE_WORK, "ruled out", says, {**sign.evidence, "compute_share": computing})
    verdict = judge(facts, LITTLE_WORK, sign, ["batch 2x", "batch 4x"], FIXED)
    if verdict.standing != "proven" and not facts.on_processor:
        launched = judge(facts, LITTLE_WORK, sign, ["graph", "strides", "compile"], LAUNCHED)
        verdict = launched if launched.standing == "proven" else verdict
    other = explained_otherwise(facts)
    if verdict.standing == "proven" and (other or (computing and computing < 0.5)):
        why = other or f"computing takes {percent(computing)} of a step only"
        return replace(verdict, standing="likely", says=f"{verdict.says}; but {why}")
    return verdict


def explained_otherwise(facts: WhyFacts) -> str | None:
    """Return what else makes every step cost the same, whatever its batch: then a larger batch proves nothing."""
    batch = facts.factor("batch 2x")
    gained = batch.ratio if batch is not None else 1.0
    for name, words in (("threads", "other threads gain more"), ("deferred", "reads put off gain as much"),
                        ("one", "one shape of batch gains as much")):  # fmt: skip
        factor = facts.factor(name)
        if factor is not None and facts.moved(name, 1.1) and factor.ratio >= 0.9 * gained:
            return words
    if (facts.throttled_share() or 0.0) > RUN_THROTTLED_SHARE:
        return "the container's quota held it back"
    other = others_cores(facts.lane)
    if other is not None and other >= OTHERS_CORES_BUSY:
        return f"other processes take {cores(other)}"
    reads = facts.symptom("reads")
    if facts.on_processor and not isinstance(reads, Missing) and reads >= MANY_READS:
        return "what its own code does with the values that it reads in each step is shared by more items, too"
    pauses = facts.pauses()
    if pauses is not None and pauses.share >= 2 * WORTH_SHARE:
        return "pauses between steps are shared by more items, too"
    return None


def several_devices(facts: WhyFacts) -> Verdict:
    """A lane trains on one device, without traffic between several."""
    says = f"this lane trains on one device ({facts.lane.device.name}): no gradient travels"
    return Verdict(SEVERAL_DEVICES, "not testable here", says, {"devices": 1})


def _ms(facts: WhyFacts, part: float) -> str:
    return taken(part * (facts.step_ms or 0.0))


# Causes in the device's state: not used, memory full, shared, clocks lowered.

READINGS_LEAST = 10
MUCH_OTHER = 0.3  # cores
LITTLE_OTHER = 0.1


def not_on_device(facts: WhyFacts) -> Verdict:
    """The doctor's rules find a card that a framework cannot use; the readings show a card that is idle."""
    if facts.unseen and facts.on_processor:
        found = facts.unseen[0]
        says = f"{found.says.rstrip('.')} ({found.advice})" if found.advice else found.says.rstrip(".")
        return Verdict(NOT_ON_DEVICE, "likely", says, {"unseen": [finding.says for finding in facts.unseen]})
    if not facts.on_processor:
        return _on_card(facts)
    usable = [
        device.name
        for framework in facts.machine.frameworks
        for device in framework.devices
        if device.usable and device.kind != "cpu"
    ]
    cards = [card for card in facts.machine.cards if card.computes]
    if not usable and not cards:
        says = "this machine has no device but its processor"
        return Verdict(NOT_ON_DEVICE, "not testable here", says, {"cards": 0})
    there = usable[0] if usable else "a card"
    says = f"the processor was asked for; {there} is there as well"
    return Verdict(NOT_ON_DEVICE, "ruled out", says, {"usable": usable, "cards": len(cards)})


def name_unused(verdict: Verdict) -> str:
    unseen = verdict.evidence.get("unseen")
    return str(unseen[0]).rstrip(".") if unseen else "a device that is here is not used"


def _on_card(facts: WhyFacts) -> Verdict:
    readings = facts.readings().card_values("busy")
    held = facts.lane.device_memory_bytes
    if len(readings) >= READINGS_LEAST and max(readings) < findings.IDLE_PERCENT:
        says = f"{facts.lane.device.name} was idle in all {len(readings)} readings while the lane was timed"
        return Verdict(NOT_ON_DEVICE, "proven", says, {"busy_percent_most": max(readings)})
    busy = facts.busy()
    signs = [] if isinstance(busy, Missing) else [f"the device is busy for {percent(busy)} of the time"]
    signs += [] if isinstance(held, Missing) or not held else [f"our process holds {held / 1e6:,.0f} MB on it"]
    evidence = {"busy": None if isinstance(busy, Missing) else busy,
                "held_bytes": None if isinstance(held, Missing) else held}  # fmt: skip
    if signs:
        return Verdict(NOT_ON_DEVICE, "ruled out", ", ".join(signs), evidence)
    reason = busy.missing if isinstance(busy, Missing) else "nobody told what the device did"
    return Verdict(NOT_ON_DEVICE, "not testable here", f"whether the device works cannot be read: {reason}", evidence)


def memory_full(facts: WhyFacts) -> Verdict:
    """Half a batch takes less time per item only if memory was the problem."""
    if facts.on_processor:
        return judge(facts, MEMORY_FULL, _host_memory(facts), ["half batch"])
    readings = facts.readings()
    used = readings.card_values("memory")
    declared = facts.lane.device.memory_bytes
    total = max(readings.card_values("all memory"), default=0.0)
    total = total or (0.0 if isinstance(declared, Missing) else float(declared))
    if not used or not total:
        why = _why_not(facts, "memory")
        sign = Signature(None, f"how full the device's memory is cannot be read: {why}")
        verdict = judge(facts, MEMORY_FULL, sign, ["half batch"])
        return verdict if facts.factor("half batch") else _not_testable(MEMORY_FULL, sign.says)
    is_full = max(used) / total > findings.FULL_SHARE
    says = f"{max(used) / 1e9:.1f} of the device's {total / 1e9:.1f} GB are used, {percent(max(used) / total)}"
    evidence = {"used_bytes": max(used), "total_bytes": total}
    return judge(facts, MEMORY_FULL, Signature(is_full, says, evidence), ["half batch"] if is_full else [])


def _host_memory(facts: WhyFacts) -> Signature:
    """Read the signature of full memory on the host, in which a processor computes."""
    readings = facts.readings()
    found = findings.swapping(readings) or findings.full_memory(readings)
    if found is not None:
        return Signature(True, _without_name(found.says, facts), dict(found.evidence))
    free = min(readings.values("host", "free memory"), default=None)
    if free is None:
        return Signature(None, "how full the memory is was not read")
    total = facts.machine.memory_bytes
    says = f"{free / 1e9:.1f} of {total / 1e9:.1f} GB of memory are free, and nothing is in swap"
    return Signature(False, says, {"available_bytes": free, "total_bytes": total})


def shared(facts: WhyFacts) -> Verdict:
    """The experiment compares windows in which other processes worked with quiet windows of the same heat."""
    if facts.on_processor:
        return _shared_processor(facts)
    others = facts.readings().card_values("other processes")
    if not others:
        says = f"whether others are on the device cannot be read: {_why_not(facts, 'other processes')}"
        return _not_testable(DEVICE_SHARED, says)
    held = max(facts.readings().card_values("memory of others"), default=0.0)
    most = max(others)
    if most < 1:
        return Verdict(DEVICE_SHARED, "ruled out", "no other process is on the device", {"processes": 0.0})
    says = f"{most:.0f} other process{'es' * (most > 1)} on the device, holding {held / 1e9:.1f} GB"
    apart = _apart(facts, _reading_in(facts, "other processes", lambda value: value >= 1))
    return _by_windows(DEVICE_SHARED, says, {"processes": most, "memory_bytes": held}, apart)


def _shared_processor(facts: WhyFacts) -> Verdict:
    """Every step that uses all cores is slower by the share that other processes take."""
    other = others_cores(facts.lane)
    if other is None:
        return _not_testable(DEVICE_SHARED, "what other processes take of the processor was not read")
    says = f"other processes take {few(other)} of {facts.cores} cores"
    evidence = {"other_cores": other, "cores": facts.cores}
    apart = _apart(facts, _is_much_other)
    if other < MUCH_OTHER and not (apart is not None and _is_slower(apart, facts.margin) and other >= LITTLE_OTHER):
        return Verdict(DEVICE_SHARED, "ruled out", says, evidence)
    wanted = min(facts.readings().threads_wanted() or facts.cores, facts.cores)
    more = wanted / max(facts.cores - other, 1.0)  # at most: where each step fills every core that it wants
    gain = more if more > 1 else PART_NOT_KNOWN
    return _by_windows(DEVICE_SHARED, says, evidence, apart, gain)


def _is_much_other(window: Window) -> bool | None:
    other = others_in(window)
    if other is None or LITTLE_OTHER < other < MUCH_OTHER:
        return None
    return other >= MUCH_OTHER


def clocks_lowered(facts: WhyFacts) -> Verdict:
    """Readings show when the driver lowered the clocks, and windows show the cost."""
    readings = facts.readings()
    if facts.on_processor:
        return _processor_clocks(facts, readings)
    bits = readings.card_values("lowered clocks")
    if not bits:
        why = _why_not(facts, "lowered clocks")
        return _not_testable(CLOCKS, f"the reason for the device's clock speed cannot be read: {why}")
    hot, capped = findings.lowered_clocks(readings)
    worst = max(hot, capped)
    evidence = {"heat_share": hot, "power_share": capped}
    if worst <= findings.HELD_BACK_SHARE:
        says = f"the driver lowered the clocks in {percent(worst)} of {count(len(bits))} readings"
        return Verdict(CLOCKS, "ruled out", says, evidence)
    reason = "too hot" if hot >= capped else "at its limit of power"
    says = f"the driver lowered the clocks in {percent(worst)} of readings: {reason}"
    mask = HEAT_BITS if hot >= capped else POWER_BITS
    apart = _apart(facts, _reading_in(facts, "lowered clocks", lambda value: bool(int(value) & mask)))
    # The gain of the highest clock, if it is known
    now = readings.card_values("clock")
    most = readings.card_values("limit")
    gain: float | Missing = Missing("how high the clock could be was not read")
    if now and most:
        gain = max(1.0, max(most) / (sum(now) / len(now)))
    return _by_windows(CLOCKS, says, evidence, apart, gain)


def _processor_clocks(facts: WhyFacts, readings: LaneReadings) -> Verdict:
    if not readings.values("host", "clock"):
        return _not_testable(CLOCKS, "this processor's clock cannot be read here")
    found = findings.drifting_processor(readings)
    clock = max(readings.values("host", "clock"))
    if found is None or max(found.evidence["changes"], key=abs) > 0:
        says = f"the processor's clock stays at {clock:,.0f} MHz"
        return Verdict(CLOCKS, "ruled out", says, {"frequency_mhz": clock})
    lost = -min(found.evidence["changes"])
    says = _without_name(found.says, facts)
    return Verdict(CLOCKS, "likely", says, dict(found.evidence), gain=1 / (1 - min(lost, 0.9)))


def _by_windows(
    cause: str, says: str, evidence: dict[str, Any], apart: Factor | None, gain: float | Missing | None = None
) -> Verdict:
    """Return "likely" for a state that exists, and "proven" if quiet windows show what it costs."""
    likely: float | Missing = Missing("no window was free of it") if gain is None else gain
    if apart is None:
        return Verdict(cause, "likely", says, evidence, gain=likely)
    evidence = {**evidence, "disturbed_windows": figures(apart)}
    if _is_slower(apart, 0.05):
        says = f"{says}; windows with that take {between(apart)} the time of those without"
        return Verdict(cause, "proven", says, evidence, gain=apart.ratio)
    return Verdict(cause, "likely", says, evidence, gain=likely)


def _apart(facts: WhyFacts, is_disturbed: Callable[[Window], bool | None]) -> Factor | None:
    slowdowns = disturbed_slowdowns(facts.lane, is_disturbed)
    return mean_factor(slowdowns) if len(slowdowns) > 1 else None


def _is_slower(apart: Factor, margin: float) -> bool:
    return apart.is_above(1 + margin)


def _reading_in(facts: WhyFacts, means: Meaning, is_so: Callable[[float], bool]) -> Callable[[Window], bool | None]:
    """Return a test for windows: whether `is_so` holds for any reading within one; None if it has no reading."""
    readings = facts.readings()
    card = readings.card or ""
    timelines = [heat.timeline for heat in readings.heats]
    found = [points_of(timeline, card, channel_name(timeline, card, means)) for timeline in timelines]
    points = [point for line in found if not isinstance(line, Missing) for point in line]

    def any_within(window: Window) -> bool | None:
        values = [value for time_s, value in points if window.start_ns <= time_s * 1e9 <= window.end_ns]
        return any(map(is_so, values)) if values else None

    return any_within


def _why_not(facts: WhyFacts, means: Meaning) -> str:
    """Return why there are no readings of this of a card."""
    readings = facts.readings()
    if not readings.heats:
        return NO_INSTRUMENT.missing
    timeline = readings.heats[0].timeline
    card = readings.card or facts.lane.device.name
    return timeline.why_not(card, channel_name(timeline, card, means)).missing


def _without_name(says: str, facts: WhyFacts) -> str:
    return says.removeprefix(f"{facts.lane.name}: ").rstrip(".")


def _not_testable(cause: str, says: str) -> Verdict:
    return Verdict(cause, "not testable here", says)
