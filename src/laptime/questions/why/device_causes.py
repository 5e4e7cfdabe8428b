"""Causes in the device's state: not used, memory full, shared, clocks lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.analysis.readings import points_of
from laptime.diagnosis import findings
from laptime.diagnosis.lane_readings import LaneReadings, disturbed_slowdowns, others_cores, others_in
from laptime.model.digits import count, few, percent
from laptime.model.missing import Missing
from laptime.model.sample import Window
from laptime.questions.why.facts import NO_INSTRUMENT, WhyFacts
from laptime.questions.why.judging import NOT_KNOWN, Signature, between, figures, judge, mean_factor
from laptime.questions.why.nouns import Cause, Factor, Verdict

READINGS_LEAST = 10
MUCH_OTHER, LITTLE_OTHER = 0.3, 0.1  # cores


def not_on_device(facts: WhyFacts) -> Verdict:
    """The doctor's rules find a card that a framework cannot use; the readings show a card that is idle."""
    if facts.unseen and facts.on_processor:
        found = facts.unseen[0]
        says = f"{found.says.rstrip('.')} ({found.advice})" if found.advice else found.says.rstrip(".")
        return Verdict(Cause.NOT_ON_DEVICE, "likely", says, {"unseen": [each.says for each in facts.unseen]})
    return _on_processor(facts) if facts.on_processor else _on_card(facts)


def name_unused(verdict: Verdict) -> str:
    unseen = verdict.evidence.get("unseen")
    return str(unseen[0]).rstrip(".") if unseen else "a device that is here is not used"


def _on_processor(facts: WhyFacts) -> Verdict:
    usable = [
        device.name
        for framework in facts.machine.frameworks
        for device in framework.devices
        if device.usable and device.kind != "cpu"
    ]
    cards = [each for each in facts.machine.cards if each.computes]
    if not usable and not cards:
        says = "this machine has no device but its processor"
        return Verdict(Cause.NOT_ON_DEVICE, "not testable here", says, {"cards": 0})
    there = usable[0] if usable else "a card"
    says = f"the processor was asked for; {there} is there as well"
    return Verdict(Cause.NOT_ON_DEVICE, "ruled out", says, {"usable": usable, "cards": len(cards)})


def _on_card(facts: WhyFacts) -> Verdict:
    readings = facts.readings().card_values("busy_percent")
    held = facts.lane.device_memory_bytes
    if len(readings) >= READINGS_LEAST and max(readings) < findings.IDLE_PERCENT:
        says = f"{facts.lane.device.name} was idle in all {len(readings)} readings while the lane was timed"
        return Verdict(Cause.NOT_ON_DEVICE, "proven", says, {"busy_percent_most": max(readings)})
    busy = facts.busy()
    told = [] if isinstance(busy, Missing) else [f"the device is busy for {percent(busy)} of the time"]
    told += [] if isinstance(held, Missing) or not held else [f"our process holds {held / 1e6:,.0f} MB on it"]
    evidence = {"busy": None if isinstance(busy, Missing) else busy,
                "held_bytes": None if isinstance(held, Missing) else held}  # fmt: skip
    if told:
        return Verdict(Cause.NOT_ON_DEVICE, "ruled out", ", ".join(told), evidence)
    reason = busy.missing if isinstance(busy, Missing) else "nobody told what the device did"
    return Verdict(
        Cause.NOT_ON_DEVICE, "not testable here", f"whether the device works cannot be read: {reason}", evidence
    )


