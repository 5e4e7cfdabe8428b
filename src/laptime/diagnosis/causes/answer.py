"""All that is known of a lane -> the whole answer: the verdict, parts, ceilings, causes and remedies."""

from __future__ import annotations

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.parts import ceilings, split
from laptime.diagnosis.causes.promising import order_experiments
from laptime.diagnosis.causes.remedies import remedies
from laptime.diagnosis.causes.rules import judge_causes
from laptime.diagnosis.causes.trust import find_distrust
from laptime.diagnosis.causes.verdict import sum_up
from laptime.model.why import Why

__all__ = ["explain", "order_experiments"]


def explain(case: Case, missing: tuple[str, ...] = ()) -> Why:
    """Judge every cause; `missing` are the experiments that were worth their time and had no room in the budget."""
    verdicts = judge_causes(case)
    says, first = sum_up(case, verdicts)
    distrust = find_distrust(case)
    return Why(
        lane=case.lane.name,
        says=says,
        first=first,
        parts=split(case),
        ceilings=ceilings(case),
        causes=verdicts,
        remedies=remedies(case, case.trials),
        missing=missing,
        trusted=distrust is None,
        distrust=distrust,
    )
