"""Did a lane's network answer as the float64 reference does? As in parity.py, tolerances come from rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from laptime.analysis.parity import MARGIN, ROUNDING, TWIN_MARGIN, relative
from laptime.model.inference import AnswerReference, AnswerRun
from laptime.model.record import Parity

# An answer is not averaged over a batch, as a loss is: it keeps more of what rounding did.
ANSWER_MARGIN = 2.0


def judge_answers(proofs: Sequence[tuple[AnswerRun, ...]], reference: AnswerReference | str | None) -> Parity:
    """Hold every heat's answers against the reference; the worst heat speaks for the lane."""
    if reference is None or isinstance(reference, str):
        return Parity("unproven", reason=reference or "no reference was computed")
    if reference.problem:
        return Parity("unproven", reason=reference.problem)
    exact = [run for heat in proofs for run in heat if run.precision == "fp32"]
    coarse = [run for heat in proofs for run in heat if run.precision != "fp32"]
    if not exact:
        return Parity("unproven", reason="no heat came as far as the proof")
    precision = coarse[0].precision if coarse else None
    reason = next(filter(None, (_why_different(run, reference) for run in [*exact, *coarse])), None)
    return Parity(
        status="differs" if reason else "same",
        steps=1,
        worst=max(answer_distance(run, reference.exact) for run in exact),
        tolerance=answer_tolerance(reference, "fp32"),
        strays=max((answer_distance(run, reference.exact) for run in coarse), default=None),
        strays_tolerance=answer_tolerance(reference, precision) if precision else None,
        strays_precision=precision,
        reason=reason,
    )


def answer_distance(run: AnswerRun, exact: AnswerRun) -> float:
    """Give how far the answers are apart, as a share of their own length; by what was kept of them, and by all."""
    if run.count != exact.count or len(run.values) != len(exact.values):
        return math.inf
    apart = math.dist(run.values, exact.values) / max(math.hypot(*exact.values), 1e-30)
    return max(apart, relative(run.length, exact.length))


def answer_tolerance(reference: AnswerReference, precision: str) -> float:
    """Give what answers may differ by: the rounding of so many layers, or what the float32 twin strays."""
    floor = ANSWER_MARGIN * MARGIN[precision] * ROUNDING[precision] * math.sqrt(reference.depth)
    if precision != "fp32":
        return floor
    return max(floor, TWIN_MARGIN * answer_distance(reference.twin, reference.exact))


def _why_different(run: AnswerRun, reference: AnswerReference) -> str | None:
    if run.count != reference.exact.count:
        return f"it gives {run.count:,} numbers, the reference {reference.exact.count:,}"
    distance, allowed = answer_distance(run, reference.exact), answer_tolerance(reference, run.precision)
    if distance <= allowed:
        return None
    return f"its answers differ by {distance:.0e} in {run.precision} ({allowed:.0e} allowed)"
