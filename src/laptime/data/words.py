"""Counts, sizes and places in the words that this room's sentences are made of."""

from __future__ import annotations

from laptime.model.workload import Workload


def size_words(count_bytes: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count_bytes >= unit:
            size = count_bytes / unit
            return f"{size:,.0f} {name}" if size >= 99.5 else f"{size:.3g} {name}"
    return f"{count_bytes:,.0f} bytes"


def count_words(workload: Workload, train: int, test: int) -> str:
    return f"{train:,} train and {test:,} test {workload.items}"
