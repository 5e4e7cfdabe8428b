"""What whole trainings answer, and by which rates they are compared."""

from __future__ import annotations

from collections.abc import Iterator

from laptime.model.record import LaneResult, QuestionAnswer, Record, TrainingAnswer, training_of
from laptime.questions.train.reduce import item_s, later_laps


def _rates_of_trainings(record: Record, lane: LaneResult) -> Iterator[float]:
    for run in training_of(record).runs:
        if run.process.lane == lane.name and run.laps:
            yield 1 / item_s(later_laps(run))


PART = QuestionAnswer(TrainingAnswer, _rates_of_trainings)
