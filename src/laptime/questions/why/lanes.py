"""Experiments of `why`: the lane that each experiment runs, or why the lane under study cannot have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

from laptime.errors import UsageError
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane
from laptime.model.process import AS_WRITTEN, Lane
from laptime.planner.lanes import parse_lane
from laptime.planner.settings import PRESETS
from laptime.questions.why.nouns import ONLY_A_LANE, Experiment


@dataclass(frozen=True, slots=True)
class AskedLane:
    """The lane under study, and how a lane of the same training is planned."""

    lane: Lane
    planned: PlannedLane
    plan: Callable[[Lane], PlannedLane]


def plan_experiment(asked: AskedLane, experiment: Experiment) -> PlannedLane:
    """Return the lane of an experiment; raise UsageError if there can be none."""
    lane = parse_lane("/".join((asked.planned.device.name, "+".join(experiment.settings))))
    preset = lane.preset if lane.preset != AS_WRITTEN else asked.lane.preset
    overrides = tuple({**dict(asked.lane.overrides), **dict(lane.overrides)}.items())
    return asked.plan(replace(lane, framework=asked.lane.framework, preset=preset, overrides=overrides))


def check_experiments(asked: AskedLane, experiments: Iterable[Experiment]) -> tuple[Experiment, ...]:
    """Mark as absent the experiments that the lane refuses, or whose settings it already has.

    The code of a preset is that of the experiments whose settings it has.
    """
    checked = [_checked(asked, each) for each in experiments]
    possible = [each for each in checked if each.absent is None]
    changes = {each.settings: _changed(asked, plan_experiment(asked, each)) for each in possible}
    return tuple(
        replace(each, code=_code_of(changes[each.settings], possible, changes) or each.code)
        if each in possible and each.settings[0] in PRESETS
        else each
        for each in checked
    )


def _changed(asked: AskedLane, lane: PlannedLane) -> set[tuple[str, object]]:
    """Return the settings in which a lane differs from the lane under study."""
    mine, theirs = (asdict(each.settings) for each in (lane, asked.planned))
    return {(name, str(value)) for name, value in mine.items() if name != "preset" and value != theirs[name]}


def _code_of(
    wanted: set[tuple[str, object]],
    experiments: Iterable[Experiment],
    changes: dict[tuple[str, ...], set[tuple[str, object]]],
) -> str:
    """Return the code of all experiments that together make these changes; what only races a lane is no code."""
    parts = (
        each.code
        for each in experiments
        if each.settings[0] not in PRESETS and set() < changes[each.settings] <= wanted
    )
    return "; ".join(dict.fromkeys(part for part in parts if part and not part.startswith(ONLY_A_LANE)))


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
