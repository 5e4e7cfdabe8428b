"""What `import laptime` calls to ask a question. `functions.pyi` has the types, and is made by `make signatures`."""

from laptime.library.calls import infer, plan, profile, race, scale, sweep, train, tune, watch, why
from laptime.questions.forecast.call import forecast

FUNCTIONS = [race, train, infer, why, scale, tune, sweep, profile, watch, plan, forecast]
__all__ = ["forecast", "infer", "plan", "profile", "race", "scale", "sweep", "train", "tune", "watch", "why"]
