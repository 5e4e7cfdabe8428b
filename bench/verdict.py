"""How often is a verdict wrong, and how often does it find what is there? Simulated from rounds as races have them.

    python bench/verdict.py                 20,000 verdicts a line (a minute)
    python bench/verdict.py --verdicts 2000
    python bench/verdict.py --learning      verdicts on how fast a candidate learns (bench/verdict_learning.py)
    python bench/verdict.py --recorded      with the rounds of real races in place of made ones
    python bench/verdict.py --sessions      whole sessions of 200 verdicts (bench/verdict_sessions.py; five minutes)

A simulated verdict is `laptime verdict` without its processes: rounds of a candidate against its base, by the looks,
the intervals and the rule that the command uses. Rounds differ by 1 to 5 %, as they do on machines from quiet to
shared; a budget of 90 s has time for 20 of them, a gate of ten minutes with its twin for 100. Held: of changes that
make nothing faster at most 1 % are kept; of true gains of 5 % at least 95 % are kept at any of these spreads, of 2 % at
least 60 % where rounds differ by 3 % or less, or by 5 % with 50 rounds; a gate at a spread of 5 % finds 95 % of what is
5 % slower, and calls at most 1 % of equal ones slower.

Next to what is kept is what an oracle would keep: a single test after the last round that knows how far rounds differ,
at the same error of 1 %. No rule that is as rarely wrong keeps more of the same rounds.

With --recorded, blocks of rounds are drawn from real races, as they are and widened or narrowed to a spread of 5 %
(bench/recorded_noise.py), also for verdicts of 5 rounds. Held by each machine: at most 1 % of equal changes are kept,
and called slower by a gate; at a spread of 5 % what is 5 % faster is kept in 95 %, and a gate of ten minutes finds 95 %
of what is 5 % slower.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

import verdict_learning
import verdict_sessions
from common import Figure, finish, parser_for
from laptime.model.record import Comparison
from laptime.model.stats import log_mean_interval
from laptime.questions.verdict.reduce import alpha_at, judge_change, looks
from recorded_noise import RecordedRace, draw, read_races, spread_of

ROUNDS, GATE_ROUNDS = 20, 100  # that fit into 90 s of two lanes, and into ten minutes of three
MORE_ROUNDS, FEW_ROUNDS = 50, 5  # of four minutes, and of 25 s
KEPT_ERROR = 0.01  # of the changes that make nothing faster
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
    rounds: int = ROUNDS

    def __str__(self) -> str:
        what = f"{self.machine}{', ' if self.machine else ''}{'gate, ' if self.gate else ''}"
        rounds = "rounds" if self.rounds in {ROUNDS, GATE_ROUNDS} else f"{self.rounds} rounds"
        return f"{what}{rounds} differ by {self.spread:.1%}, {self.ratio:.2f} times as fast"

    @property
    def oracle(self) -> float:
        """The share of such changes that one test would keep that knows the spread, in per cent."""
        normal, away = NormalDist(), math.log(self.ratio) / (self.spread / math.sqrt(self.rounds))
        return 100 * normal.cdf(away - normal.inv_cdf(1 - KEPT_ERROR))

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
    planned = case.rounds
    ratios, again = case.draw(planned, random)
    for rounds in (*looks(planned), planned):
        alpha = alpha_at(rounds, planned, final=rounds == planned)
        twin = compare(again[:rounds], alpha) if case.gate else None
        word = judge_change(compare(ratios[:rounds], alpha), twin, GAIN, gate=case.gate).word
        if word != "UNDECIDED":
            return word, rounds
    return "UNDECIDED", planned


def limits_of(case: Case, shares: dict[str, float], verdicts: int) -> Iterator[Figure]:
    """Return what has to hold, less what is chance in this many verdicts: two standard errors of a share."""
    wrong, found = (100 * 2 * math.sqrt(share * (1 - share) / verdicts) for share in (KEPT_ERROR, 0.95))
    if case.ratio == 1:
        name, word = ("called slower", "DISCARD") if case.gate else ("kept", "KEEP")
        yield Figure(f"{case}: {name}", shares[word], "%", most=100 * KEPT_ERROR + wrong)
    elif case.gate and case.spread == GOAL_SPREAD and case.ratio < 0.96:
        yield Figure(f"{case}: found", shares["DISCARD"], "%", least=95.0)
    elif not case.gate and case.ratio == 1.05 and (not case.races or case.spread == GOAL_SPREAD):
        yield Figure(f"{case}: kept", shares["KEEP"], "%", least=95.0 - found)
    elif not case.gate and case.ratio == 1.02 and not case.races and (case.spread < 0.04 or case.rounds > ROUNDS):
        yield Figure(f"{case}: kept", shares["KEEP"], "%", least=60.0)


def simulate(case: Case, verdicts: int, seed: int) -> tuple[list[Figure], dict[str, float]]:
    """Return the shares of the three words, with the limits that hold for this case."""
    random = np.random.default_rng(seed)
    decided = [decide(case, random) for _ in range(verdicts)]
    words = Counter(word for word, _ in decided)
    shares = {word: 100 * words[word] / verdicts for word in ("KEEP", "DISCARD", "UNDECIDED")}
    shares["rounds"] = sum(rounds for _, rounds in decided) / verdicts
    if not case.gate:
        shares["oracle"] = case.oracle
    limits = list(limits_of(case, shares, verdicts))
    kept, discarded, open_ = (shares[word] for word in ("KEEP", "DISCARD", "UNDECIDED"))
    print(
        f"{case!s:90} KEEP {kept:5.1f} %  DISCARD {discarded:5.1f} %  UNDECIDED {open_:5.1f} %  "
        f"{shares['rounds']:5.1f} rounds" + (f"  oracle {shares['oracle']:5.1f} %" if "oracle" in shares else ""),
        flush=True,
    )
    return limits, shares


def made_cases() -> list[Case]:
    cases = [Case(spread, 1 + gain) for spread in SPREADS for gain in GAINS]
    cases += [Case(GOAL_SPREAD, 1 + gain, rounds=MORE_ROUNDS) for gain in GAINS]
    return cases + [
        Case(spread, 1 / (1 + loss), gate=True, rounds=GATE_ROUNDS) for spread in SPREADS for loss in LOSSES
    ]


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
            cases += [Case(spread, ratio, gate=True, rounds=GATE_ROUNDS, **told) for ratio in CHANGES]
        cases.append(Case(own, 1.0, rounds=FEW_ROUNDS, **told))
    return cases


def parse() -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument("--verdicts", type=int, default=20_000)
    parser.add_argument("--learning", action="store_true")
    parser.add_argument(
        "--sessions", type=int, nargs="?", const=verdict_sessions.SESSIONS, help="whole sessions, N a line"
    )
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
    if given.sessions:
        for seed, session in enumerate(verdict_sessions.cases()):
            limits, details[str(session)] = verdict_sessions.simulate(session, given.sessions, seed)
            figures += limits
        details["rules"] = verdict_sessions.compare_rules(given.sessions, len(details))
        return finish("verdict-sessions", figures, given.out, details=details)
    for seed, case in enumerate(recorded_cases() if given.recorded else made_cases()):
        limits, details[str(case)] = simulate(case, given.verdicts, seed)
        figures += limits
    return finish("verdict_recorded" if given.recorded else "verdict", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
