"""What several frameworks reached on one device -> what the device can do at most."""

from __future__ import annotations

from collections.abc import Mapping

from laptime.model.limits import DeviceKey, DevicePeaks, Peak
from laptime.model.missing import Missing

Told = Mapping[str, "Peak | Missing"]


def join_peaks(key: DeviceKey, measured: str, told: Mapping[str, Told]) -> DevicePeaks:
    """Take the best of all frameworks for each limit: what one of them reaches, the device can do.

    `told` has by framework what it reached. Where none did, each says why.
    """
    limits = dict.fromkeys(limit for each in told.values() for limit in each)
    peaks: dict[str, Peak] = {}
    absent: dict[str, Missing] = {}
    for limit in limits:
        by = {framework: each[limit] for framework, each in told.items() if limit in each}
        reached = [each for each in by.values() if isinstance(each, Peak)]
        if reached:
            peaks[limit] = max(reached, key=lambda peak: peak.best_per_s)
        else:
            absent[limit] = _why_not({name: each for name, each in by.items() if isinstance(each, Missing)})
    return DevicePeaks(key.device, key.label, key.driver, measured, peaks, absent)


def _why_not(reasons: Mapping[str, Missing]) -> Missing:
    return Missing("; ".join(f"{framework}: {each.missing}" for framework, each in reasons.items()))