def memory_full(facts: WhyFacts) -> Verdict:
    """Half a batch takes less time per item only if memory was the problem."""
    if facts.on_processor:
        return judge(facts, Cause.MEMORY_FULL, _host_memory(facts), ["half batch"])
    readings = facts.readings()
    used = readings.card_values("memory_used_bytes")
    there = readings.card_values("memory_total_bytes")
    total = max(there, default=0.0) or _told_bytes(facts)
    if not used or not total:
        why = _why_not(facts, "memory_used_bytes")
        sign = Signature(None, f"how full the device's memory is cannot be read: {why}")
        verdict = judge(facts, Cause.MEMORY_FULL, sign, ["half batch"])
        return verdict if facts.factor("half batch") else _not_testable(Cause.MEMORY_FULL, sign.says)
    is_full = max(used) / total > findings.FULL
    says = f"{max(used) / 1e9:.1f} of the device's {total / 1e9:.1f} GB are used, {percent(max(used) / total)}"
    evidence = {"used_bytes": max(used), "total_bytes": total}
    return judge(facts, Cause.MEMORY_FULL, Signature(is_full, says, evidence), ["half batch"] if is_full else [])


def _host_memory(facts: WhyFacts) -> Signature:
    """Read the signature of full memory on the host, in which a processor computes."""
    readings = facts.readings()
    found = findings.swapping(readings) or findings.full_memory(readings)
    if found is not None:
        return Signature(True, _without_name(found.says, facts), dict(found.evidence))
    free = min(readings.values("host", "memory_available_bytes"), default=None)
    if free is None:
        return Signature(None, "how full the memory is was not read")
    total = facts.machine.memory_bytes
    says = f"{free / 1e9:.1f} of {total / 1e9:.1f} GB of memory are free, and nothing is in swap"
    return Signature(False, says, {"available_bytes": free, "total_bytes": total})


def shared(facts: WhyFacts) -> Verdict:
    """The experiment compares windows in which other processes worked with quiet windows of the same heat."""
    if facts.on_processor:
        return _shared_processor(facts)
    others = facts.readings().card_values("foreign_processes")
    if not others:
        says = f"whether others are on the device cannot be read: {_why_not(facts, 'foreign_processes')}"
        return _not_testable(Cause.SHARED, says)
    held = max(facts.readings().card_values("foreign_memory_bytes"), default=0.0)
    most = max(others)
    if most < 1:
        return Verdict(Cause.SHARED, "ruled out", "no other process is on the device", {"processes": 0.0})
    says = f"{most:.0f} other process{'es' * (most > 1)} on the device, holding {held / 1e9:.1f} GB"
    apart = _apart(facts, _reading_in(facts, "foreign_processes", lambda value: value >= 1))
    return _by_windows(Cause.SHARED, says, {"processes": most, "memory_bytes": held}, apart)


def _shared_processor(facts: WhyFacts) -> Verdict:
    """Every step that uses all cores is slower by the share that other processes take."""
    other = others_cores(facts.lane)
    if other is None:
        return _not_testable(Cause.SHARED, "what other processes take of the processor was not read")
    says = f"other processes take {few(other)} of {facts.cores} cores"
    evidence = {"other_cores": other, "cores": facts.cores}
    apart = _apart(facts, _is_much_other)
    if other < MUCH_OTHER and not (apart is not None and _is_slower(apart, facts.margin) and other >= LITTLE_OTHER):
        return Verdict(Cause.SHARED, "ruled out", says, evidence)
    wanted = min(facts.readings().threads_wanted() or facts.cores, facts.cores)
    more = wanted / max(facts.cores - other, 1.0)  # at most: where each step fills every core that it wants
    gain = more if more > 1 else NOT_KNOWN
    return _by_windows(Cause.SHARED, says, evidence, apart, gain)


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
    bits = readings.card_values("clock_reasons")
    if not bits:
        why = _why_not(facts, "clock_reasons")
        return _not_testable(Cause.CLOCKS, f"why the device's clocks stand as they do cannot be read: {why}")
    hot, capped = findings.lowered_clocks(readings)
    worst = max(hot, capped)
    evidence = {"heat_share": hot, "power_share": capped}
    if worst <= findings.HELD_BACK_SHARE:
        says = f"the driver lowered the clocks in {percent(worst)} of {count(len(bits))} readings"
        return Verdict(Cause.CLOCKS, "ruled out", says, evidence)
    reason = "too hot" if hot >= capped else "at its limit of power"
    says = f"the driver lowered the clocks in {percent(worst)} of readings: {reason}"
    mask = findings.HEAT_BITS if hot >= capped else findings.POWER_BITS
    apart = _apart(facts, _reading_in(facts, "clock_reasons", lambda value: bool(int(value) & mask)))
    return _by_windows(Cause.CLOCKS, says, evidence, apart, _clock_gain(readings))


