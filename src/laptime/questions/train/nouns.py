"""What whole trainings answer."""

from laptime.model.record import QuestionAnswer, TrainingAnswer

PART = QuestionAnswer(TrainingAnswer)
