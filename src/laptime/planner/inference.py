"""How many heats of inference, and how long each part of one, within the budget; and lanes that cannot be asked."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.inference import BATCHES, InferPace
from laptime.model.lane import NO_TRAINING
from laptime.model.plan import Plan
from laptime.planner.keras import check_answers
from laptime.planner.pace import HEATS_LEAST, OVERHEAD_S

PARTS = 1 + len(BATCHES)  # the single calls, then each batch size
PART_LEAST_S = 0.4
PART_MOST_S = 2.0  # quick calls are known well by then
PATIENCE_PARTS = 3
WINDOWS_A_PART = 10


def choose_infer_pace(ask: Ask, lanes: int) -> InferPace:
    """Give each part of each heat an equal share of the budget, within reason."""
    heats = ask.heats or HEATS_LEAST
    share_s = max((ask.budget_s / max(lanes, 1) / heats - OVERHEAD_S) / PARTS, PART_LEAST_S)
    part_s = min(share_s, PART_MOST_S)
    return InferPace(heats, part_s, part_s / WINDOWS_A_PART, max(PATIENCE_PARTS * share_s, PART_MOST_S))


def check_infer_lanes(plan: Plan) -> None:
    """Refuse what has no meaning where nothing is trained."""
    for lane in plan.lanes:
        check_answers(lane.framework, lane.name, is_own=plan.subject.file is not None)
        kind = lane.settings.input
        if kind in NO_TRAINING:
            does = {"only": "loads", "copy": "copies"}[kind]
            raise UsageError(f"--infer: {lane.name} only {does}, and answers nothing", f"leave input={kind} out")
        if lane.settings.reads != "at once":
            raise UsageError(f"--infer: {lane.name} defers what a step reads, and nothing is trained",
                             "leave reads=deferred out")  # fmt: skip
        if lane.settings.batch is not None or lane.settings.joined is not None:
            sizes = ", ".join(map(str, BATCHES))
            raise UsageError(f"--infer: {lane.name} names a batch, and every lane is asked in batches of {sizes}",
                             "leave batch out")  # fmt: skip
        if lane.settings.learning_rate is not None:
            raise UsageError(f"--infer: {lane.name} names a learning rate, and nothing is trained", "leave lr out")
        if lane.settings.steps_per_execution is not None:
            raise UsageError(f"--infer: {lane.name} says how many steps are taken at once, and nothing is trained",
                             "leave steps_per_execution out")  # fmt: skip
