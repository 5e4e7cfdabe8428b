"""How long a step's own Python computes between its operators, which no faster device makes shorter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from torch.profiler import ProfilerActivity, profile

from laptime.core_score import measure_core

USUAL_S = 25e-6  # between two operators of a plain training: its Python, autograd, and the profiler itself
MORE = 1.5  # times the usual: less is not told from it
OFTEN, PATIENCE_S = 3, 1.0  # steps at most, and the time for them: the least counts


def time_between(step: Callable[[Any], object], batch: Any) -> tuple[float, float]:
    """Return the seconds of a step in which no operator ran, beyond the usual, and how fast one core was meanwhile.

    The seconds are 0 unless they are half as much more than usual. Operators on a processor run one after another, so
    what is between them is Python, or waits.
    """
    found: list[tuple[float, float]] = []
    began_s = time.perf_counter()
    while len(found) < OFTEN and (not found or time.perf_counter() - began_s < PATIENCE_S):
        score = measure_core()
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            starts_s = time.perf_counter()
            step(batch)
            took_s = time.perf_counter() - starts_s
        spans = list(outermost((each.time_range.start, each.time_range.end) for each in seen.events() if _is_one(each)))
        usual_s = USUAL_S * len(spans)
        between_s = took_s - sum(end - start for start, end in spans) / 1e6
        more_s = between_s - usual_s if between_s > MORE * usual_s else 0.0
        found.append((more_s, (score + measure_core()) / 2))
    return min(found)


def _is_one(event: Any) -> bool:
    """Whether an event is an operator. What autograd calls one in has a name of its own."""
    return "::" in event.name and not event.name.startswith("autograd::")


def outermost(spans: Iterable[tuple[float, float]]) -> Iterable[tuple[float, float]]:
    """Yield the spans that lie in no other one, as they follow."""
    end = float("-inf")
    for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        if stop > end:
            yield max(start, end), stop
            end = stop
