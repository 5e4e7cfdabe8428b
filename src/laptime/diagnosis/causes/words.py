"""Figures in the sentences of a verdict."""

from __future__ import annotations

from laptime.model.missing import Missing
from laptime.model.why import Factor

# What a lane did otherwise in an experiment, for sentences of the form "... it is 3.7x as fast".
DID = {
    "loader": "its loader alone",
    "copy": "its copy to the device alone",
    "compute": "on batches that are already there",
    "decoded": "on decoded batches kept in memory",
    "workers": "with worker processes",
    "fast": "with laptime's loader",
    "one": "on one batch again and again",
    "batch 2x": "at twice the batch",
    "batch 4x": "at four times the batch",
    "half batch": "at half the batch",
    "compile": "compiled",
    "graph": "as one CUDA graph",
    "strides": "with several steps at once",
    "layout": "in channels-last layout",
    "fused": "with a fused optimizer",
    "bf16": "in bf16",
    "tf32": "in TF32",
    "best": "at its best",
    "threads": "with as many threads as cores",
    "one thread": "with one thread",
    "keep": "with freed memory kept",
    "flush": "with denormals taken for nought",
    "deferred": "with its reads put off",
}


def did(name: str) -> str:
    return DID.get(name, name)


def times(ratio: float) -> str:
    """Give a factor: two digits after the point, fewer where it is large."""
    size = abs(ratio)
    return f"{ratio:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}x"


def between(factor: Factor) -> str:
    """Give a factor with its interval."""
    if isinstance(factor.low, Missing) or isinstance(factor.high, Missing):
        return f"{times(factor.ratio)} (no interval)"
    return f"{times(factor.ratio)} ({times(factor.low)[:-1]} to {times(factor.high)[:-1]})"


def share(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.0095 or value <= 0 else f"{100 * value:.1f} %"


def taken(ms: float) -> str:
    """Give a time with three digits and a unit that fits."""
    per_unit, unit = next(((per, unit) for per, unit in ((1e3, "s"), (1.0, "ms")) if ms >= per), (1e-3, "µs"))
    return f"{ms / per_unit:.3g} {unit}"


def counted(value: float) -> str:
    """Give a count that may be a mean."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def cores(count: float) -> str:
    said = few(count)
    return f"{said} core{'s' * (said != '1')}"


def few(count: float) -> str:
    """Give a small number that may be a mean: what is next to nothing is nothing."""
    return f"{count if count >= 0.005 else 0:.2g}"
