"""The measured limits of a device, from what several frameworks reached; and how close a lane comes to them."""

from __future__ import annotations

from collections.abc import Mapping

from laptime.model.limits import COPY, DeviceKey, DevicePeaks, Peak, Roofline, StepWork
from laptime.model.missing import Missing

Told = Mapping[str, "Peak | Missing"]


def join_peaks(key: DeviceKey, measured: str, told: Mapping[str, Told]) -> DevicePeaks:
    """Take the best of all frameworks for each limit: what one of them reaches, the device can do.

    `told` holds, by framework, what it reached. Where none reached a limit, the reason of each is kept.
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


def place_under_roof(step_ms: float, precision: str, work: StepWork, peaks: DevicePeaks) -> Roofline | Missing:
    """Compare a step with its device's measured peaks; the limit that would take longer at its peak binds."""
    product, copy = peaks.peaks.get(precision), peaks.peaks.get(COPY)
    if product is None or copy is None:
        lacks = precision if product is None else COPY
        reason = peaks.absent.get(lacks, Missing("it was not tried"))
        what = "a copy" if lacks == COPY else f"products in {lacks}"
        return Missing(f"what {peaks.label} can do at most in {what} is not known: {reason.missing}")
    seconds = step_ms / 1e3
    flops_per_s, bytes_per_s = work.flops / seconds, work.bytes / seconds
    product_share, copy_share = flops_per_s / product.best_per_s, bytes_per_s / copy.best_per_s
    return Roofline(
        precision=precision,
        work=work,
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        product_share=product_share,
        copy_share=copy_share,
        binds="products" if product_share >= copy_share else "memory",
        share=max(product_share, copy_share),
        peaks=peaks,
    )
