"""Simulated races whose lanes take turns, one stratum for each way in which rounds differ (for coverage.py).

Each stratum gives, of many races, the logarithm of every round's ratio and its noise as seen in the round's turns.
A round's ratio is made as in a race: the quotient of the lanes' mean steps over the turns that count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from laptime.analysis.heats import (
    NORMAL,
    QUIET_LEAST,
    QUIET_TURNS_LEAST,
    SLOW_TURN,
    SLOW_TURN_DEVIATIONS,
    SLOW_TURN_LEAST,
    SLOW_TURNS_ERRORS,
    SLOW_TURNS_RATIO,
)
from laptime.model.stats import BETWEEN_OVER_TURNS

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

ROUNDS = 16
TURNS = 5
TURN_S = 0.28  # with the steps before it that are not timed
JUMP, JUMPS_A_SECOND = 0.30, 0.1
NEIGHBOUR_S, NEIGHBOUR_EVERY_S = 2.0, 5.0
NEIGHBOUR_SLOWS = (0.4, 0.5)  # of the logarithm of a step while the core is taken, of each lane
ERRATIC = (0.1, 0.15)  # standard deviations of that, between rounds and between turns
MINUTE_S, ROUND_S, TURNS_BEGIN_S = 60.0, 7.5, 4.0  # a round imports, builds and proves before its turns
STEP_S, INTERRUPTED_S, INTERRUPTIONS = 0.3, 0.075, 0.1  # of a step: its time, how much longer it may take, how often
FLAG_CORES = 0.25  # of two cores: a window in which others took more is disturbed
ATTEMPTS = 12


@dataclass(frozen=True, slots=True)
class Stratum:
    """How rounds differ; `spread` is the standard deviation of the logarithm of a round's ratio.

    `turns_say` is what the turns make of that spread: 1 where it is to it as usual, 0.3 where turns are too alike.
    """

    name: str
    spread: float
    turns_say: float = 1.0
    add: Callable[[Array, np.random.Generator], Array] | None = None
    neighbour: Callable[[Array, np.random.Generator], tuple[Array, Flags]] | None = None
    processes: Callable[[tuple[int, ...], np.random.Generator], Array] | None = None


@dataclass(frozen=True, slots=True)
class Races:
    """Of many races, round by round: the logarithm of the ratio without the lanes' own, and its noise (a variance).

    `steps` are the noises of each lane's step, and `disturbed` is the share of the turns that count and were disturbed.
    """

    logs: Array
    noises: Array
    steps: Array
    disturbed: Array


def drift(times: Array, random: np.random.Generator) -> Array:
    """The machine's speed walks at random by 5 % a second."""
    return times + _in_order(np.cumsum(random.normal(0, 0.05 * math.sqrt(TURN_S), _serial(times)), axis=2), times)


def jumps(times: Array, random: np.random.Generator) -> Array:
    """The machine's speed jumps by 30 %, once in ten seconds."""
    shape = _serial(times)
    steps = JUMP * random.choice((-1, 1), shape) * (random.random(shape) < JUMPS_A_SECOND * TURN_S)
    return times + _in_order(np.cumsum(steps, axis=2), times)


def neighbour(times: Array, random: np.random.Generator) -> tuple[Array, Flags]:
    """Another process takes a core for 2 s in every 5, which slows one lane more."""
    begins_s = random.uniform(0, NEIGHBOUR_EVERY_S, (*times.shape[:2], 1, 1))
    return _slowed(times, begins_s, NEIGHBOUR_S, NEIGHBOUR_EVERY_S, np.asarray(NEIGHBOUR_SLOWS))


def minutely(busy_s: float, *, is_erratic: bool = False) -> Callable[..., tuple[Array, Flags]]:
    """Another process takes a core for this long in every minute: for whole rounds, which no repeat escapes."""

    def meet(times: Array, random: np.random.Generator) -> tuple[Array, Flags]:
        races, rounds = times.shape[:2]
        begins_s = random.uniform(0, MINUTE_S, (races, 1, 1, 1)) + TURNS_BEGIN_S
        begins_s = begins_s + ROUND_S * np.arange(rounds).reshape(1, rounds, 1, 1)
        slows = np.asarray(NEIGHBOUR_SLOWS)
        if is_erratic:
            slows = (
                slows + random.normal(0, ERRATIC[0], (races, rounds, 1, 2)) + random.normal(0, ERRATIC[1], times.shape)
            )
        return _slowed(times, begins_s, busy_s, MINUTE_S, slows)

    return meet


