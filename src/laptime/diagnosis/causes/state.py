"""In what state the device is: its memory nearly full, others on it, its clocks lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.analysis.across import bounds
from laptime.analysis.readings import points_of
from laptime.diagnosis.card import FULL, HEAT_BITS, HELD_BACK_SHARE, POWER_BITS
from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.weigh import Signature, weigh
from laptime.diagnosis.causes.words import between, counted, few, share
from laptime.diagnosis.clocks import drifting_processor
from laptime.diagnosis.host import full_memory, swapping
from laptime.diagnosis.seen import Seen, share_of
from laptime.diagnosis.steps import others_cores, others_in, windows_apart
from laptime.model.missing import Missing
from laptime.model.sample import Window
from laptime.model.timeline import Timeline
from laptime.model.why import Factor, Verdict
from laptime.stats import log_mean_interval

MEMORY_FULL, SHARED, CLOCKS = "device memory full", "device shared", "clocks lowered"
MUCH_OTHER, LITTLE_OTHER = 0.3, 0.1  # cores
ALPHA = 0.05
NO_READING = "no instrument was read"


def memory_full(case: Case) -> Verdict:
    """Half a batch is faster an item only where memory was the trouble."""
    if case.on_processor:
        return weigh(case, MEMORY_FULL, _host_memory(case), ["half batch"])
    seen = case.seen()
    used = _values(seen, "memory_used_bytes")
    there = _values(seen, "memory_total_bytes")
    total = max(there, default=0.0) or _told_bytes(case)
    if not used or not total:
        why = _why_not(case, "memory_used_bytes")
        sign = Signature(None, f"how full the device's memory is cannot be read: {why}")
        verdict = weigh(case, MEMORY_FULL, sign, ["half batch"])
        return verdict if case.factor("half batch") else _not_testable(MEMORY_FULL, sign.says)
    full = max(used) / total
    says = f"{max(used) / 1e9:.1f} of the device's {total / 1e9:.1f} GB are used, {share(full)}"
    evidence = {"used_bytes": max(used), "total_bytes": total}
    return weigh(case, MEMORY_FULL, Signature(full > FULL, says, evidence), ["half batch"] if full > FULL else [])


def _host_memory(case: Case) -> Signature:
    """A processor computes in the host's memory."""
    seen = case.seen()
    found = swapping(seen) or full_memory(seen)
    if found is not None:
        return Signature(True, _without_name(found.says, case), dict(found.evidence))
    free = min(seen.values("host", "memory_available_bytes"), default=None)
    if free is None:
        return Signature(None, "how full the memory is was not read")
    total = case.machine.memory_bytes
    says = f"{free / 1e9:.1f} of {total / 1e9:.1f} GB of memory are free, and nothing lies in swap"
    return Signature(False, says, {"available_bytes": free, "total_bytes": total})


def shared(case: Case) -> Verdict:
    """Windows in which others worked are the experiment: they are held against the quiet ones of the same heat."""
    if case.on_processor:
        return _shared_processor(case)
    others = _values(case.seen(), "foreign_processes")
    if not others:
        says = f"whether others are on the device cannot be read: {_why_not(case, 'foreign_processes')}"
        return _not_testable(SHARED, says)
    held = max(_values(case.seen(), "foreign_memory_bytes"), default=0.0)
    count = max(others)
    if count < 1:
        return Verdict(SHARED, "ruled out", "no other process is on the device", {"processes": 0.0})
    says = f"{count:.0f} other process{'es' * (count > 1)} on the device, holding {held / 1e9:.1f} GB"
    apart = _apart(case, _reading_in(case, "foreign_processes", lambda value: value >= 1))
    return _by_windows(SHARED, says, {"processes": count, "memory_bytes": held}, apart)


def _shared_processor(case: Case) -> Verdict:
    """Half a core and more that others take is missing in every step that uses all cores."""
    other = others_cores(case.lane)
    if other is None:
        return _not_testable(SHARED, "what other processes take of the processor was not read")
    says = f"other processes take {few(other)} of {case.cores} cores"
    evidence = {"other_cores": other, "cores": case.cores}
    apart = _apart(case, _is_much_other)
    if other < MUCH_OTHER and not (apart is not None and _is_slower(apart, case.margin) and other >= LITTLE_OTHER):
        return Verdict(SHARED, "ruled out", says, evidence)
    gain = case.cores / max(case.cores - other, 1.0)
    return _by_windows(SHARED, says, evidence, apart, gain)


def _is_much_other(window: Window) -> bool | None:
    other = others_in(window)
    if other is None or LITTLE_OTHER < other < MUCH_OTHER:
        return None
    return other >= MUCH_OTHER


