"""Simulated verdicts on how fast a candidate learns: curves of losses, and the rule that the command uses.

A simulated side's loss falls by a power of the steps towards a floor. From seed to seed it differs in its speed and in
its floor, and every point is off by chance. Held: of candidates that learn no faster at most 1 % are kept, also of
those that are fast at first and end higher; of those that are a fifth faster at least 80 % are kept, where speeds
differ by up to 6 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common import Figure
from laptime.model.process import ProcessRun
from laptime.questions.verdict.curves import judge_learning, pair_runs
from laptime.questions.verdict.learning import LEGS, SEEDS_LOOK_SHARE
from laptime.questions.verdict.learning import SEEDS_PLANNED as SEEDS
from laptime.questions.verdict.nouns import Learning, LearningPoint, LearningRun, SeedPair
from laptime.questions.verdict.reduce import alpha_at, looks

GAIN = 0.02
SPREADS = (0.03, 0.06, 0.12)
GAINS = (0.0, 0.05, 0.10, 0.20)
LARGE_GAINS = (0.0, 0.20, 0.50)
KEPT_OF_A_FIFTH = 80.0  # per cent


@dataclass(frozen=True, slots=True)
class Shape:
    """How far a loss has come by the end, and how far points and floors are off, as shares of its fall."""

    name: str
    scale: float  # of the training: after so much of it the fall is halved, or nearly so
    power: float
    chance: float = 0.005
    floors: float = 0.005


SHAPES = (Shape("still falls", 0.2, 0.5), Shape("at its floor", 0.02, 2.0), Shape("rough", 0.1, 1.0, 0.02))


@dataclass(frozen=True, slots=True)
class LearningCase:
    """How far speeds differ from seed to seed, how many times as fast one learns, and how much higher it ends."""

    shape: Shape
    spread: float
    ratio: float
    higher: float = 0.0

    def __str__(self) -> str:
        ends = f", ends {self.higher:.0%} higher" if self.higher else ""
        return f"{self.shape.name}, speeds differ by {self.spread:.0%}, {self.ratio:.2f} times as fast{ends}"


def cases() -> list[LearningCase]:
    """Return the first shape at all spreads, and the others at one; and candidates that end higher.

    The first shape is far above its floor at the end: there, what is twice as fast does not end higher.
    """
    first, *others = SHAPES
    found = [LearningCase(first, spread, 1 + gain) for spread in SPREADS for gain in GAINS]
    found += [LearningCase(shape, SPREADS[1], 1 + gain) for shape in others for gain in LARGE_GAINS]
    return found + [LearningCase(shape, SPREADS[1], 2.0, higher=0.1) for shape in others]


def simulate_pair(case: LearningCase, seed: int, random: np.random.Generator) -> SeedPair:
    """Return what both sides reach from one seed."""
    speeds = [ratio * math.exp(random.normal(0, case.spread / math.sqrt(2))) for ratio in (1.0, case.ratio)]
    base = LearningRun(ProcessRun("base", "ok"), seed, 0, _train(case.shape, speeds[0], 0.0, random))
    candidate = LearningRun(ProcessRun("candidate", "ok"), seed, 1, _train(case.shape, speeds[1], case.higher, random))
    pair = pair_runs(base, candidate)
    assert pair is not None
    return pair


def _train(shape: Shape, speed: float, higher: float, random: np.random.Generator) -> tuple[LearningPoint, ...]:
    """Return a loss that falls by 1 from 1.5, or by less to a floor that is higher."""
    times = np.linspace(0.0, 1.0, LEGS + 1)
    floor = 0.5 + higher + random.normal(0, shape.floors / math.sqrt(2))
    losses = floor + (1 - higher) * (1 + times * speed / shape.scale) ** -shape.power
    losses += random.normal(0, shape.chance, LEGS + 1)
    return tuple(map(LearningPoint, range(LEGS + 1), times.tolist(), losses.tolist()))


def decide(drawn: Sequence[SeedPair]) -> tuple[str, int]:
    """Return the word of one verdict, and after how many seeds it was known."""
    word = "UNDECIDED"
    for seeds in (*looks(SEEDS), SEEDS):
        alpha = alpha_at(seeds, SEEDS, final=seeds == SEEDS, share=SEEDS_LOOK_SHARE)
        word = judge_learning(Learning(SEEDS, pairs=tuple(drawn[:seeds])), GAIN, alpha).word
        if word != "UNDECIDED":
            return word, seeds
    return word, SEEDS


def simulate(case: LearningCase, verdicts: int, seed: int) -> tuple[list[Figure], dict[str, float]]:
    """Return the shares of the three words, with the limits that hold for this case.

    Each verdict draws its seeds from as many simulated pairs as there are verdicts.
    """
    random = np.random.default_rng(seed)
    pairs = [simulate_pair(case, number, random) for number in range(verdicts)]
    decided = [decide([pairs[place] for place in random.integers(verdicts, size=SEEDS)]) for _ in range(verdicts)]
    words = Counter(word for word, _ in decided)
    shares = {word: 100 * words[word] / verdicts for word in ("KEEP", "DISCARD", "UNDECIDED")}
    shares["seeds"] = sum(seeds for _, seeds in decided) / verdicts
    error = 100 * 2 * math.sqrt(0.01 * 0.99 / verdicts)
    limits: list[Figure] = []
    if case.ratio == 1 or case.higher:
        limits = [Figure(f"{case}: kept", shares["KEEP"], "%", most=1 + error)]
    elif case.ratio == 1.2 and case.spread <= 0.06 and case.shape is SHAPES[0]:
        limits = [Figure(f"{case}: kept", shares["KEEP"], "%", least=KEPT_OF_A_FIFTH)]
    print(
        f"{case!s:70} KEEP {shares['KEEP']:5.1f} %  DISCARD {shares['DISCARD']:5.1f} %  "
        f"UNDECIDED {shares['UNDECIDED']:5.1f} %  {shares['seeds']:4.1f} seeds",
        flush=True,
    )
    return limits, shares
