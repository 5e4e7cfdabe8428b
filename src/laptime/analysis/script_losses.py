"""Did a script do the same on two lanes? Its first losses are compared, since nobody else can run what it does."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from laptime.analysis.parity import relative
from laptime.model.plan import PlannedLane
from laptime.model.process import Settings
from laptime.model.quantities import brief
from laptime.model.record import Parity
from laptime.model.sample import FirstLosses, ProofRun

# Rounding grows from step to step; ten steps of correct float32 lanes stay far below this, other data or seeds above.
TIME_TOLERANCE = 1e-3
REDUCED_TOLERANCE = 0.05  # where a lane computes with fewer digits
OTHER_STEPS = "it takes several steps in a call, and behind none of these was a loss of {} read"
NO_LOSSES = "its losses were not seen: none is a single number that goes through backward()"


def judge_losses(lane: PlannedLane, proofs: Sequence[tuple[ProofRun, ...]], reference: FirstLosses) -> Parity:
    """Compare a lane's first losses with those of the first lane.

    On another device, or in worker processes, random numbers may differ. Elsewhere other losses are other work.
    """
    mine = [run for heat in proofs for run in heat if run.losses]
    theirs = [run for run in reference.heats if run.losses]
    if not proofs:
        return Parity("unproven", reason="no heat came as far as its first steps")
    if not mine or not theirs:
        return Parity("unproven", reason=NO_LOSSES)
    varies = max(_distance(theirs[0], proof) for proof in theirs)
    if varies > TIME_TOLERANCE:
        says = f"its losses differ from run to run, by up to {brief(100 * varies)} %, although laptime sets its seeds"
        return Parity("unproven", reason=says)
    steps = min(max(theirs[0].by_step.keys() & proof.by_step.keys(), default=0) for proof in mine)
    if not steps:
        return Parity("unproven", reason=OTHER_STEPS.format(reference.lane))
    worst = max(_distance(theirs[0], proof) for proof in mine)
    allowed = REDUCED_TOLERANCE if changes_arithmetic(lane.settings) else TIME_TOLERANCE
    if worst <= allowed:
        return Parity("same", steps, worst, allowed)
    says = f"its losses differ from those of {reference.lane} by up to {brief(100 * worst)} %"
    if lane.settings.batch is not None or lane.settings.joined is not None:
        return Parity("unproven", steps, worst, allowed, reason=f"{says}, as where a batch has other items")
    # Why the lane's random numbers may be others than the reference's; None if they are the same
    if lane.device.kind != reference.device_kind:
        draws = ", as where each device draws its own random numbers"
    elif lane.settings.workers is not None:
        draws = ", as where worker processes draw random numbers"
    elif lane.settings.is_compiled:
        draws = ", as where compiled code draws its own random numbers"
    else:
        draws = None
    if draws is None and allowed == TIME_TOLERANCE:
        return Parity("differs", steps, worst, allowed, reason=says, kind="other computation")
    return Parity("unproven", steps, worst, allowed, reason=f"{says}{draws or ', and it computes with fewer digits'}")


def changes_arithmetic(settings: Settings) -> bool:
    """Whether a lane's settings change what a script's numbers are computed in."""
    return settings.value_of("matmul") is not None or settings.denormals == "flush" or settings.precision != "fp32"


def _distance(one: ProofRun, other: ProofRun) -> float:
    """Return the largest relative distance of two losses of one step. One that is not finite is as far as can be.

    Where Keras takes several steps in a call, both losses are the mean of the epoch so far.
    """
    wanted = one.by_step
    found = [relative(value, wanted[step]) for step, value in other.by_step.items() if step in wanted]
    return max((float("inf") if isnan(distance) else distance for distance in found), default=0.0)