def _slowed(times: Array, begins_s: Array, busy_s: float, every_s: float, slows: Array) -> tuple[Array, Flags]:
    """Return the turns that a round keeps: the undisturbed ones, as far as repeats find any, and which are not."""
    phase_s = (begins_s + TURN_S * np.arange(2 * ATTEMPTS).reshape(1, 1, ATTEMPTS, 2)) % every_s
    taken = np.clip(busy_s - phase_s, 0, TURN_S) + np.clip(phase_s + TURN_S - every_s, 0, TURN_S)
    share = taken / TURN_S
    disturbed = (share > FLAG_CORES).any(axis=3)
    first = np.argsort(disturbed, axis=2, kind="stable")[:, :, : times.shape[2]]  # the undisturbed ones, in their order
    slowed = times + np.take_along_axis(share, first[..., None], axis=2) * slows
    return slowed, np.take_along_axis(disturbed, first, axis=2)


def single_steps(times: Array, random: np.random.Generator) -> Array:
    """A turn is one step of 0.3 s, so nothing averages its interruptions; some rounds have many."""
    often = random.gamma(0.5, 2 * INTERRUPTIONS, (*times.shape[:2], 1, 1))
    longer_s = random.exponential(INTERRUPTED_S, times.shape) * (random.random(times.shape) < often)
    found: Array = times + np.log1p(longer_s / STEP_S)
    return found


def rough(times: Array, random: np.random.Generator) -> Array:
    """In one round of four, turns of both lanes differ by a further 20 %, and no instrument shows why."""
    return times + random.normal(0, 0.2, times.shape) * (random.random((*times.shape[:2], 1, 1)) < 0.25)


def spells(times: Array, random: np.random.Generator) -> Array:
    """One turn in twenty takes 1.15 to 2 times as long, in either lane."""
    slow = np.log(random.uniform(1.15, 2.0, times.shape)) * (random.random(times.shape) < 0.05)
    # What is not flagged meets both lanes alike, so that their ratio stays the truth.
    return times + slow


