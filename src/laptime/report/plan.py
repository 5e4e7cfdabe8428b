"""A plan for people: every lane with all its settings, and what would be done with it."""

from __future__ import annotations

from dataclasses import fields

from laptime.model.inference import PROOF_ITEMS, InferPace, InferPlan
from laptime.model.plan import Pace, Plan, PlannedLane
from laptime.model.protocol import FullPlan, Protocol
from laptime.report.figures import duration, lap, percent
from laptime.report.layout import wrap
from laptime.report.phrases import subject_words

ANSWERS_PROOF = f"proof: the answers to {PROOF_ITEMS} items, against float64"


def render_plan(planned: Plan | FullPlan | InferPlan, width: int) -> str:
    """Say what would run: every lane with all its settings, then what each does, the proof and the notes."""
    plan = planned if isinstance(planned, Plan) else planned.plan
    lines = wrap(subject_words(plan.subject), width, "  ")
    for lane in plan.lanes:
        lines += ["", *_planned_lane(lane, width)]
    sentences = [*_what_each_does(planned), *plan.notes]
    lines += ["", *(line for sentence in sentences for line in wrap(sentence, width, "  "))]
    return "\n".join(lines) + "\n"


def _what_each_does(planned: Plan | FullPlan | InferPlan) -> list[str]:
    match planned:
        case FullPlan(plan=plan, protocol=protocol, order=order):
            return [*_trainings(plan, protocol), f"order: {order}", _proof(plan)]
        case InferPlan(plan=plan, pace=pace):
            return [*_answers(pace), ANSWERS_PROOF, f"budget: {duration(plan.ask.budget_s)}"]
        case Plan():
            return [_heats(planned), _windows(planned.pace), _proof(planned), _budget(planned)]


def _trainings(plan: Plan, protocol: Protocol) -> list[str]:
    items = plan.subject.items
    steps = "" if protocol.steps_per_lap is None else f" of {protocol.steps_per_lap:,} steps"
    said = [f"each lane: {protocol.laps:,} lap{'s' * (protocol.laps != 1)}{steps}, a checkpoint after each"]
    if protocol.validation_items:
        said += [f"validation after each lap: the first {protocol.validation_items:,} test {items}, or all there are"]
    if protocol.evaluation_items:
        said += [f"a test at the end: {protocol.evaluation_items:,} {items}, or as many as there are"]
    if protocol.seeds > 1:
        said += [f"seeds: {protocol.seeds}, from {plan.ask.seed} on"]
    return said


def _answers(pace: InferPace) -> list[str]:
    sizes = ", ".join(map(str, pace.batches))
    calls = f"single calls for {lap(pace.measure_s)} ({pace.calls_min:,} to {pace.calls_max:,} of them)"
    heats = f"heats: {pace.heats} of each lane, interleaved"
    return [heats, f"each heat: {calls}, then batches of {sizes} for as long each"]


def _planned_lane(lane: PlannedLane, width: int) -> list[str]:
    settings = [f"{field.name}={_setting(getattr(lane.settings, field.name))}" for field in fields(lane.settings)]
    lines = wrap(f"{lane.name}  {lane.framework} on {lane.device.label}", width, "  ")
    lines += wrap("  " + " ".join(settings), width, "    ")
    if lane.environment:
        pairs = " ".join(f"{key}={value}" for key, value in sorted(lane.environment.items()))
        lines += wrap(f"  environment: {pairs}", width, "    ")
    return lines + [line for note in lane.notes for line in wrap(f"  {note}", width, "    ")]


def _setting(value: str | int | None) -> str:
    return "not set" if value is None else str(value)


def _heats(plan: Plan) -> str:
    pace = plan.pace
    if pace.heats_min == pace.heats_max or not pace.adaptive:
        return f"heats: {pace.heats_max} of each lane, interleaved"
    ends = f"until every ratio is within {percent(plan.ask.margin)}"
    return f"heats: {pace.heats_min} to {pace.heats_max} of each lane, interleaved, {ends} or the budget is used"


def _windows(pace: Pace) -> str:
    windows = f"at least {pace.windows_min} windows of {lap(pace.window_s)}"
    return f"each heat: {lap(pace.measure_s)} of timing, {windows}, at most {pace.reruns_max} run again"


def _proof(plan: Plan) -> str:
    proof = plan.proof
    rate = f"{proof.learning_rate_scale:g} of the learning rate"
    return f"proof: {proof.steps} steps of batch {proof.batch} at {rate}, against float64"


def _budget(plan: Plan) -> str:
    """Say what of the budget the least of timing takes; start-up and proof are known only when they ran."""
    heats = plan.pace.heats_min * len(plan.lanes)
    least = f"{heats} heats are {duration(heats * plan.pace.measure_s)} of timing at least"
    return f"budget: {duration(plan.ask.budget_s)}; {least}, start-up, building and proof come on top"
