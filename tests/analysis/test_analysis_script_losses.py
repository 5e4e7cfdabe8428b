"""Whether two lanes of a script did the same, by their first losses."""

from __future__ import annotations

import math

import pytest

from laptime.analysis.script_losses import judge_losses
from laptime.model.frameworks import SCRIPT
from laptime.model.machine import Device
from laptime.model.plan import PlannedLane
from laptime.model.process import Settings
from laptime.model.sample import AS_THE_SCRIPT, FirstLosses, ProofRun

CPU = Device("cpu", "cpu", "the processor", usable=True)
CARD = Device("cuda:0", "cuda", "a card", usable=True)
LOSSES = (2.3, 2.2, 2.1, 2.0)


def run_of(losses, after=()):
    return ProofRun(AS_THE_SCRIPT, losses, 0.0, 0.0, (), after=after)


def judged(losses, *, of=(LOSSES,), after=(), device=CPU, **settings):
    lane = PlannedLane("other", SCRIPT, device, Settings(**settings))
    proofs = [(run_of(each, after),) for each in losses]
    return judge_losses(lane, proofs, FirstLosses("cpu/as-written", "cpu", tuple(map(run_of, of))))


def by(share, losses=LOSSES):
    return tuple(each * (1 + share) for each in losses)


@pytest.mark.parametrize(
    ("found", "status", "says"),
    [
        (judged([LOSSES, LOSSES]), "same", None),
        (judged([by(5e-4)]), "same", None),
        (judged([by(0.02)]), "differs", "its losses differ from those of cpu/as-written by up to 2 %"),
        (judged([LOSSES, by(0.02)]), "differs", "by up to 2 %"),
        (judged([by(0.02)], device=CARD), "unproven", "as where each device draws its own random numbers"),
        (judged([by(0.02)], workers=2), "unproven", "as where worker processes draw random numbers"),
        (judged([by(0.02)], extra={"matmul": "medium"}), "same", None),
        (judged([by(0.2)], extra={"matmul": "medium"}), "unproven", "and it computes with fewer digits"),
        (judged([by(0.02)], denormals="flush"), "same", None),
        (judged([LOSSES], of=(LOSSES, by(0.1))), "unproven", "its losses differ from run to run, by up to 10 %"),
        (judged([()]), "unproven", "its losses were not seen"),
        (judged([LOSSES], of=()), "unproven", "its losses were not seen"),
        (judged([]), "unproven", "no heat came as far as its first steps"),
        (judged([(math.nan, *LOSSES[1:])]), "differs", "not a number"),
        (judged([(2.2, 2.0, 1.8)], after=(2, 4, 6), steps_per_execution=2), "same", None),
        (judged([(2.2, 1.9)], after=(2, 4), steps_per_execution=2), "differs", "by up to 5 %"),
        (
            judged([(1.5,)], after=(8,), steps_per_execution=8),
            "unproven",
            "behind none of these was a loss of cpu/as-w",
        ),
    ],
)
def test_a_lane_is_judged_by_its_first_losses(found, status, says):
    assert found.status == status
    assert (found.reason or "") == "" if says is None else says in found.reason


def test_the_distance_of_the_worst_heat_counts():
    found = judged([LOSSES, by(1e-5), LOSSES[:3]])
    assert found.worst == pytest.approx(1e-5)
    assert (found.steps, found.tolerance) == (3, 1e-3)
