"""How many turns the heats of a round take: as many as its fixed cost asks for, and no more than fit.

Only times are used, never a ratio, so the choice cannot favour a lane.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from laptime.engine.run.turns import TURNS_LEAST
from laptime.model.plan import Pace
from laptime.model.stats import BETWEEN_OVER_TURNS
from laptime.planner.groups import FORK_TURNS, HEATS_USUAL, TURN_S

# The variance of one turn, over that of what all turns of a round share. Rounds of FORK_TURNS turns differ by
# BETWEEN_OVER_TURNS times what their turns explain.
TURN_OVER_ROUND = FORK_TURNS / (BETWEEN_OVER_TURNS - 1)


def fit_turns(pace: Pace, turn_s: float, room_s: float) -> Pace:
    """Return a pace of fewer turns where a round has no room for all of them, because steps are long."""
    turns = max(TURNS_LEAST, int(room_s / turn_s))
    return _with_turns(pace, turns) if turns < pace.windows_min else pace


def balance_turns(pace: Pace, turn_s: float, fixed_s: float, left_s: float) -> Pace:
    """Return the pace of as many turns as make intervals narrowest, where a round takes `fixed_s` besides its turns.

    It is the number at which a sample in two stages has the least variance for its cost, and never less than the pace
    has: a disturbed turn is left out. The usual number of rounds has to fit.
    """
    turns = round(sqrt(TURN_OVER_ROUND * max(fixed_s, 0.0) / turn_s))
    fits = left_s >= HEATS_USUAL * (fixed_s + turns * turn_s)
    return _with_turns(pace, turns) if turns > pace.windows_min and fits else pace


def _with_turns(pace: Pace, turns: int) -> Pace:
    return replace(pace, windows_min=turns, measure_s=turns * TURN_S)
