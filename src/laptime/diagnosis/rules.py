"""The rules that every race is judged by, and the judging."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.diagnosis.card import full_card, held_back_card, shared_card, unused_card
from laptime.diagnosis.clocks import drifting_card, drifting_processor
from laptime.diagnosis.host import (
    faults_each_step,
    full_memory,
    held_back_by_quota,
    more_threads_than_cores,
    swapping,
)
from laptime.diagnosis.seen import Rule, see
from laptime.diagnosis.stepping import (
    denormal_numbers,
    loaders_beside,
    pauses_between_steps,
    shapes_that_compile,
    slow_at_first,
    values_read_each_step,
)
from laptime.model.machine import Machine
from laptime.model.record import Finding, LaneResult

# The order of judgement: is the device used at all, what state is it in, then the steps, then the host.
RULES: tuple[Rule, ...] = (
    unused_card,
    full_card,
    shared_card,
    held_back_card,
    drifting_card,
    slow_at_first,
    pauses_between_steps,
    values_read_each_step,
    shapes_that_compile,
    held_back_by_quota,
    more_threads_than_cores,
    full_memory,
    swapping,
    faults_each_step,
    denormal_numbers,
    drifting_processor,
)


def find_findings(lanes: Sequence[LaneResult], machine: Machine) -> tuple[Finding, ...]:
    """Judge each lane by each rule, and lanes that differ by their loader alone side by side."""
    seen = [see(lane, machine) for lane in lanes if lane.status == "ok"]
    found = (rule(each) for each in seen for rule in RULES)
    return (*(finding for finding in found if finding is not None), *loaders_beside(lanes))
