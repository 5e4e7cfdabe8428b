"""What is answered of answers: their times."""

from laptime.model.record import InferAnswer, QuestionAnswer

PART = QuestionAnswer(InferAnswer)