def clocks_lowered(case: Case) -> Verdict:
    """Readings tell when the driver held the clocks back, and windows what that cost."""
    seen = case.seen()
    if case.on_processor:
        return _processor_clocks(case, seen)
    bits = _values(seen, "clock_reasons")
    if not bits:
        why = _why_not(case, "clock_reasons")
        return _not_testable(CLOCKS, f"why the device's clocks stand as they do cannot be read: {why}")
    hot = share_of(bits, lambda value: bool(int(value) & HEAT_BITS))
    capped = share_of(bits, lambda value: bool(int(value) & POWER_BITS))
    worst = max(hot, capped)
    evidence = {"heat_share": hot, "power_share": capped}
    if worst <= HELD_BACK_SHARE:
        says = f"the driver lowered the clocks in {share(worst)} of {counted(len(bits))} readings"
        return Verdict(CLOCKS, "ruled out", says, evidence)
    reason = "too hot" if hot >= capped else "at its limit of power"
    says = f"the driver lowered the clocks in {share(worst)} of readings: {reason}"
    mask = HEAT_BITS if hot >= capped else POWER_BITS
    apart = _apart(case, _reading_in(case, "clock_reasons", lambda value: bool(int(value) & mask)))
    return _by_windows(CLOCKS, says, evidence, apart, _clock_gain(seen))


def _processor_clocks(case: Case, seen: Seen) -> Verdict:
    if not seen.values("host", "frequency_mean_mhz"):
        return _not_testable(CLOCKS, "this processor's clock cannot be read here")
    found = drifting_processor(seen)
    clock = max(seen.values("host", "frequency_mean_mhz"))
    if found is None or max(found.evidence["changes"], key=abs) > 0:
        says = f"the processor's clock stays at {clock:,.0f} MHz"
        return Verdict(CLOCKS, "ruled out", says, {"frequency_mhz": clock})
    lost = -min(found.evidence["changes"])
    says = _without_name(found.says, case)
    return Verdict(CLOCKS, "likely", says, dict(found.evidence), gain=1 / (1 - min(lost, 0.9)))


def _clock_gain(seen: Seen) -> float | Missing:
    """Give what the highest clock would gain, where it is known: computing takes as long as its clock is slow."""
    now, most = _values(seen, "sm_clock_mhz"), _values(seen, "sm_clock_most_mhz")
    if not now or not most:
        return Missing("how high the clock could be was not read")
    return max(1.0, max(most) / (sum(now) / len(now)))


def _by_windows(
    cause: str, says: str, evidence: dict[str, Any], apart: Factor | None, gain: float | Missing | None = None
) -> Verdict:
    """A state that is there is likely; where quiet windows show what it costs, it is proven."""
    likely: float | Missing = Missing("no window was free of it") if gain is None else gain
    if apart is None:
        return Verdict(cause, "likely", says, evidence, gain=likely)
    told = {**evidence, "disturbed_windows": [apart.ratio, *_ends(apart)]}
    if _is_slower(apart, 0.05):
        says = f"{says}; windows with that take {between(apart)} the time of those without"
        return Verdict(cause, "proven", says, told, gain=apart.ratio)
    return Verdict(cause, "likely", says, told, gain=likely)


def _apart(case: Case, is_disturbed: Callable[[Window], bool | None]) -> Factor | None:
    told = windows_apart(case.lane, is_disturbed)
    if len(told) < 2:
        return None
    interval = log_mean_interval(told, ALPHA)
    return Factor(interval.estimate, *bounds(interval))


def _is_slower(apart: Factor, margin: float) -> bool:
    return not isinstance(apart.low, Missing) and apart.low > 1 + margin


def _reading_in(case: Case, name: str, is_so: Callable[[float], bool]) -> Callable[[Window], bool | None]:
    """Tell of a window whether any reading within it is so; nothing, where none fell into it."""
    seen = case.seen()

    def judge(window: Window) -> bool | None:
        values = [value for line in _timelines(seen) for value in _within(line, seen.card or "", name, window)]
        return any(map(is_so, values)) if values else None

    return judge


def _timelines(seen: Seen) -> list[Timeline]:
    return [heat.timeline for heat in seen.heats]


def _within(line: Timeline, device: str, name: str, window: Window) -> list[float]:
    points = points_of(line, device, name)
    if isinstance(points, Missing):
        return []
    return [value for time_s, value in points if window.start_ns <= time_s * 1e9 <= window.end_ns]


def _values(seen: Seen, name: str) -> list[float]:
    return seen.values(seen.card, name) if seen.card else []


def _told_bytes(case: Case) -> float:
    told = case.lane.device.memory_bytes
    return 0.0 if isinstance(told, Missing) else float(told)


def _why_not(case: Case, name: str) -> str:
    """Give the reason for which a card's channel shows nothing."""
    seen = case.seen()
    if not seen.heats:
        return NO_READING
    return seen.heats[0].timeline.why_not(seen.card or case.lane.device.name, name).missing


def _without_name(says: str, case: Case) -> str:
    return says.removeprefix(f"{case.lane.name}: ").rstrip(".")


def _not_testable(cause: str, says: str) -> Verdict:
    return Verdict(cause, "not testable here", says)


def _ends(factor: Factor) -> tuple[float | None, float | None]:
    low, high = (None if isinstance(end, Missing) else end for end in (factor.low, factor.high))
    return low, high
