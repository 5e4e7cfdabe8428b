"""States of a training that cost time: steps that become slow from a step on, and numbers that have become denormal.

The times of the steps say that there is a state, the census of denormal numbers says whether these are its reason, and
a lane that is the same but for `denormals=flush` says what they cost. On a processor that computes denormal numbers at
full speed the census finds them too: the training may move to another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from laptime.analysis.step_states import SLOWER, StateChange, find_lane_state, find_slow_laps, ratio_within, times_of
from laptime.diagnosis.lane_readings import finished, first_symptoms
from laptime.model.digits import brief, count, percent, times
from laptime.model.frameworks import find_framework
from laptime.model.missing import Missing
from laptime.model.protocol import FullRun
from laptime.model.record import Finding, LaneResult
from laptime.model.symptoms import COSTS

SLOWS_DOWN, DENORMALS = "steps that become slow", "denormal numbers"
FLUSH = "torch.set_flush_denormal(True)"
LOOK = "See what it does differently from then on: longer sequences, larger batches, a list that grows, other parts."
HEATS_LEAST = 2


@dataclass(frozen=True, slots=True)
class Denormals:
    """What is known of a lane's denormal numbers: the largest share of any kind, and whether that costs time here."""

    share: float
    kind: str
    cost: bool

    @property
    def says(self) -> str:
        return f"{percent(self.share)} of the {self.kind} are denormal numbers"


def find_states(lanes: Sequence[LaneResult]) -> tuple[Finding, ...]:
    """Return a finding for each lane whose state costs time."""
    found = (_find_state(lane, lanes) for lane in lanes if lane.status == "ok" and lane.step_ms is not None)
    return tuple(each for each in found if each is not None)


def denormals_of(lane: LaneResult) -> Denormals | None:
    """Return what the latest census of a lane found, or the steps that were taken apart later; None without both."""
    census = next((heat.census for heat in reversed(lane.heats) if heat.census is not None), None)
    symptoms, on_processor = first_symptoms(lane), lane.device.kind == "cpu"
    counted = None if symptoms is None or isinstance(symptoms.denormals, Missing) else symptoms.denormals
    if census is not None and census.shares and (counted is None or census.worst[0] >= counted or census.flushed):
        return Denormals(*census.worst, census.costs and on_processor)
    if symptoms is None or counted is None:
        return None
    kind = symptoms.notes.get("denormals", "").removeprefix("of ") or "weights and gradients"
    flushed = lane.settings.denormals == "flush" or flushes(lane)
    return Denormals(counted, kind, counted >= COSTS and on_processor and not flushed)


def flushes(lane: LaneResult) -> bool:
    """Whether the lane's framework treats denormal numbers as 0."""
    return find_framework(lane.name.split("/")[0]).engine.denormals == "always flushed"


def describe_state(state: StateChange, what: str = "step") -> str:
    """Return a state in words, such as "from step 16 on a step takes 4 to 14 times as long"."""
    low, high = brief(state.times_low), brief(state.times_high)
    if state.times_high < 1.15 * state.times_low:
        low = high
    until = "" if state.until is None else f" to {count(state.until)}"
    on = " on" if state.until is None else ""
    long = f"{low} times" if low == high else f"{low} to {high} times"
    where = f" in {state.agree} of {state.heats} heats" if state.is_sure else ""
    article = "an" if what[0] in "aeiou" else "a"
    return f"from {what} {count(state.step)}{until}{on} {article} {what} takes {long} as long{where}"


def find_slow_trainings(lanes: Sequence[LaneResult], runs: Sequence[FullRun]) -> tuple[Finding, ...]:
    """Return a finding for each lane whose laps become slow while its loss falls, or whose numbers become denormal."""
    found = (_find_slow_training(lane, [run for run in runs if run.process.lane == lane.name]) for lane in lanes)
    return tuple(each for each in found if each is not None)


