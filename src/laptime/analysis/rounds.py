"""All heats of a question -> the windows of each that count: undisturbed in every lane of the round, of the same steps.

A lane has one time of a step: that of these windows. What the machine did is left out by name, in all lanes of the
round at once. What the lane's own steps do stays, however long they take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, log, sqrt

from laptime.analysis.heats import QUIET_LEAST, step_ms, steps_of, summarise_heat
from laptime.model.record import HeatResult
from laptime.model.sample import MACHINE_SLOW, SLOW_SPELL, Heat, Window
from laptime.stats import find_steady, median

# Times as long as the same steps in the other rounds: a turn is slow from here on. Where turns are alike it takes less,
# as much as three standard deviations of a turn, but never less than the last figure.
SLOW_TURN, SLOW_TURN_DEVIATIONS, SLOW_TURN_LEAST = 1.25, 3.0, 1.1
# Quiet turns of a round: from two on a disturbed one, of up to ten times as long, adds less than it spoils.
QUIET_TURNS_LEAST = 2
ROUNDS_LEAST = 3  # to know how long a turn's steps usually take
ROUNDS_KNOWN = 5  # to know how much turns differ
NORMAL = 1.4826  # a standard deviation over the median distance, of a normal distribution
# A lane has slow turns of its own if it has this many times those of the others, and is that many errors above.
SLOW_TURNS_RATIO, SLOW_TURNS_ERRORS = 2.0, 2.0
SLOW_HERE = MACHINE_SLOW + ": these steps were {:.1f} times as fast in other rounds"

EVERY_STEP = range(0)

RoundTurns = dict[int, Window]


def judge_rounds(heats: Mapping[str, Sequence[Heat]]) -> dict[str, tuple[HeatResult, ...]]:
    """Return the results of each lane, with the windows flagged that the machine slowed down, and those that count."""
    flagged = _flag_by_other_rounds(heats)
    begins = max((_begin_of(each) for each in flagged.values()), default=0)
    by_round: dict[int, list[Heat]] = {}
    for each in flagged.values():
        for heat in filter(_plays, each):
            by_round.setdefault(heat.round, []).append(heat)
    turns = {number: _turns_that_count(each, begins) for number, each in by_round.items()}
    apart = _steps_of_all(heat for each in flagged.values() for heat in each if heat.windows and not is_in_turns(heat))
    return {
        name: tuple(
            _counting(heat, turns[heat.round])
            if _plays(heat)
            else _counting_steps(heat, apart.get(heat.round, EVERY_STEP))
            for heat in each
        )
        for name, each in flagged.items()
    }


def is_in_turns(heat: Heat) -> bool:
    return bool(heat.windows) and heat.windows[0].turn is not None


def _plays(heat: Heat) -> bool:
    """Whether a heat took turns to its end: one that failed must not take their later turns from the others."""
    return is_in_turns(heat) and heat.process.status == "ok"


def _counting(heat: Heat, turns: frozenset[int]) -> HeatResult:
    return summarise_heat(heat, tuple(place for place, each in enumerate(heat.windows) if each.turn in turns))


def _steps_of_all(heats: Iterable[Heat]) -> dict[int, range]:
    """Return the steps that all heats of a round timed which did not take turns; no round where these are too few."""
    by_round: dict[int, list[Heat]] = {}
    for heat in heats:
        if heat.process.status == "ok" and all(each.first_step is not None for each in heat.windows):
            by_round.setdefault(heat.round, []).append(heat)
    common: dict[int, range] = {}
    for number, ran in by_round.items():
        begins, ends = _span_of(ran[0])
        # A loader alone takes millions of steps meanwhile, and they are none of a training.
        of = [heat for heat in ran if _span_of(heat)[0] < ends and begins < _span_of(heat)[1]]
        spans = [_span_of(heat) for heat in of]
        steps = range(max(start for start, _ in spans), min(stop for _, stop in spans))
        if all(len(_places_within(heat, steps)) >= QUIET_LEAST for heat in of):
            common[number] = steps
    return common


def _span_of(heat: Heat) -> tuple[int, int]:
    return steps_of(heat.windows[0]).start, steps_of(heat.windows[-1]).stop


def _counting_steps(heat: Heat, steps: range) -> HeatResult:
    """Return the result of a heat of which only windows of these steps count, if it timed others as well."""
    within = _places_within(heat, steps) if steps != EVERY_STEP else ()
    if not within or len(within) == len(heat.windows):
        return summarise_heat(heat)
    quiet = [place for place in within if heat.windows[place].flag is None]
    counted = quiet if len(quiet) >= QUIET_LEAST else within
    start = find_steady([step_ms(heat.windows[place]) for place in counted]).start
    return summarise_heat(heat, tuple(counted[start:]))


def _places_within(heat: Heat, steps: range) -> tuple[int, ...]:
    found = [(place, steps_of(each)) for place, each in enumerate(heat.windows)]
    return tuple(place for place, its in found if its.start >= steps.start and its.stop <= steps.stop)


def _turns_that_count(heats: Sequence[Heat], begins: int) -> frozenset[int]:
    """Return the turns of a round that were quiet in all its lanes, from `begins` on.

    Where fewer than two are left, all turns count but those in which a heat was halted, whose time means nothing: then
    it is so in the other rounds, too, and none of them would be left.
    """
    windows = [_by_turn(heat) for heat in heats]
    common = frozenset.intersection(*(frozenset(each) for each in windows))
    halted = {turn for turn in common for each in windows if _is_halted(each[turn])}
    loud = {turn for turn in common for each in windows if each[turn].flag is not None}
    later = frozenset(turn for turn in common if turn >= begins)
    quiet = later - loud, common - loud
    enough = (each for least in (QUIET_LEAST, QUIET_TURNS_LEAST) for each in quiet if len(each) >= least)
    ran = later - halted if len(later - halted) >= QUIET_LEAST else common - halted
    return next(enough, ran) or common


def _begin_of(heats: Sequence[Heat]) -> int:
    """Return the turn from which on the lane's steps are steady, by the median of its rounds."""
    series = [_by_turn(heat) for heat in heats if _plays(heat) and heat.burst is None]
    if not series:
        return 0
    last = min(max(each, default=0) for each in series)
    levels = [
        median(told)
        for turn in range(last + 1)
        if (told := [step_ms(each[turn]) for each in series if turn in each and each[turn].flag is None])
    ]
    # A turn that was disturbed in every round has no level: then the turns cannot be numbered.
    return find_steady(levels).start if len(levels) == last + 1 else 0


