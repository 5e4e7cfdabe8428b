"""A lane's step, what it asks for, and what its device can do at most -> how near to the limit it comes."""

from __future__ import annotations

from laptime.model.limits import COPY, DevicePeaks, Roofline, StepWork
from laptime.model.missing import Missing


def place_under_roof(step_ms: float, precision: str, work: StepWork, peaks: DevicePeaks) -> Roofline | Missing:
    """Hold a step against its device's measured peaks; the side that would take longer at its peak binds."""
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
