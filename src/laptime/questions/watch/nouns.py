"""What a watched command answers."""

from laptime.model.record import QuestionAnswer
from laptime.model.watched import WatchAnswer

PART = QuestionAnswer(WatchAnswer)