def _find_slow_training(lane: LaneResult, runs: Sequence[FullRun]) -> Finding | None:
    trained = [run for run in runs if run.laps]
    state = find_slow_laps([run.laps for run in trained])
    census = next((run.census for run in trained if run.census is not None), None)
    costs = census is not None and census.costs and lane.device.kind == "cpu"
    losses = [(run.laps[0].score.loss, run.laps[-1].score.loss) for run in trained]
    falls = all(isinstance(one, Missing) or isinstance(last, Missing) or last < one for one, last in losses)
    if not costs and (state is None or not falls):
        return None
    says = ""
    if state is not None:
        says = describe_state(state, "lap").replace("heats", "trainings") + ", while its loss falls"
    evidence: dict[str, object] = {} if state is None else figures_of(state)
    if census is not None:
        evidence |= {"denormals": census.worst[0], "of": census.worst[1]}
        if costs:
            says += f"{': ' if says else ''}{Denormals(*census.worst, cost=True).says}"
        else:
            says += f"; denormal numbers are not the reason ({percent(census.worst[0])} of any kind)"
    advice = f"{FLUSH}; laptime why measures what they cost." if costs else LOOK
    sure = state is not None and state.is_sure and not costs
    return _finding(SLOWS_DOWN if state else DENORMALS, lane, f"{says}.", advice, evidence, sure=sure)


def _find_state(lane: LaneResult, lanes: Sequence[LaneResult]) -> Finding | None:
    state, denormals = find_lane_state(lane), denormals_of(lane)
    if state is None and (denormals is None or not denormals.cost):
        return None
    says = "" if state is None else describe_state(state)
    evidence: dict[str, object] = {} if state is None else figures_of(state)
    if denormals is None or not denormals.cost:
        assert state is not None
        says += f"{_what_it_is_not(lane, denormals)}{_doubt(state)}."
        return _finding(SLOWS_DOWN, lane, says, LOOK, evidence, sure=state.is_sure)
    evidence |= {"denormals": denormals.share, "of": denormals.kind}
    cost = _measure_cost(lane, lanes, state)
    says += f"{': ' if says else ''}{denormals.says}{_doubt(state)}."
    advice = f"{FLUSH}; race denormals=flush against it to see what they cost here."
    if cost is not None:
        on = "" if state is None else " on these steps"
        advice = (
            f"{FLUSH} (measured: {times(cost)}{on})." if cost >= SLOWER else f"They cost little here ({times(cost)})."
        )
        evidence["measured"] = cost
    proven = cost is not None and cost >= SLOWER and (state is None or state.is_sure)
    return _finding(DENORMALS if state is None else SLOWS_DOWN, lane, says, advice, evidence, sure=proven)


def _finding(
    rule: str, lane: LaneResult, says: str, advice: str, evidence: dict[str, object], *, sure: bool
) -> Finding:
    return Finding(rule, f"{lane.name}: {says}", evidence, advice, "proven" if sure else "likely")


def figures_of(state: StateChange) -> dict[str, object]:
    figures = {"step": state.step, "until": state.until, "times": [state.times_low, state.times_high]}
    return {**figures, "share": state.share, "agree": state.agree, "heats": state.heats}


def _doubt(state: StateChange | None) -> str:
    return "" if state is None or state.is_sure else " (in its one heat: another process may be the reason)"


def _what_it_is_not(lane: LaneResult, denormals: Denormals | None) -> str:
    if denormals is not None and lane.device.kind == "cpu" and lane.settings.denormals != "flush":
        return f"; denormal numbers are not the reason ({percent(denormals.share)} of any kind)"
    if lane.settings.denormals == "flush" or flushes(lane):
        return "; denormal numbers are not the reason: they count as 0 here"
    return ""


def _measure_cost(lane: LaneResult, lanes: Sequence[LaneResult], state: StateChange | None) -> float | None:
    """Return how many times as long its steps take as those of the same lane that flushes, where that was raced."""
    twin = next((each for each in lanes if _is_it_flushed(lane, each)), None)
    if twin is None or twin.step_ms is None or lane.step_ms is None:
        return None
    mine, theirs = finished(lane), finished(twin)
    if min(len(mine), len(theirs)) < HEATS_LEAST:
        return None
    if state is not None:
        return ratio_within(state, [*map(times_of, mine)], [*map(times_of, theirs)])
    return lane.step_ms.median / twin.step_ms.median


def _is_it_flushed(lane: LaneResult, other: LaneResult) -> bool:
    settings = replace(lane.settings, denormals="flush")
    kin = lane.name.split("/")[0] == other.name.split("/")[0] and lane.device == other.device
    kin &= lane.training == other.training and other is not lane
    return kin and other.status == "ok" and other.settings == settings
