"""What profiles answer."""

from laptime.model.record import ProfileAnswer, QuestionAnswer

PART = QuestionAnswer(ProfileAnswer)
