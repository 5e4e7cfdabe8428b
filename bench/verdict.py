"""How often is a verdict wrong, and how often does it find what is there? Simulated from rounds as races have them.

    python bench/verdict.py                 20,000 verdicts a line (a minute)
    python bench/verdict.py --verdicts 2000
    python bench/verdict.py --learning      verdicts on how fast a candidate learns (bench/verdict_learning.py)
    python bench/verdict.py --recorded      with the rounds of real races in place of made ones

A simulated verdict is `laptime verdict` without its processes: rounds of a candidate against its base, by the looks,
the intervals and the rule that the command uses. Rounds differ by 1 to 5 %, as they do on machines from quiet to
shared; a budget of 90 s has time for 20 of them, a gate of ten minutes with its twin for 100. Held: of changes that
make nothing faster at most 1 % are kept; of true gains of 5 % at least 95 % are kept, of 2 % at least 60 %, where the
machine is quiet (rounds that differ by 2 %); a gate at a spread of 5 % finds 95 % of what is 5 % slower, and calls at
most 1 % of equal ones slower.

With --recorded, blocks of rounds are drawn from real races, as they are and widened or narrowed to a spread of 5 %
(bench/recorded_noise.py). Held by each machine: at most 1 % of equal changes are kept, and called slower by a gate; at
a spread of 5 % a gate of ten minutes finds 95 % of what is 5 % slower.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import verdict_learning
from common import Figure, finish, parser_for
from laptime.model.record import Comparison
from laptime.questions.verdict.reduce import alpha_at, judge_change, looks
from laptime.stats import log_mean_interval
from recorded_noise import RecordedRace, draw, read_races, spread_of

ROUNDS, GATE_ROUNDS = 20, 100  # that fit into 90 s of two lanes, and into ten minutes of three
GAIN = 0.02
SPREADS = (0.01, 0.02, 0.03, 0.05)
GAINS = (0.0, 0.01, 0.02, 0.05)
LOSSES = (0.0, 0.02, 0.05)
CHANGES = (1.0, 1 / 1.02, 1 / 1.05, 1.02, 1.05)
GOAL_SPREAD = 0.05


@dataclass(frozen=True, slots=True)
class Case:
    """What is simulated: how far rounds differ, how many times as fast the candidate is, and whether it is a gate."""

    spread: float
    ratio: float
    gate: bool = False
    machine: str = ""
    races: tuple[RecordedRace, ...] = ()

    def __str__(self) -> str:
        what = f"{self.machine}{', ' if self.machine else ''}{'gate, ' if self.gate else ''}"
        return f"{what}rounds differ by {self.spread:.1%}, {self.ratio:.2f} times as fast"

    def draw(self, rounds: int, random: np.random.Generator) -> tuple[list[float], list[float]]:
        """Return the ratios of the candidate's rounds, and of those of the base again."""
        if self.races:
            noise = draw([*self.races], rounds, random) * (self.spread / spread_of([*self.races]))
        else:
            # Each lane has a share of a round's spread; both ratios of a gate have the base's in them.
            lanes = random.normal(0, self.spread / math.sqrt(2), (3, rounds))
            noise = lanes[1:] - lanes[0]
        return np.exp(noise[0] + math.log(self.ratio)).tolist(), np.exp(noise[1]).tolist()


def compare(ratios: Sequence[float], alpha: float) -> Comparison:
    """Return the comparison that a race makes of its rounds, by Student's t."""
    found = log_mean_interval(ratios, alpha)
    return Comparison(
        "candidate", "base", found.estimate, found.low, found.high, "faster", settled=False, pairs=len(ratios),
        same_work=True, alpha=alpha,
    )  # fmt: skip


