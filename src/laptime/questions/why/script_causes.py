"""Causes in the code of a script, next to its training: evaluation, checkpoints, waits for the disk; with their lines.

The script's own agent timed them within its steps, so each has a gain without an experiment: it is what would be left.
"""

from __future__ import annotations

from collections.abc import Callable
from math import fsum

from laptime.model.digits import count, percent
from laptime.model.symptoms import TimedPlace
from laptime.questions.why.facts import WhyFacts, places_of
from laptime.questions.why.nouns import Cause, Verdict
from laptime.questions.why.step_causes import TIMED, WORTH

LINES_MOST = 3
NAMED = 0.2  # of the time of the line that takes longest
LEAST_LEFT = 0.02  # of a step


def is_script(facts: WhyFacts) -> bool:
    """Whether the lane is a script whose lines were timed."""
    return facts.symptoms is not None and places_of(facts.symptoms) is not None


def timed_places(cause: Cause) -> Callable[[WhyFacts], Verdict]:
    """Return the rule for what the script does next to its training."""

    def judge(facts: WhyFacts) -> Verdict:
        symptoms = facts.symptoms
        known = None if symptoms is None else places_of(symptoms)
        if symptoms is None or known is None:
            return Verdict(cause, "not tested", "the lines of this script were not timed")
        places, wall_ns = known
        mine = [each for each in places if each.what == cause]
        share = fsum(each.ns for each in mine) / wall_ns
        says = f"{cause} {_takes(cause)} {percent(share)} of the steps"
        if not mine:
            return Verdict(cause, "ruled out", f"{says}: none was seen within them", {TIMED: share})
        says += f": {', '.join(_line(each, symptoms.steps) for each in mine[:LINES_MOST])}"
        most = [each.where for each in mine if each.where and each.ns >= NAMED * mine[0].ns]
        evidence = {TIMED: share, "where": most, "steps": symptoms.steps}
        if share < WORTH:
            return Verdict(cause, "ruled out", says, evidence)
        return Verdict(cause, "likely", says, evidence, gain=1 / max(1 - share, LEAST_LEFT))

    return judge


def name_places(verdict: Verdict) -> str:
    """Name what takes the time, and the lines that do it."""
    where = verdict.evidence.get("where", [])[:LINES_MOST]
    at = f" at {' and '.join(where)}" if where else ""
    return f"{verdict.cause}{at} {_takes(verdict.cause)} {percent(verdict.evidence[TIMED])} of its steps"


def _takes(cause: str) -> str:
    return "take" if cause == Cause.CHECKPOINTS else "takes"


def _line(place: TimedPlace, steps: int) -> str:
    where = place.where or "a line of a library"
    often = place.times / steps if steps else 0.0
    if often >= 1:
        return f"{where} ({count(often)} times a step)"
    return f"{where} (every {count(1 / often)} steps)" if often else where
