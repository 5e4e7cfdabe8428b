"""How many heats to run, and how long each, so that the budget yields the narrowest interval."""

from __future__ import annotations

from dataclasses import replace

from laptime.model.ask import Ask
from laptime.model.inference import BATCHES, InferPace
from laptime.model.plan import Pace

HEATS_USUAL = 5
HEATS_LEAST = 3
HEATS_MOST = 15
OVERHEAD_S = 4.0  # a first guess for process start, import, build and proof; if it is too low, the race has fewer heats
OVERRUN = 0.25  # of the budget: so much longer the rounds without which there is no interval may take
MEASURE_LEAST_S = 1.2  # its ten windows are long enough to measure what other processes took
MEASURE_MOST_S = 10.0
WINDOWS_A_HEAT = 10
WINDOWS_LEAST = 5
TURN_S = 0.25
TURNS_LEAST = 4
TURNS_COMPARED = 8  # half of the noise of four turns' ratio is gone, for a fifth more time with the start
TURNS_OVERHEAD_S = 2.5  # a first guess, as OVERHEAD_S: the processes of a round start side by side
FORK_OVERHEAD_S = 0.7  # the same, where heats are forked from a process that has imported their framework
FORK_TURNS = (
    5  # a further turn of such a heat costs less than a further heat, and shows as much: half the time is timed
)
TEMPLATES_S = 6.0  # what the first two rounds take longer, in which these processes start
POWER_LEAST_S = 5.0  # energy needs 2 s between the readings of turns, and turns of 0.25 s hold two readings or three
SLACK = 0.97  # share of the budget left: a heat begins its last window before its time is up, and so runs a little over
MOST_OVER = 1.3  # a heat that took more than this multiple of `measure_s` cannot be shortened by a smaller `measure_s`
PARTS = 1 + len(BATCHES)  # the single calls, then each batch size
PART_LEAST_S = 0.4
PART_MOST_S = 2.0  # fast calls are measured well enough by then
PATIENCE_PARTS = 3
WINDOWS_A_PART = 10
TURNS_A_PART = 4


def choose_pace(ask: Ask, lanes: int, *, takes_turns: bool = False, forks: bool = False) -> Pace:
    """Return the pace of a race: each heat gets an equal share of the budget, within limits."""
    if takes_turns:
        if forks:
            return _choose_turns(ask, lanes, FORK_OVERHEAD_S, max(ask.budget_s - TEMPLATES_S, 0.0), FORK_TURNS)
        return _choose_turns(ask, lanes, TURNS_OVERHEAD_S, ask.budget_s, TURNS_LEAST)
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


def _choose_turns(ask: Ask, lanes: int, overhead_s: float, budget_s: float, turns: int) -> Pace:
    """Return the pace of heats that take turns: as many rounds as fit, then as many turns.

    Two processes of the same lane differ by more than two turns of the same process.
    """
    least_s = turns * TURN_S
    fitting = int(budget_s / lanes / (overhead_s + least_s))
    most = ask.heats or min(max(fitting, HEATS_USUAL), HEATS_MOST)
    spare_s = budget_s / lanes / most - overhead_s if ask.heats or most == HEATS_MOST else 0.0
    measure_s = min(max(spare_s, least_s), MEASURE_MOST_S)
    return Pace(
        heats_min=min(HEATS_LEAST, most),
        heats_max=most,
        adaptive=ask.heats is None,
        measure_s=measure_s,
        window_s=TURN_S,
        windows_min=turns,
        takes_turns=True,
    )


def shorten_pace(pace: Pace, timed_s: list[float], round_s: float, left_s: float, rounds: int) -> Pace:
    """Shorten the coming heats so that all planned rounds fit into the rest of the budget.

    `timed_s` is how long each heat of the last round was timed; `round_s` is how long that round took, with all its
    overhead. Only times are used, never a ratio, so the choice cannot favour a lane.
    """
    if not any(timed_s) or rounds < 1 or max(timed_s) > MOST_OVER * pace.measure_s:
        return pace
    overhead_s = round_s - sum(timed_s)
    fitting_s = pace.measure_s * (SLACK * left_s / rounds - overhead_s) / sum(timed_s)
    if pace.takes_turns:
        return replace(pace, measure_s=min(max(fitting_s, pace.windows_min * TURN_S), pace.measure_s))
    measure_s = min(max(fitting_s, MEASURE_LEAST_S), pace.measure_s)
    return replace(pace, measure_s=measure_s, window_s=measure_s / WINDOWS_A_HEAT)


def shortest_pace(pace: Pace, *, takes_turns: bool, turns: int = TURNS_LEAST, reads_power: bool = False) -> Pace:
    """Return the pace of the shortest heats that show a difference: many of them fit into a budget.

    A heat whose power is read has to last longer.
    """
    measure_s = turns * TURN_S if takes_turns else max(turns * TURN_S, MEASURE_LEAST_S)
    measure_s = max(measure_s, POWER_LEAST_S) if reads_power else measure_s
    shortest = replace(pace, measure_s=measure_s, adaptive=False)
    if not takes_turns:
        return replace(shortest, window_s=measure_s / WINDOWS_A_HEAT)
    return replace(shortest, window_s=TURN_S, windows_min=TURNS_LEAST, takes_turns=True)


def confirming_pace(pace: Pace, round_s: float, lanes: int, left_s: float, most: int) -> Pace:
    """Lengthen heats that were short, and took `round_s` a round, for a few sure rounds in the time that is left.

    The few turns of a short heat are noisier than its process. So each is timed for as long as it takes to start, if
    that leaves the usual number of rounds; and longer where the most rounds leave time.
    """
    start_s = max(0.0, round_s - lanes * pace.measure_s)
    fewest_s, most_s = ((SLACK * left_s / rounds - start_s) / lanes for rounds in (most, HEATS_USUAL))
    wanted_s = min(max(start_s / lanes, fewest_s), most_s, MEASURE_MOST_S)
    measure_s = max(pace.measure_s, wanted_s)
    return replace(pace, measure_s=measure_s, window_s=TURN_S if pace.takes_turns else measure_s / WINDOWS_A_HEAT)


def without_turns(pace: Pace) -> Pace:
    """Return the pace of a heat that runs alone, for as long."""
    if not pace.takes_turns:
        return pace
    return replace(pace, takes_turns=False, window_s=pace.measure_s / WINDOWS_A_HEAT, windows_min=WINDOWS_LEAST)


def choose_infer_pace(ask: Ask, lanes: int, *, takes_turns: bool = False) -> InferPace:
    """Return the pace of inference: each part of each heat gets an equal share of the budget, within limits."""
    heats = ask.heats or HEATS_LEAST
    share_s = max((ask.budget_s / max(lanes, 1) / heats - OVERHEAD_S) / PARTS, PART_LEAST_S)
    part_s = min(share_s, PART_MOST_S)
    patience_s = max(PATIENCE_PARTS * share_s, PART_MOST_S)
    if takes_turns:
        turn_s = part_s / TURNS_A_PART
        return InferPace(heats, part_s, turn_s, patience_s, windows_min=TURNS_A_PART, takes_turns=True)
    return InferPace(heats, part_s, part_s / WINDOWS_A_PART, patience_s)