def states(times: Array, _random: np.random.Generator) -> Array:
    """From the third turn's steps on a step takes 5 times as long in one lane and 4 times in the other."""
    slow = np.zeros(times.shape)
    later = TURNS - TURNS // 2
    slow[:, :, TURNS // 2 :] = np.log((5.0, 4.0))
    # The ratio of these lanes over all their steps is the truth.
    slow -= np.log([(TURNS - later + later * each) / TURNS for each in (5.0, 4.0)])
    return times + slow


def heavy(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Processes differ as Student's t with 3 degrees of freedom: mostly little, sometimes by far."""
    return random.standard_t(3, shape) / math.sqrt(3)


def odd_ones(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """One process in ten, of either lane, differs six times as much as others."""
    wide = np.where(random.random(shape) < 0.1, 6.0, 1.0)
    return random.normal(0, 1, shape) * wide / math.sqrt(0.9 + 0.1 * 36)


STRATA = (
    *(Stratum(f"spread {percent} %", percent / 100) for percent in (1, 2, 3, 5, 7, 10)),
    *(Stratum(f"{percent} %, turns say 0.3 of it", percent / 100, turns_say=0.3) for percent in (1, 3, 5, 7, 10)),
    *(Stratum(f"{percent} %, turns say 0.55 of it", percent / 100, turns_say=0.55) for percent in (1, 3, 5, 7)),
    *(Stratum(f"{percent} %, turns say 0.7 of it", percent / 100, turns_say=0.7) for percent in (1, 3, 5, 7)),
    *(Stratum(f"{percent} %, turns say 3 times it", percent / 100, turns_say=3.0) for percent in (1, 3, 5, 7, 10)),
    Stratum("4 %, drift", 0.04, add=drift),
    Stratum("4 %, jumps", 0.04, add=jumps),
    Stratum("4 %, a neighbour", 0.04, neighbour=neighbour),
    Stratum("4 %, a turn in twenty is slow", 0.04, add=spells),
    Stratum("7 %, a turn in twenty is slow", 0.07, add=spells),
    Stratum("4 %, heavy tails", 0.04, processes=heavy),
    Stratum("7 %, heavy tails", 0.07, processes=heavy),
    Stratum("5 %, one process in ten is odd", 0.05, processes=odd_ones),
    Stratum("4 %, slow steps from turn 3 on", 0.04, add=states),
    Stratum("4 %, a neighbour 12 s of 60", 0.04, neighbour=minutely(12)),
    Stratum("5 %, a neighbour 12 s of 60", 0.05, neighbour=minutely(12)),
    Stratum("4 %, 12 s of 60, erratic", 0.04, neighbour=minutely(12, is_erratic=True)),
    Stratum("2 %, a neighbour for a third", 0.02, neighbour=minutely(20)),
    Stratum("4 %, a neighbour for a third", 0.04, neighbour=minutely(20)),
    Stratum("4 %, for a third, erratic", 0.04, neighbour=minutely(20, is_erratic=True)),
    Stratum("4 %, a neighbour for half", 0.04, neighbour=minutely(30)),
    Stratum("3 %, five turns of a 0.3 s step", 0.03, add=single_steps),
    Stratum("5 %, five turns of a 0.3 s step", 0.05, add=single_steps),
    Stratum("4 %, a round in four is rough", 0.04, add=rough),
)


def simulate(stratum: Stratum, races: int, random: np.random.Generator) -> Races:
    """Simulate the turns of every round, and reduce them as a race does."""
    shape = (races, ROUNDS, TURNS, 2)
    seen = (
        stratum.turns_say * stratum.spread / math.sqrt(BETWEEN_OVER_TURNS)
    )  # the standard deviation that the turns show
    times = random.normal(0, seen * math.sqrt(TURNS / 2), shape)
    rest = stratum.spread**2 - seen**2
    if rest < 0:  # turns differ by more than rounds do: what one loses the next one gains
        times -= times.mean(axis=2, keepdims=True)
        times *= math.sqrt(TURNS / (TURNS - 1))
        rest = stratum.spread**2
    processes = stratum.processes or (lambda shape, random: random.normal(0, 1, shape))
    times += math.sqrt(rest / 2) * processes((races, ROUNDS, 1, 2), random)
    if stratum.add is not None:
        times = stratum.add(times, random)
    flags = np.zeros(times.shape[:3], dtype=bool)
    if stratum.neighbour is not None:
        times, flags = stratum.neighbour(times, random)
    return reduce(times, flags | find_slow(times))


def reduce(times: Array, disturbed: Flags) -> Races:
    """Return what a race computes from its turns."""
    counts = ~disturbed
    counts |= counts.sum(axis=2, keepdims=True) < QUIET_TURNS_LEAST
    number = counts.sum(axis=2)
    logs = np.log((np.exp(times) * counts[..., None]).sum(axis=2) / number[..., None])
    ratios = times[..., 1] - times[..., 0]
    return Races(
        logs[..., 1] - logs[..., 0],
        _noise(ratios, counts),
        np.stack([_noise(times[..., lane], counts) for lane in (0, 1)], axis=2),
        (counts & disturbed).sum(axis=2) / number,
    )


def _noise(values: Array, counts: Flags) -> Array:
    """Return the variance of each round's mean, by how much its turns differ; 0 where too few turns say it."""
    number = counts.sum(axis=2)
    middle = (values * counts).sum(axis=2) / number
    found = ((values - middle[..., None]) ** 2 * counts).sum(axis=2) / (number - 1) / number
    return np.where(number >= QUIET_LEAST, found, 0.0)


def find_slow(times: Array) -> NDArray[np.bool_]:
    """Return the turns that are flagged, in either lane, as slower than the same steps of the other rounds.

    As in `laptime.analysis.heats`, but by all rounds of a race at once, however early it stops.
    """
    beyond = times - np.median(times, axis=1, keepdims=True)
    beyond -= np.median(beyond, axis=2, keepdims=True)
    fitted = ROUNDS * TURNS / ((ROUNDS - 1) * (TURNS - 1))
    spreads = NORMAL * math.sqrt(fitted) * np.median(np.abs(beyond), axis=(1, 2))
    most = np.clip(np.exp(SLOW_TURN_DEVIATIONS * spreads.max(axis=1)), SLOW_TURN_LEAST, SLOW_TURN)
    slow = beyond > np.log(most)[:, None, None, None]
    number = slow.sum(axis=(1, 2))
    less, more = number.min(axis=1), number.max(axis=1)
    is_own = (more > 1 + SLOW_TURNS_RATIO * less) & (more - less >= SLOW_TURNS_ERRORS * np.sqrt(more + less))
    found: NDArray[np.bool_] = slow.any(axis=3) & ~is_own[:, None, None]
    return found


def _serial(times: Array) -> tuple[int, int, int]:
    return (*times.shape[:2], 2 * times.shape[2])


def _in_order(machine: Array, times: Array) -> Array:
    """Return what each turn meets: every other turn is played in reverse order, A B, B A, A B."""
    met: Array = machine.reshape(times.shape).copy()
    met[:, :, 1::2] = met[:, :, 1::2, ::-1]
    return met
