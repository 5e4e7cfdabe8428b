"""How many heats, and how long each, so that the budget buys the tightest interval."""

from __future__ import annotations

from dataclasses import replace

from laptime.model.ask import Ask
from laptime.model.plan import Pace

HEATS_USUAL = 5
HEATS_LEAST = 3
HEATS_MOST = 15
OVERHEAD_S = 4.0  # start of a process, import, build and proof, as first guess; a slow one only ends the race sooner
MEASURE_LEAST_S = 1.2  # ten windows of it are long enough to tell what other processes took
MEASURE_MOST_S = 10.0
WINDOWS_A_HEAT = 10
SLACK = 0.97  # of what is left: the last window of a heat is begun before its measure is full
MOST_OVER = 1.3  # a heat that timed longer than this many times its measure cannot be shortened by asking for less


def choose_pace(ask: Ask, lanes: int) -> Pace:
    """Give each heat an equal share of the budget, within reason."""
    share_s = ask.budget_s / max(lanes, 1) / (ask.heats or HEATS_USUAL)
    measure_s = min(max(share_s - OVERHEAD_S, MEASURE_LEAST_S), MEASURE_MOST_S)
    most = ask.heats or (HEATS_USUAL if lanes > 1 else HEATS_LEAST)
    if ask.heats is None and share_s > OVERHEAD_S + MEASURE_MOST_S:
        most = min(HEATS_MOST, int(ask.budget_s / lanes / (OVERHEAD_S + MEASURE_MOST_S)))
    return Pace(
        heats_min=min(HEATS_LEAST, most),
        heats_max=most,
        adaptive=ask.heats is None and lanes > 1,
        measure_s=measure_s,
        window_s=measure_s / WINDOWS_A_HEAT,
    )


def shorten_pace(pace: Pace, timed_s: list[float], round_s: float, left_s: float, rounds: int) -> Pace:
    """Make the coming heats so short that all planned rounds fit what is left of the budget.

    `timed_s` is what each heat of the last round timed, `round_s` what that round took with all its overheads. Only
    times are looked at, never a ratio, so that the choice cannot favour a lane.
    """
    if not any(timed_s) or rounds < 1 or max(timed_s) > MOST_OVER * pace.measure_s:
        return pace
    overhead_s = round_s - sum(timed_s)
    fitting_s = pace.measure_s * (SLACK * left_s / rounds - overhead_s) / sum(timed_s)
    measure_s = min(max(fitting_s, MEASURE_LEAST_S), pace.measure_s)
    return replace(pace, measure_s=measure_s, window_s=measure_s / WINDOWS_A_HEAT)
