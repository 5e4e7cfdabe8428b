"""How often a whole session of verdicts is wrong, and what it costs a real gain. Part of `bench/verdict.py --sessions`.

A session of 200 edits that make nothing faster is simulated again and again: its rounds, the looks, intervals and rule
of the command, and the shares of its error, as `laptime verdict --session` spends and gets them back. Held: at most one
session in a hundred keeps anything. From the states of these sessions before their verdicts 1, 10 and 100, a gain of 5
and of 10 % is judged: so many are kept, next to a single verdict without a session that has the same rounds, or as
many as choose.

Next to this rule are others at the same error of 1 % a session, for the same gain of 5 % where rounds differ by 5 %:
a share for each verdict, which has all rounds; and shares for fresh rounds that do not come back, or fall otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common import Figure
from laptime.model.record import Comparison
from laptime.questions.verdict.nouns import ERRORS, SESSION_ERROR, SessionState, share_of_error
from laptime.questions.verdict.reduce import alpha_at, judge_change, looks
from laptime.questions.verdict.session import HELD_SHARE
from laptime.stats import log_mean_interval
from recorded_noise import RecordedRace, draw, read_races, spread_of

VERDICTS, SESSIONS = 200, 2_000
ROUNDS = 40  # that fit into three minutes of two lanes, and half of them into the part that chooses
AT = (1, 10, 100)  # verdicts of a session at which a gain is judged
GAINS = (0.05, 0.1)
SPREADS = (0.02, 0.03, 0.05)
POOL_ROUNDS = 200_000  # of recorded noise, drawn once for a case: each verdict has a stretch of them
WANTED = 0.02
GAINS_A_STATE = 2
RULES_GAIN = 0.05
POWER_SUM = 2.2857657  # of all 1 / number ** 1.6


@dataclass(frozen=True)
class SessionCase:
    """How far rounds differ, and of which machine they are, where they are recorded ones."""

    spread: float
    machine: str = ""
    races: tuple[RecordedRace, ...] = ()
    rounds: int = ROUNDS

    @cached_property
    def pool(self) -> np.ndarray:
        """Noise of recorded rounds, in blocks as they followed each other."""
        noise = draw([*self.races], POOL_ROUNDS, np.random.default_rng(len(self.races)))[0]
        return noise * (self.spread / spread_of([*self.races]))

    def __str__(self) -> str:
        where = f"{self.machine}, " if self.machine else ""
        return f"{where}rounds differ by {self.spread:.1%}, {self.rounds} of a verdict"

    def draw(self, rounds: int, gain: float, random: np.random.Generator) -> list[float]:
        """Return the ratios of so many rounds of a candidate with a gain."""
        if self.races:
            first = int(random.integers(POOL_ROUNDS - rounds + 1))
            noise = self.pool[first : first + rounds]
        else:
            noise = random.normal(0, self.spread, rounds)
        return [math.exp(each) for each in (noise + math.log1p(gain)).tolist()]


def judge(ratios: Sequence[float], errors: float) -> tuple[str, int]:
    """Return the word of these rounds, and after how many it is known."""
    planned = len(ratios)
    for rounds in (*looks(planned), planned):
        alpha = alpha_at(rounds, planned, final=rounds == planned, errors=errors)
        found = log_mean_interval(ratios[:rounds], alpha)
        compared = Comparison(
            "candidate", "base", found.estimate, found.low, found.high, "faster", settled=False, pairs=rounds,
            same_work=True, alpha=alpha,
        )  # fmt: skip
        word = judge_change(compared, None, WANTED, gate=False).word
        if word != "UNDECIDED":
            return word, rounds
    return "UNDECIDED", planned


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict of a session: whether it was chosen and kept, the rounds that it took, and the state after it."""

    is_chosen: bool
    is_kept: bool
    rounds: int
    state: SessionState


def run_verdict(case: SessionCase, gain: float, state: SessionState, random: np.random.Generator) -> Verdict:
    """Judge one candidate as the command does: by rounds that choose, and then by fresh ones at the next share."""
    choosing = round((1 - HELD_SHARE) * case.rounds)
    word, rounds = judge(case.draw(choosing, gain, random), ERRORS)
    state = state.with_verdict()
    if word != "KEEP":
        return Verdict(is_chosen=False, is_kept=False, rounds=rounds, state=state)
    share = state.next_share
    word, fresh = judge(case.draw(case.rounds - rounds, gain, random), 2 * share_of_error(share))
    kept = word == "KEEP"
    return Verdict(True, kept, rounds + fresh, state if kept else state.without_share(share))


