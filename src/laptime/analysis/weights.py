"""All rounds of a question -> how much each counts: less where its turns or the instruments clearly say it is worse.

A weight is the inverse of the variance that a round is expected to have. It never depends on the round's ratio, so it
favours no result, and it is the same for all lanes, so that a factor stays the quotient of two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log
from operator import attrgetter
from statistics import variance

from laptime.analysis.heats import QUIET_LEAST, noise_of_ratio, steady_windows, step_ms, windows_by_turn
from laptime.model.record import HeatResult
from laptime.model.stats import BETWEEN_OVER_TURNS, median

# Times the usual noise. Of five turns, one round in a hundred shows more by chance (chi-squared, 4 degrees of freedom).
CLEARLY = 4.0
# What a disturbed round may be off by, as a logarithm: a process that takes one of two cores slows a step by a factor
# of 1.5, and nobody knows how that falls on the lanes.
DISTURBED_OFF = 0.4
LEAST_NOISE = 1e-6  # a variance: a clock shows no less than a tenth of a per cent


@dataclass(frozen=True, slots=True)
class RoundNoise:
    """What a round shows of its noise, and the share of its turns that count although they were disturbed.

    `steps` and `ratios` are the variances of the logarithms of each lane's step and of each ratio to the first lane.
    """

    steps: Mapping[str, float]
    ratios: Mapping[str, float]
    disturbed: float = 0.0


def with_weights(lanes: Mapping[str, Sequence[HeatResult]]) -> dict[str, tuple[HeatResult, ...]]:
    """Return the same results, each with how much its round counts."""
    rounds: dict[int, dict[str, HeatResult]] = {}
    for name, results in lanes.items():
        for result in results:
            if result.step_ms is not None and windows_by_turn(result):
                rounds.setdefault(result.heat.round, {})[name] = result
    noises = {number: _noise_of(of) for number, of in rounds.items() if len(of) > 1}
    weights = {
        number: weight for number, weight in zip(noises, weigh_rounds([*noises.values()]), strict=True) if weight < 1
    }
    return {
        name: tuple(replace(result, weight=weights.get(result.heat.round)) for result in results)
        for name, results in lanes.items()
    }


def weigh_rounds(rounds: Sequence[RoundNoise]) -> tuple[float, ...]:
    """Return how much each round counts, where the best counts as 1.

    A round is noisier where all its lanes and ratios are. Where one lane alone is, its own steps vary, and these count.
    """
    steps = _usual(rounds, attrgetter("steps"))
    ratios = _usual(rounds, attrgetter("ratios"))
    usual = max(ratios.values(), default=LEAST_NOISE)
    weights = []
    for noise in rounds:
        times = [noise.steps[name] / known for name, known in steps.items() if name in noise.steps]
        times += [noise.ratios[name] / known for name, known in ratios.items() if name in noise.ratios]
        more = usual * max(0.0, min(times, default=0.0) - CLEARLY) + noise.disturbed * DISTURBED_OFF**2
        weights.append(BETWEEN_OVER_TURNS * usual / (BETWEEN_OVER_TURNS * usual + more))
    return tuple(weight / max(weights) for weight in weights)


def _usual(rounds: Sequence[RoundNoise], read: Callable[[RoundNoise], Mapping[str, float]]) -> dict[str, float]:
    """Return the median noise under each name, of the undisturbed rounds where it is known in any; 0 is not known."""
    found: dict[str, float] = {}
    for some in (rounds, [noise for noise in rounds if not noise.disturbed]):
        known: dict[str, list[float]] = {}
        for name, value in chain.from_iterable(read(noise).items() for noise in some):
            known.setdefault(name, []).extend([value] if value > 0 else [])
        found |= {name: max(median(values), LEAST_NOISE) for name, values in known.items() if values}
    return found


def _noise_of(heats: Mapping[str, HeatResult]) -> RoundNoise:
    (first, reference), *others = heats.items()
    flags: dict[int, bool] = {}
    steps: dict[str, float] = {}
    for name, result in heats.items():
        for turn, window in windows_by_turn(result).items():
            flags[turn] = flags.get(turn, False) or window.flag is not None
        # By how much its turns differ; 0 if too few say it.
        logs = [log(step_ms(window)) for window in steady_windows(result)]
        steps[name] = variance(logs) / len(logs) if len(logs) >= QUIET_LEAST else 0.0
    return RoundNoise(
        steps=steps,
        ratios={f"{name} over {first}": noise_of_ratio(result, reference) for name, result in others},
        disturbed=sum(flags.values()) / len(flags),
    )
