"""What a candidate may do to seem faster, beyond what the proof and the timed steps show.

Looked at are clocks and code that the candidate replaced, time that laptime's own clock saw and the candidate's process
did not report, and work that is done before the first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from laptime.analysis.own_clock import hidden_share
from laptime.model.other_work import OtherWork, WorkKind
from laptime.model.quantities import number
from laptime.model.record import LaneResult

REPLACED: dict[str, WorkKind] = {  # whose code it is -> what replacing it changes
    "time": "changed clock", "torch": "changed fence", "jax": "changed fence", "laptime": "changed laptime",
}  # fmt: skip
HIDDEN_PART = 0.25  # of what its windows take: more than a busy machine adds to the ways between two processes
HIDDEN_ALWAYS = 0.08  # the same, where each of several rounds has it
HIDDEN_ROUNDS = 3
HIDDEN_LEAST_S = 0.01


def find_replaced(processes: Iterable[Sequence[str]]) -> OtherWork | None:
    """Return that the candidate's code replaced a clock, a fence or a part of laptime: their names, by its process."""
    names = [*dict.fromkeys(name for changed in processes for name in changed)]
    if not names:
        return None
    kind = REPLACED.get(names[0].partition(".")[0], "other work")
    return OtherWork(kind, f"it replaced {' and '.join(names[:3])}, by which it is judged")


def find_hidden_time(candidate: LaneResult, base: LaneResult) -> OtherWork | None:
    """Return that turns of the candidate took longer than it reported, next to those of the base.

    Both took the same steps in a turn, some of them not timed, so what a turn takes beyond its window is alike. The
    factor counts it in any case (`laptime.analysis.own_clock`).
    """
    mine = {heat.heat.round: heat.heat.windows for heat in candidate.heats}
    theirs = {heat.heat.round: heat.heat.windows for heat in base.heats}
    whole = hidden_share([*mine.values()], [*theirs.values()])
    if whole is None:
        return None
    rounds = [hidden_share([mine[at]], [theirs[at]]) for at in mine.keys() & theirs.keys()]
    known = [share for share in rounds if share is not None]
    is_always = len(known) >= HIDDEN_ROUNDS and min(known) > HIDDEN_ALWAYS
    window_s = median(window.end_ns - window.start_ns for windows in mine.values() for window in windows) / 1e9
    if not (whole > HIDDEN_PART or is_always) or whole * window_s <= HIDDEN_LEAST_S:
        return None
    return OtherWork(
        "hidden time",
        f"by laptime's own clock its turns took {number(whole * window_s * 1e3)} ms longer than those of the base, "
        f"next to the {number(window_s * 1e3)} ms that it reported",
    )


SOON_LAPS = 10  # in which a gain must pay for what is done before the first step
BEFORE_LEAST_S = 0.5  # of what differs from heat to heat anyway: imports, files that are read


def find_late_gain(candidate: LaneResult, base: LaneResult) -> str | None:
    """Return that the candidate takes so much longer before its timed steps that the gain does not pay for it soon."""
    if candidate.lap_s is None or base.lap_s is None:
        return None
    before_s = _before_s(candidate)
    base_before_s = _before_s(base)
    if before_s is None or base_before_s is None:
        return None
    longer_s = before_s - base_before_s
    saved_s = base.lap_s.median - candidate.lap_s.median
    if longer_s <= BEFORE_LEAST_S or saved_s <= 0 or longer_s <= SOON_LAPS * saved_s:
        return None
    return (
        f"it takes {number(longer_s)} s longer before its first step, and saves {number(saved_s)} s a lap: that pays "
        f"after {longer_s / saved_s:,.0f} laps"
    )


def _before_s(lane: LaneResult) -> float | None:
    """Return how long the quickest heat took to build the training, and for what its early steps took beyond a step."""
    if lane.step_ms is None:
        return None
    step_s = lane.step_ms.median / 1e3
    took = []
    for heat in (result.heat for result in lane.heats if "build" in result.heat.process.phases_s):
        early = [ns / 1e9 for ns in heat.early_ns] or [(heat.first_step_ns or 0) / 1e9]
        took.append(heat.process.phases_s["build"] + max(0.0, sum(early) - len(early) * step_s))
    return min(took, default=None)
