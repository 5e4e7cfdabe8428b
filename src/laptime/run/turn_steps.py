"""Which steps the heats of a round time in a turn: the same ones, wherever their steps take about as long.

Steps change while a training learns: its numbers become tiny, its sequences grow. So a lane that is faster must not be
timed at later steps. A card may take 300 steps while a processor takes one, and then a turn of the same steps would be
over before its clock is up: such lanes have turns of their own, and `analysis.rounds` compares what is comparable.
So has a lane whose turns would become too long for what the others need: a card takes hundreds of steps until its clock
is up, and a lane of slower steps would take as many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from laptime import wire

FAR = 8.0  # the slowest lane's step over the fastest one's, up to which they time the same steps
SHORTEST_S = 0.1  # of a turn, so that the kernel's ticks show what other processes did
DEAR = 2.0  # times as long as of its own: the longest turns that a lane takes so that others time the same steps
CATCH_UP_S = 3.0  # the longest that it takes to come to where they begin
LONGEST = 4  # windows: a common multiple of two frameworks' strides may make turns this much longer
LATER = 8  # further steps that a heat may take to time the same ones as other rounds
SHORTER = 0.1  # of a unit: a turn may be this much short


@dataclass(frozen=True, slots=True)
class TurnSteps:
    """The steps of a heat's turns: `steps` in each, the first after `after` steps, the others after `untimed` ones."""

    after: int
    untimed: int
    steps: int

    def order(self, turn: int) -> wire.TakeTurn:
        return wire.TakeTurn(self.steps, self.after + turn * (self.untimed + self.steps))

    def shifted(self, steps: int) -> TurnSteps:
        """Return the same turns, later by some steps."""
        return replace(self, after=self.after + steps)


@dataclass(frozen=True, slots=True)
class Entrant:
    """A heat that waits for its first turn: what it needs, and the steps that it took so far."""

    needs: wire.TurnNeeds
    taken: int


def choose_steps(entrants: Sequence[Entrant], window_s: float, least: int = 0) -> list[TurnSteps]:
    """Return the steps of each heat's turns, the first of them after at least `least`."""
    chosen: dict[int, TurnSteps] = {}
    for group in _groups(entrants, window_s):
        steps = _steps_of([entrants[each] for each in group], window_s, least)
        chosen.update(dict.fromkeys(group, steps))
    return [chosen[each] for each in range(len(entrants))]


def fit_steps(kept: Sequence[TurnSteps], entrants: Sequence[Entrant]) -> list[TurnSteps]:
    """Return the turns of an earlier round, where heats of the same turns went beyond their begin all later by that."""
    fitted: dict[TurnSteps, TurnSteps] = {}
    for steps in set(kept):
        group = [each for mine, each in zip(kept, entrants, strict=True) if mine == steps]
        over = max(each.taken + steps.untimed - steps.after for each in group)
        stride = math.lcm(*(each.needs.stride for each in group))
        fitted[steps] = steps.shifted(max(math.ceil(over / stride), 0) * stride)
    return [fitted[steps] for steps in kept]


def _groups(entrants: Sequence[Entrant], window_s: float) -> list[list[int]]:
    """Group the heats that can time the same steps, from the slowest on."""
    groups: list[list[int]] = []
    for number in sorted(range(len(entrants)), key=lambda each: -entrants[each].needs.step_ns):
        for group in groups:
            if _may_join(entrants[number], [entrants[each] for each in group], window_s):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _may_join(entrant: Entrant, group: Sequence[Entrant], window_s: float) -> bool:
    slowest_ns = group[0].needs.step_ns
    if slowest_ns > FAR * entrant.needs.step_ns:
        return False
    unit = math.lcm(entrant.needs.unit, *(each.needs.unit for each in group))
    is_common = unit == max(entrant.needs.unit, *(each.needs.unit for each in group))
    if not is_common and unit * slowest_ns > LONGEST * window_s * 1e9:
        return False
    together = _steps_of([*group, entrant], window_s, 0)
    return all(_is_cheap(each, together, window_s) for each in (*group, entrant))


def _is_cheap(entrant: Entrant, together: TurnSteps, window_s: float) -> bool:
    """Whether turns together with others take a heat hardly longer than turns of its own."""
    alone = _steps_of([entrant], window_s, 0)
    further = together.after - together.untimed - entrant.taken
    catch_up_s = further * entrant.needs.step_ns / 1e9
    is_near = further <= LATER or catch_up_s <= CATCH_UP_S
    return is_near and together.untimed + together.steps <= DEAR * (alone.untimed + alone.steps)


def _steps_of(group: Sequence[Entrant], window_s: float, least: int) -> TurnSteps:
    """Return turns that last `window_s` in the mean of the lanes, and in no lane too short to see disturbances."""
    times_s = [max(each.needs.step_ns, 1.0) / 1e9 for each in group]
    fitting = max(window_s * len(group) / sum(times_s), SHORTEST_S / min(times_s))
    unit = math.lcm(*(each.needs.unit for each in group))
    stride = math.lcm(*(each.needs.stride for each in group))
    units = max(math.ceil(fitting / unit - SHORTER), *(math.ceil(each.needs.least / unit) for each in group), 1)
    untimed = math.ceil(max(each.needs.warm for each in group) / stride) * stride
    taken = math.ceil(max(each.taken for each in group) / stride) * stride + untimed
    wanted = math.ceil(least / stride) * stride
    after = wanted if taken < wanted <= taken + LATER else taken
    return TurnSteps(after, untimed, units * unit)
