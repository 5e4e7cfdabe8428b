"""What is answered of answers, and by which rates they are compared."""

from __future__ import annotations

from collections.abc import Iterator

from laptime.model.record import InferAnswer, LaneResult, QuestionAnswer, Record, inference_of
from laptime.questions.infer.reduce import single_item_ms


def _rates_of_answers(record: Record, lane: LaneResult) -> Iterator[float]:
    for infer_lane in inference_of(record).lanes:
        if infer_lane.lane == lane.name:
            yield from (1e3 / ms for heat in infer_lane.heats if (ms := single_item_ms(heat)))


PART = QuestionAnswer(InferAnswer, _rates_of_answers)
