"""Whether the training is where it is meant to be: a card that is here and not used, or one that has nothing to do."""

from __future__ import annotations

from laptime.diagnosis.card import IDLE_PERCENT
from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.words import share
from laptime.model.missing import Missing
from laptime.model.why import Verdict

NOT_ON_DEVICE = "not on the device"
READINGS_LEAST = 10


def not_on_device(case: Case) -> Verdict:
    """A card that a framework cannot use is named by the doctor's rules; one that idles by its own readings."""
    if case.unseen and case.on_processor:
        found = case.unseen[0]
        says = f"{found.says.rstrip('.')} ({found.advice})" if found.advice else found.says.rstrip(".")
        return Verdict(NOT_ON_DEVICE, "likely", says, {"unseen": [each.says for each in case.unseen]})
    return _on_processor(case) if case.on_processor else _on_card(case)


def _on_processor(case: Case) -> Verdict:
    usable = [
        device.name
        for framework in case.machine.frameworks
        for device in framework.devices
        if device.usable and device.kind != "cpu"
    ]
    cards = [each for each in case.machine.cards if each.computes]
    if not usable and not cards:
        says = "this machine has no device but its processor"
        return Verdict(NOT_ON_DEVICE, "not testable here", says, {"cards": 0})
    there = usable[0] if usable else "a card"
    says = f"the processor was asked for; {there} is there as well"
    return Verdict(NOT_ON_DEVICE, "ruled out", says, {"usable": usable, "cards": len(cards)})


def _on_card(case: Case) -> Verdict:
    seen = case.seen()
    readings = seen.values(seen.card, "busy_percent") if seen.card else []
    held = case.lane.device_memory_bytes
    if len(readings) >= READINGS_LEAST and max(readings) < IDLE_PERCENT:
        says = f"{case.lane.device.name} was idle in all {len(readings)} readings while the lane was timed"
        return Verdict(NOT_ON_DEVICE, "proven", says, {"busy_percent_most": max(readings)})
    busy = case.busy()
    told = [] if isinstance(busy, Missing) else [f"the device is busy for {share(busy)} of the time"]
    told += [] if isinstance(held, Missing) or not held else [f"our process holds {held / 1e6:,.0f} MB on it"]
    evidence = {"busy": None if isinstance(busy, Missing) else busy,
                "held_bytes": None if isinstance(held, Missing) else held}  # fmt: skip
    if told:
        return Verdict(NOT_ON_DEVICE, "ruled out", ", ".join(told), evidence)
    reason = busy.missing if isinstance(busy, Missing) else "nobody told what the device did"
    return Verdict(NOT_ON_DEVICE, "not testable here", f"whether the device works cannot be read: {reason}", evidence)
