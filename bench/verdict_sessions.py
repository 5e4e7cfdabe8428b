"""How often a whole session of verdicts is wrong, and what it costs a real gain. Part of `bench/verdict.py --sessions`.

A session of 200 edits that make nothing faster is simulated again and again: its rounds, the looks, intervals and rule
of the command, and the shares of its error, as `laptime verdict --session` spends and gets them back. Held: at most one
session in a hundred keeps anything. From the states of these sessions before their verdicts 1, 10 and 100, a gain of 5
and of 10 % is judged. Next to the share that is kept is that of a verdict without a session, of all rounds and of as
many as choose.

Next to this rule are others at the same error of 1 % a session, for the same gain of 5 % where rounds differ by 5 %:
a share for each verdict; shares that do not come back, or fall otherwise; and a lower bar for what is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common import Figure
from laptime.model.record import Comparison
from laptime.model.stats import log_mean_interval, t_quantile
from laptime.questions.verdict.nouns import ERRORS, SESSION_ERROR, SessionState, share_of_error
from laptime.questions.verdict.reduce import NEARER, alpha_at, judge_change, looks
from laptime.questions.verdict.session import HELD_SHARE
from recorded_noise import RecordedRace, draw, read_races, spread_of

VERDICTS, SESSIONS = 200, 5_000
ROUNDS = 40  # that fit into three minutes of two lanes, and half of them into the part that chooses
AT = (1, 10, 100)  # verdicts of a session at which a gain is judged
GAINS = (0.05, 0.1)
SPREADS = (0.02, 0.03, 0.05)
POOL_ROUNDS = 200_000  # of recorded noise, drawn once for a case: each verdict has a stretch of them
WANTED = 0.02
GAINS_A_STATE = 2
CHECKED = 300  # rows that are judged one by one, too
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

    def draw(self, candidates: int, rounds: int, gain: float, random: np.random.Generator) -> np.ndarray:
        """Return the logarithms of the ratios of candidates with a gain, a row each."""
        if self.races:
            first = random.integers(POOL_ROUNDS - rounds + 1, size=candidates)
            noise = self.pool[first[:, None] + np.arange(rounds)]
        else:
            noise = random.normal(0, self.spread, (candidates, rounds))
        return noise + math.log1p(gain)


def judge(logs: np.ndarray, errors: float) -> tuple[str, int]:
    """Return the word of these rounds, and after how many it is known."""
    ratios, planned = np.exp(logs).tolist(), len(logs)
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


def judge_rows(logs: np.ndarray, errors: float = ERRORS) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows `judge` would keep, and after how many rounds it knows: all rows at once, as they are many."""
    candidates, planned = logs.shape
    kept, rounds = np.zeros(candidates, bool), np.full(candidates, planned)
    is_open = np.ones(candidates, bool)
    for look in (*looks(planned), planned):
        alpha = alpha_at(look, planned, final=look == planned, errors=errors)
        mean, spread = logs[:, :look].mean(1), logs[:, :look].std(1, ddof=1)
        reach = -t_quantile(alpha / 2, look - 1) * spread / math.sqrt(look)
        is_gain = mean + reach >= math.log1p(WANTED)
        is_kept = is_gain & (mean - reach > 0) & (mean >= math.log1p(NEARER * WANTED))
        is_known = is_open & (is_kept | ~is_gain)
        kept |= is_known & is_kept
        rounds[is_known] = look
        is_open &= ~is_known
    return kept, rounds


def check_rows(case: SessionCase, random: np.random.Generator) -> None:
    """Make sure that all rows at once are judged as one by one, which is as the command judges."""
    logs = case.draw(CHECKED, choosing_rounds(case), GAINS[0] / 2, random)
    one_by_one = [judge(row, ERRORS) for row in logs]
    kept, rounds = judge_rows(logs)
    assert [word == "KEEP" for word, _ in one_by_one] == kept.tolist()
    assert [known for _, known in one_by_one] == rounds.tolist()


