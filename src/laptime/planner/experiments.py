"""Experiments of `why`: the lane that each experiment runs, or why the lane under study cannot have it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from laptime.errors import UsageError
from laptime.model.lane import AS_WRITTEN, Lane
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane
from laptime.model.why import Experiment
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts


@dataclass(frozen=True, slots=True)
class AskedLane:
    """The lane under study, and what its settings depend on."""

    lane: Lane
    planned: PlannedLane
    machine: Machine
    given: SubjectFacts


def plan_experiment(asked: AskedLane, experiment: Experiment) -> PlannedLane:
    """Return the lane of an experiment; raise UsageError if there can be none."""
    lane = parse_lane("/".join((asked.lane.framework, asked.planned.device.name, "+".join(experiment.settings))))
    preset = lane.preset if lane.preset != AS_WRITTEN else asked.lane.preset
    overrides = tuple({**dict(asked.lane.overrides), **dict(lane.overrides)}.items())
    wanted = replace(lane, preset=preset, overrides=overrides)
    return plan_lane(wanted, asked.machine, asked.given)


def check_experiments(asked: AskedLane, experiments: Iterable[Experiment]) -> tuple[Experiment, ...]:
    """Mark as absent the experiments that the lane refuses, or whose settings it already has."""
    return tuple(_checked(asked, each) for each in experiments)


def _checked(asked: AskedLane, experiment: Experiment) -> Experiment:
    if experiment.absent is not None:
        return experiment
    try:
        planned = plan_experiment(asked, experiment)
    except UsageError as error:
        return replace(experiment, absent=Missing(error.says))
    if planned.settings == asked.planned.settings:
        return replace(experiment, absent=Missing(f"the lane has {'+'.join(experiment.settings)} already"))
    return experiment