def simulate(case: SessionCase, sessions: int, seed: int) -> tuple[list[Figure], dict[str, float]]:
    """Return the share of sessions that keep anything, its limit, and the shares of gains that are kept."""
    random = np.random.default_rng(seed)
    states: dict[int, list[SessionState]] = {at: [] for at in AT}
    wrong = chosen = rounds = 0
    for _ in range(sessions):
        state, has_kept = SessionState("simulated"), False
        for number in range(1, VERDICTS + 1):
            if number in states:
                states[number].append(state)
            verdict = run_verdict(case, 0.0, state, random)
            state, has_kept = verdict.state, has_kept or verdict.is_kept
            chosen, rounds = chosen + verdict.is_chosen, rounds + verdict.rounds
        wrong += has_kept
    shares = {
        "sessions that keep anything": 100 * wrong / sessions,
        "verdicts that are chosen": 100 * chosen / sessions / VERDICTS,
        "rounds of a verdict": rounds / sessions / VERDICTS,
    }
    for gain in GAINS:
        for at in AT:
            found = [run_verdict(case, gain, each, random) for each in states[at] * GAINS_A_STATE]
            shares[f"{gain:.0%} faster, kept at verdict {at}"] = _per_cent(each.is_kept for each in found)
            shares[f"{gain:.0%} faster, rounds at verdict {at}"] = sum(each.rounds for each in found) / len(found)
        for all_rounds in (case.rounds, round((1 - HELD_SHARE) * case.rounds)):
            alone = (judge(case.draw(all_rounds, gain, random), ERRORS)[0] for _ in range(sessions))
            shares[f"{gain:.0%} faster, kept without a session in {all_rounds} rounds"] = _per_cent(
                word == "KEEP" for word in alone
            )
    by_chance = 100 * 2 * math.sqrt(SESSION_ERROR * (1 - SESSION_ERROR) / sessions)
    name = f"{case}: sessions of {VERDICTS} no-ops that keep anything"
    _tell(case, shares)
    return [Figure(name, shares["sessions that keep anything"], "%", most=100 * SESSION_ERROR + by_chance)], shares


def _per_cent(found: Iterable[bool]) -> float:
    kept = [*found]
    return 100 * sum(kept) / len(kept)


def _tell(case: object, shares: dict[str, float]) -> None:
    print(f"{case}", *(f"  {name}: {share:.1f}" for name, share in shares.items()), sep="\n", flush=True)


def cases() -> list[SessionCase]:
    """Return made rounds, verdicts of less and of more time, and rounds of each machine that real races ran on."""
    made = [SessionCase(spread) for spread in SPREADS]
    made += [SessionCase(0.03, rounds=ROUNDS // 2), SessionCase(0.05, rounds=3 * ROUNDS // 2)]
    return made + [
        SessionCase(spread_of(races), machine, tuple(races)) for machine, races in sorted(read_races().items())
    ]


# Other rules at the same error of a session.

RULES_CASE = SessionCase(0.05)
Series = Callable[[int], float]
SERIES: dict[str, Series] = {
    "1 / (n (n + 1))": share_of_error,
    "1 / n^1.6": lambda number: SESSION_ERROR / POWER_SUM / number**1.6,
    "0.6^n": lambda number: SESSION_ERROR * 0.4 * 0.6 ** (number - 1),
}


def compare_rules(tried: int, seed: int) -> dict[str, float]:
    """Return how many gains of 5 % each rule keeps at verdicts 1, 10 and 100; of those before, a tenth were gains."""
    random, kept = np.random.default_rng(seed), {}
    half = round((1 - HELD_SHARE) * RULES_CASE.rounds)
    for at in AT:
        for name, series in SERIES.items():
            for rounds in (RULES_CASE.rounds, half):
                words = (judge(RULES_CASE.draw(rounds, RULES_GAIN, random), 2 * series(at))[0] for _ in range(tried))
                kept[f"a share for each verdict of {rounds} rounds, {name}, {at}"] = _per_cent(
                    word == "KEEP" for word in words
                )
            kept[f"fresh rounds, {name}, {at}"] = _keep_fresh(series, at, tried, random)
        kept[f"fresh rounds, no share comes back, {at}"] = _keep_fresh(
            share_of_error, at, tried, random, gains=(at - 1) // 10
        )
        kept[f"fresh rounds, chosen at 5 %, {at}"] = _keep_fresh(share_of_error, at, tried, random, bar=0.05)
    _tell(f"{RULES_GAIN:.0%} faster, {RULES_CASE}, kept at verdict 1, 10, 100", kept)
    return kept


def _keep_fresh(
    series: Series, at: int, tried: int, random: np.random.Generator, *, gains: int = 0, bar: float = ERRORS / 2
) -> float:
    """Return the share of gains that are kept after so many verdicts, of which some no-ops and `gains` spent shares."""
    half, found = round((1 - HELD_SHARE) * RULES_CASE.rounds), []
    for _ in range(tried):
        spent = gains + random.binomial(at - 1 - (at - 1) // 10, bar)
        word, rounds = judge(RULES_CASE.draw(half, RULES_GAIN, random), 2 * bar)
        fresh = RULES_CASE.draw(RULES_CASE.rounds - rounds, RULES_GAIN, random)
        found.append(word == "KEEP" and judge(fresh, 2 * series(spent + 1))[0] == "KEEP")
    return _per_cent(found)