def _processor_clocks(facts: WhyFacts, readings: LaneReadings) -> Verdict:
    if not readings.values("host", "frequency_mean_mhz"):
        return _not_testable(Cause.CLOCKS, "this processor's clock cannot be read here")
    found = findings.drifting_processor(readings)
    clock = max(readings.values("host", "frequency_mean_mhz"))
    if found is None or max(found.evidence["changes"], key=abs) > 0:
        says = f"the processor's clock stays at {clock:,.0f} MHz"
        return Verdict(Cause.CLOCKS, "ruled out", says, {"frequency_mhz": clock})
    lost = -min(found.evidence["changes"])
    says = _without_name(found.says, facts)
    return Verdict(Cause.CLOCKS, "likely", says, dict(found.evidence), gain=1 / (1 - min(lost, 0.9)))


def _clock_gain(readings: LaneReadings) -> float | Missing:
    """Return the gain of the highest clock, if it is known."""
    now, most = readings.card_values("sm_clock_mhz"), readings.card_values("sm_clock_most_mhz")
    if not now or not most:
        return Missing("how high the clock could be was not read")
    return max(1.0, max(most) / (sum(now) / len(now)))


def _by_windows(
    cause: str, says: str, evidence: dict[str, Any], apart: Factor | None, gain: float | Missing | None = None
) -> Verdict:
    """Return "likely" for a state that exists, and "proven" if quiet windows show what it costs."""
    likely: float | Missing = Missing("no window was free of it") if gain is None else gain
    if apart is None:
        return Verdict(cause, "likely", says, evidence, gain=likely)
    told = {**evidence, "disturbed_windows": figures(apart)}
    if _is_slower(apart, 0.05):
        says = f"{says}; windows with that take {between(apart)} the time of those without"
        return Verdict(cause, "proven", says, told, gain=apart.ratio)
    return Verdict(cause, "likely", says, told, gain=likely)


def _apart(facts: WhyFacts, is_disturbed: Callable[[Window], bool | None]) -> Factor | None:
    told = disturbed_slowdowns(facts.lane, is_disturbed)
    return mean_factor(told) if len(told) > 1 else None


def _is_slower(apart: Factor, margin: float) -> bool:
    return not isinstance(apart.low, Missing) and apart.low > 1 + margin


def _reading_in(facts: WhyFacts, name: str, is_so: Callable[[float], bool]) -> Callable[[Window], bool | None]:
    """Return a test for windows: whether `is_so` holds for any reading within one; None if it has no reading."""
    readings = facts.readings()

    known = [points_of(heat.timeline, readings.card or "", name) for heat in readings.heats]
    points = [point for each in known if not isinstance(each, Missing) for point in each]

    def any_within(window: Window) -> bool | None:
        values = [value for time_s, value in points if window.start_ns <= time_s * 1e9 <= window.end_ns]
        return any(map(is_so, values)) if values else None

    return any_within


def _told_bytes(facts: WhyFacts) -> float:
    told = facts.lane.device.memory_bytes
    return 0.0 if isinstance(told, Missing) else float(told)


def _why_not(facts: WhyFacts, name: str) -> str:
    """Return why a card's channel has no readings."""
    readings = facts.readings()
    if not readings.heats:
        return NO_INSTRUMENT.missing
    return readings.heats[0].timeline.why_not(readings.card or facts.lane.device.name, name).missing


def _without_name(says: str, facts: WhyFacts) -> str:
    return says.removeprefix(f"{facts.lane.name}: ").rstrip(".")


def _not_testable(cause: str, says: str) -> Verdict:
    return Verdict(cause, "not testable here", says)
