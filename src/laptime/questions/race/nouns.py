"""What a race answers, and by which rates two of them are compared."""

from __future__ import annotations

from collections.abc import Iterator

from laptime.model.record import LaneResult, QuestionAnswer, RaceAnswer, Record


def _rates_of_heats(_record: Record, lane: LaneResult) -> Iterator[float]:
    for heat in lane.heats:
        if heat.step_ms and lane.items_per_step and not heat.hardly_counts:
            yield lane.items_per_step * 1e3 / heat.step_ms


PART = QuestionAnswer(RaceAnswer, _rates_of_heats)
