"""By which rates two races are compared."""

from __future__ import annotations

from collections.abc import Iterator

from laptime.model.record import LaneResult, QuestionRates, Record


def _rates_of_heats(_record: Record, lane: LaneResult) -> Iterator[float]:
    for heat in lane.heats:
        if heat.step_ms and lane.items_per_step and not heat.hardly_counts:
            yield lane.items_per_step * 1e3 / heat.step_ms


PART = QuestionRates(_rates_of_heats)