def decide(case: Case, random: np.random.Generator) -> tuple[str, int]:
    """Return the word of one verdict, and after how many rounds it was known."""
    planned = GATE_ROUNDS if case.gate else ROUNDS
    ratios, again = case.draw(planned, random)
    for rounds in (*looks(planned), planned):
        alpha = alpha_at(rounds, planned, final=rounds == planned)
        twin = compare(again[:rounds], alpha) if case.gate else None
        word = judge_change(compare(ratios[:rounds], alpha), twin, GAIN, gate=case.gate).word
        if word != "UNDECIDED":
            return word, rounds
    return "UNDECIDED", planned


def simulate(case: Case, verdicts: int, seed: int) -> tuple[list[Figure], dict[str, float]]:
    """Return the shares of the three words, with the limits that hold for this case."""
    random = np.random.default_rng(seed)
    decided = [decide(case, random) for _ in range(verdicts)]
    words = Counter(word for word, _ in decided)
    shares = {word: 100 * words[word] / verdicts for word in ("KEEP", "DISCARD", "UNDECIDED")}
    shares["rounds"] = sum(rounds for _, rounds in decided) / verdicts
    error = 100 * 2 * math.sqrt(0.01 * 0.99 / verdicts)  # two standard errors of a share of 1 %
    limits: list[Figure] = []
    if not case.gate and case.ratio == 1:
        limits = [Figure(f"{case}: kept", shares["KEEP"], "%", most=1 + error)]
    elif not case.gate and not case.races and case.spread <= 0.02 and case.ratio in {1.05, 1.02}:
        limits = [Figure(f"{case}: kept", shares["KEEP"], "%", least=95.0 if case.ratio == 1.05 else 60.0)]
    elif case.gate and case.ratio == 1:
        limits = [Figure(f"{case}: called slower", shares["DISCARD"], "%", most=1 + error)]
    elif case.gate and case.spread == 0.05 and case.ratio < 0.96:
        limits = [Figure(f"{case}: found", shares["DISCARD"], "%", least=95.0)]
    kept, discarded, open_ = (shares[word] for word in ("KEEP", "DISCARD", "UNDECIDED"))
    print(
        f"{case!s:90} KEEP {kept:5.1f} %  DISCARD {discarded:5.1f} %  UNDECIDED {open_:5.1f} %  "
        f"{shares['rounds']:5.1f} rounds",
        flush=True,
    )
    return limits, shares


def made_cases() -> list[Case]:
    cases = [Case(spread, 1 + gain) for spread in SPREADS for gain in GAINS]
    return cases + [Case(spread, 1 / (1 + loss), gate=True) for spread in SPREADS for loss in LOSSES]


def recorded_cases() -> list[Case]:
    """Return the cases of each machine that real races ran on, at its own spread and at one of 5 %."""
    cases: list[Case] = []
    for machine, races in sorted(read_races().items()):
        own = spread_of(races)
        print(
            f"{machine}: {len(races)} races, {sum(each.rounds * len(each.away) for each in races)} rounds", flush=True
        )
        for spread in (own, GOAL_SPREAD):
            told = {"machine": machine, "races": tuple(races)}
            cases += [Case(spread, ratio, gate=False, **told) for ratio in CHANGES]
            cases += [Case(spread, ratio, gate=True, **told) for ratio in CHANGES]
    return cases


def parse() -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--verdicts", type=int, default=20_000)
    parser.add_argument("--learning", action="store_true")
    parser.add_argument("--recorded", action="store_true", help="draw from the rounds of real races")
    return parser.parse_args()


def main() -> int:
    given = parse()
    figures: list[Figure] = []
    details: dict[str, dict[str, float]] = {}
    if given.learning:
        for seed, learning in enumerate(verdict_learning.cases()):
            limits, details[str(learning)] = verdict_learning.simulate(learning, given.verdicts, seed)
            figures += limits
        return finish("verdict-learning", figures, given.out, details=details)
    for seed, case in enumerate(recorded_cases() if given.recorded else made_cases()):
        limits, details[str(case)] = simulate(case, given.verdicts, seed)
        figures += limits
    return finish("verdict_recorded" if given.recorded else "verdict", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