def choosing_rounds(case: SessionCase) -> int:
    return round((1 - HELD_SHARE) * case.rounds)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One verdict of each session: whether it was chosen and kept, its rounds, and the state of the session after."""

    chosen: np.ndarray
    kept: np.ndarray
    rounds: np.ndarray
    states: list[SessionState]


def run_verdicts(
    case: SessionCase, gain: float, states: Sequence[SessionState], random: np.random.Generator
) -> Verdicts:
    """Judge a candidate in each session as the command does: by rounds that choose, then by fresh ones at a share."""
    chosen, rounds = judge_rows(case.draw(len(states), choosing_rounds(case), gain, random))
    kept, after = np.zeros(len(states), bool), [state.with_verdict() for state in states]
    for place in np.flatnonzero(chosen):
        share = after[place].next_share
        logs = case.draw(1, case.rounds - int(rounds[place]), gain, random)[0]
        word, fresh = judge(logs, 2 * share_of_error(share))
        rounds[place] += fresh
        if word == "KEEP":
            kept[place] = True
        else:
            after[place] = after[place].without_share(share)
    return Verdicts(chosen, kept, rounds, after)


def simulate(case: SessionCase, sessions: int, seed: int) -> tuple[list[Figure], dict[str, float]]:
    """Return the share of sessions that keep anything, its limit, and the shares of gains that are kept."""
    random = np.random.default_rng(seed)
    check_rows(case, random)
    states, before = [SessionState("simulated")] * sessions, {}
    has_kept = np.zeros(sessions, bool)
    chosen = rounds = 0.0
    for number in range(1, VERDICTS + 1):
        if number in AT:
            before[number] = states
        made = run_verdicts(case, 0.0, states, random)
        states, has_kept = made.states, has_kept | made.kept
        chosen, rounds = chosen + made.chosen.mean() / VERDICTS, rounds + made.rounds.mean() / VERDICTS
    shares = {
        "sessions that keep anything": 100 * float(has_kept.mean()),
        "verdicts that are chosen": 100 * chosen,
        "rounds of a verdict": rounds,
    }
    for gain in GAINS:
        for at in AT:
            found = run_verdicts(case, gain, before[at] * GAINS_A_STATE, random)
            shares[f"{gain:.0%} faster, kept at verdict {at}"] = 100 * float(found.kept.mean())
            shares[f"{gain:.0%} faster, rounds at verdict {at}"] = float(found.rounds.mean())
        for all_rounds in (case.rounds, choosing_rounds(case)):
            alone, _ = judge_rows(case.draw(sessions, all_rounds, gain, random))
            shares[f"{gain:.0%} faster, kept without a session in {all_rounds} rounds"] = 100 * float(alone.mean())
    by_chance = 100 * 2 * math.sqrt(SESSION_ERROR * (1 - SESSION_ERROR) / sessions)
    name = f"{case}: sessions of {VERDICTS} no-ops that keep anything"
    _tell(case, shares)
    return [Figure(name, shares["sessions that keep anything"], "%", most=100 * SESSION_ERROR + by_chance)], shares


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
    random, kept, half = np.random.default_rng(seed), {}, choosing_rounds(RULES_CASE)
    for at in AT:
        for name, series in SERIES.items():
            for rounds in (RULES_CASE.rounds, half):
                alone, _ = judge_rows(RULES_CASE.draw(tried, rounds, RULES_GAIN, random), 2 * series(at))
                kept[f"a share for each verdict of {rounds} rounds, {name}, {at}"] = 100 * float(alone.mean())
            kept[f"fresh rounds, {name}, {at}"] = _keep_fresh(series, at, tried, random)
        gains = (at - 1) // 10
        kept[f"fresh rounds, no share comes back, {at}"] = _keep_fresh(share_of_error, at, tried, random, gains=gains)
        kept[f"fresh rounds, chosen at 5 %, {at}"] = _keep_fresh(share_of_error, at, tried, random, bar=0.05)
    _tell(f"{RULES_GAIN:.0%} faster, {RULES_CASE}, kept at verdict 1, 10, 100", kept)
    return kept


def _keep_fresh(
    series: Series, at: int, tried: int, random: np.random.Generator, *, gains: int = 0, bar: float = ERRORS / 2
) -> float:
    """Return the share of gains that are kept at a verdict, when some no-ops and `gains` before have spent shares."""
    chosen, rounds = judge_rows(RULES_CASE.draw(tried, choosing_rounds(RULES_CASE), RULES_GAIN, random), 2 * bar)
    spent = gains + random.binomial(at - 1 - (at - 1) // 10, bar, size=tried)
    kept = 0
    for place in np.flatnonzero(chosen):
        fresh = RULES_CASE.draw(1, RULES_CASE.rounds - int(rounds[place]), RULES_GAIN, random)[0]
        kept += judge(fresh, 2 * series(int(spent[place]) + 1))[0] == "KEEP"
    return 100 * kept / tried
