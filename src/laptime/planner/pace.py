"""How many heats, and how long each, so that the budget buys the tightest interval."""

from __future__ import annotations

from laptime.model.ask import Ask
from laptime.model.plan import Pace

HEATS_USUAL = 5
HEATS_LEAST = 3
HEATS_MOST = 15
OVERHEAD_S = 4.0  # start of a process, import, build and proof, as first guess; a slow one only ends the race sooner
MEASURE_LEAST_S = 1.0
MEASURE_MOST_S = 10.0
WINDOWS_A_HEAT = 10


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
