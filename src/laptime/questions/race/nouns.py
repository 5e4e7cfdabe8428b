"""What a race answers."""

from laptime.model.record import QuestionAnswer, RaceAnswer

PART = QuestionAnswer(RaceAnswer)
