"""What `import laptime` calls to ask a question. `functions.pyi` has the types, and is made by `make signatures`."""

from laptime.library.calls import plan
from laptime.library.results import QuestionCall
from laptime.model.questions import QUESTIONS
from laptime.questions.forecast.call import forecast

FUNCTIONS = [*(row.part(QuestionCall).ask for row in QUESTIONS), plan, forecast]
