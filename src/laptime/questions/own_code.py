"""A user's own code: what kind of training its function returns, and when its errors end a question.

An error of this code meets every lane, so it is reported once, with its place, and not lane by lane. An error that may
be one lane's alone (memory, a device, a setting) is not: so a question ends only where nothing of the training has
worked yet, and where the error has met every framework and kind of device in the race.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laptime.errors import TrainingError
from laptime.model.ask import Ask
from laptime.model.frameworks import FrameworkRow, find_framework
from laptime.model.lane import Lane
from laptime.model.machine import Device, Framework, Machine
from laptime.model.plan import OwnTraining, Plan, PlannedLane, Subject
from laptime.planner.batches import cuts_batches
from laptime.planner.frameworks import default_framework
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import name_device
from laptime.planner.refusals import refuse_kind
from laptime.questions.sweep.cells import read_axes
from laptime.run.launchers import LOCAL, Launcher
from laptime.run.runner import ProcessRunner
from laptime.run.scout import Failure, ask_training, scout_with_training

PROCESSOR = Device("cpu", "cpu", "the processor", usable=True)
STEPS = ("jax", "torch", "python")  # the families of frameworks that run a step function
ON_LOAD = "load"  # the file's import or its function raised, before anything was placed on a device
IN_PLACE = ("own", ON_LOAD)  # errors that name file and line
TRACEBACK = "Traceback (most recent call last):\n"  # what follows says where a script failed, and is enough
BY_ITS_CODE = (*IN_PLACE, "exit", "error", "TrainingError")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of a training before it runs: what kind it is, and what the framework sees that was asked."""

    own: OwnTraining | None = None
    seen: Framework | None = None


class OwnCode:
    """Ends a question with a TrainingError as soon as a training's own code keeps all its lanes from running."""

    def __init__(self, plan: Plan) -> None:
        self._subject_of = plan.subject_of
        self._untried = {
            training.name: {
                (lane.framework, lane.device.kind) for lane in plan.lanes if plan.subject_of(lane) == training
            }
            for training in plan.subjects
        }
        self._works = {training.name for training in plan.subjects if training.is_built_in}

    def look_at(self, lane: PlannedLane, runner: ProcessRunner) -> None:
        """Note how a lane's process ended, or how far it came."""
        if runner.works:
            self.note_success(lane)
        elif runner.failed is not None:
            failed = runner.failed
            printed = runner.printed.replace(TRACEBACK, "") if self._subject_of(lane).command else ""
            self.note_failure(lane, Failure(failed.reason, failed.kind, failed.source or printed))

    def note_success(self, lane: PlannedLane) -> None:
        """Note that the first steps of a lane's training ran without an error."""
        self._works.add(self._subject_of(lane).name)

    def note_failure(self, lane: PlannedLane, failure: Failure) -> None:
        """Raise a TrainingError if no lane is left that could run."""
        name = self._subject_of(lane).name
        if name in self._works or failure.kind not in BY_ITS_CODE:
            return
        row, kind = find_framework(lane.framework), lane.device.kind
        is_everywhere = failure.kind == ON_LOAD and not row.is_opaque
        untried = self._untried[name]
        untried -= {each for each in untried if each[0] == row.name and (is_everywhere or each[1] == kind)}
        if not untried:
            raise say_failure(name, failure)


def say_failure(name: str, failure: Failure) -> TrainingError:
    """Return an error that names the training, or the place in its file."""
    is_named = failure.kind in IN_PLACE or failure.source or failure.reason.startswith(name.partition(":")[0])
    return TrainingError(failure.reason if is_named else f"{name}: {failure.reason}", failure.source)


def inspect_training(ask: Ask, machine: Machine, subject: Subject, launcher: Launcher = LOCAL) -> Inspection:
    """Call the user's function once, before anything else runs, if the text of its file does not say enough.

    The process that calls it scouts its framework first. Refuse lanes whose framework cannot run what it returns.
    `own` is None if the call is not needed, or did not work for a reason that a lane will show. Raise a TrainingError
    if the user's code raised.
    """
    framework = _framework_to_ask(ask, machine, subject)
    if framework is None:
        return Inspection()
    environment = name_device(framework.name, PROCESSOR)
    seen, told = scout_with_training(framework, subject, environment, ask.patience_s, launcher)
    if isinstance(told, Failure) and told.kind in BY_ITS_CODE and seen is not None and _may_have_started(seen):
        told = ask_training(framework.name, subject, environment, ask.patience_s, launcher)
    if isinstance(told, OwnTraining):
        for text in ask.lanes:
            refuse_kind(find_framework(parse_lane(text).framework), told, subject.name)
        return Inspection(told, seen)
    if told.kind in BY_ITS_CODE:
        raise say_failure(subject.name, told)
    return Inspection(seen=seen)


def _may_have_started(seen: Framework) -> bool:
    """Whether a scout may have started devices, which some code cannot bear: it configures them, or forks."""
    has_card = any(each.usable and each.kind != PROCESSOR.kind for each in seen.devices)
    return has_card or not find_framework(seen.name).engine.starts_late


def family_of(training: OwnTraining, subject: Subject) -> str | None:
    """Return the family of frameworks that can run a training."""
    if training.kind == "step":
        return subject.written_for if subject.written_for in STEPS else "python"
    return subject.written_for if training.kind == "other" else training.kind


def _framework_to_ask(ask: Ask, machine: Machine, subject: Subject) -> Framework | None:
    """Return the framework in whose process the function is called, or None if nothing is to be found out."""
    lanes = [parse_lane(text) for text in ask.lanes]
    rows = [row for row in (find_framework(lane.framework) for lane in lanes) if row.runs_own_code]
    if subject.file is None or len(rows) < len(lanes):
        return None
    fits = all(_may_run(row, subject.written_for) for row in rows)
    on_cards = any(row.is_opaque and lane.device != "cpu" for row, lane in zip(rows, lanes, strict=True))
    if subject.written_for is not None and fits and not _changes_data(ask, lanes) and not on_cards:
        return None
    guess = default_framework(machine, subject) if subject.written_for is not None or not rows else rows[0].name
    able = [guess, *(row.name for row in rows), *(each.name for each in machine.frameworks)]
    views = (machine.framework(name) for name in able)
    return next((view for view in views if view is not None and view.problem is None), None)


def _changes_data(ask: Ask, lanes: Sequence[Lane]) -> bool:
    """Whether a lane may have other batches or workers than the user's data, which these have to allow."""
    named = [setting for lane in lanes for setting in lane.overrides]
    if any(key == "workers" or (key == "batch" and cuts_batches(value)) for key, value in named):
        return True
    swept = () if ask.sweep is None else [axis.name for axis in read_axes(ask.sweep)]
    return bool(
        ask.batches
        or (ask.full is not None and ask.full.batches)
        or ask.tune is not None
        or not {"batch", "workers"}.isdisjoint(swept)
    )


def _may_run(row: FrameworkRow, family: str | None) -> bool:
    return row.family == family or (row.family in STEPS and family in STEPS)