def _flag_by_other_rounds(heats: Mapping[str, Sequence[Heat]]) -> dict[str, tuple[Heat, ...]]:
    """Hold each turn against the same steps in the other rounds of its lane.

    What is slow there, too, is the lane's own, and no spell of the machine. What is slow in one round alone is the
    machine's doing where it meets the lanes alike, and the lane's own where it meets one of them.
    """
    times = {name: _times_as_slow(each) for name, each in heats.items()}
    cleared = {
        name: tuple(_without_own_slowness(heat, found) for heat, found in zip(each, times[name], strict=True))
        for name, each in heats.items()
    }
    most = _find_most(times.values())
    slow = {
        name: [
            (place, turn)
            for place, (heat, found) in enumerate(zip(each, times[name], strict=True))
            for turn, window in _by_turn(heat).items()
            if window.flag is None and found.get(turn, 1.0) > most
        ]
        for name, each in cleared.items()
    }
    # If one lane's are its own, none are flagged: else the others would lose theirs, and it would not.
    is_machine = _meets_alike([len(found) for name, found in slow.items() if any(times[name])])
    flagged: dict[str, tuple[Heat, ...]] = {}
    for name, each in cleared.items():
        marked = set(slow[name]) if is_machine else set()
        flagged[name] = tuple(
            _with_flags(heat, {turn for at, turn in marked if at == place}, times[name][place])
            for place, heat in enumerate(each)
        )
    return flagged


def _times_as_slow(heats: Sequence[Heat]) -> list[dict[int, float]]:
    """Return for each heat how many times as slow each turn was as the same turn in all rounds.

    The level of the round is left out: a machine that is slower for a whole round is so in all its turns.
    """
    played = [heat for heat in heats if _plays(heat) and heat.burst is None]
    if len(played) < ROUNDS_LEAST:
        return [{} for _ in heats]
    logs = [
        {turn: log(step_ms(window)) for turn, window in _by_turn(heat).items()} if heat in played else {}
        for heat in heats
    ]
    turns = sorted({turn for each in logs for turn in each})
    by_turn = {turn: [each[turn] for each in logs if turn in each] for turn in turns}
    usual = {turn: median(told) for turn, told in by_turn.items() if len(told) >= ROUNDS_LEAST}
    found: list[dict[int, float]] = []
    for each in logs:
        beyond = {turn: value - usual[turn] for turn, value in each.items() if turn in usual}
        level = median(list(beyond.values())) if beyond else 0.0
        found.append({turn: exp(value - level) for turn, value in beyond.items()})
    return found


def _meets_alike(numbers: Sequence[int]) -> bool:
    """Whether slow turns met all lanes alike; one lane alone cannot be compared."""
    if len(numbers) < 2:
        return False
    for number in numbers:
        others = (sum(numbers) - number) / (len(numbers) - 1)
        if number > 1 + SLOW_TURNS_RATIO * others and number - others >= SLOW_TURNS_ERRORS * sqrt(number + others):
            return False
    return True


def _find_most(times: Iterable[Sequence[Mapping[int, float]]]) -> float:
    """Return from how many times the usual on a turn is slow: the same for all lanes, or one would lose more turns.

    Medians are not moved by the slow turns themselves. Each lane's usual turn and each round's level were found from
    the same turns, which makes the distances a little smaller than they are.
    """
    spreads = []
    for lane in times:
        known = [each for each in lane if each]
        turns = max(map(len, known), default=0)
        if len(known) < ROUNDS_KNOWN or turns < 2:
            return SLOW_TURN
        fitted = len(known) * turns / ((len(known) - 1) * (turns - 1))
        spreads.append(NORMAL * sqrt(fitted) * median([abs(log(each)) for found in known for each in found.values()]))
    return min(SLOW_TURN, max(SLOW_TURN_LEAST, exp(SLOW_TURN_DEVIATIONS * max(spreads)))) if spreads else SLOW_TURN


def _without_own_slowness(heat: Heat, times: Mapping[int, float]) -> Heat:
    """Take the flag of a slow spell from the turns whose steps are as slow in the other rounds."""
    windows = tuple(
        replace(each, flag=None)
        if each.flag == SLOW_SPELL and each.turn is not None and times.get(each.turn, SLOW_TURN) < SLOW_TURN
        else each
        for each in heat.windows
    )
    return replace(heat, windows=windows) if windows != heat.windows else heat


def _with_flags(heat: Heat, turns: set[int], times: Mapping[int, float]) -> Heat:
    if not turns:
        return heat
    return replace(
        heat,
        windows=tuple(
            replace(each, flag=SLOW_HERE.format(times[each.turn])) if each.turn in turns else each
            for each in heat.windows
        ),
    )


def _by_turn(heat: Heat) -> RoundTurns:
    return {window.turn: window for window in heat.windows if window.turn is not None}


def _is_halted(window: Window) -> bool:
    return window.noise is not None and window.noise.halted is not None
