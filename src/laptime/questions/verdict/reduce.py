"""A candidate's rounds against the base -> KEEP, DISCARD or UNDECIDED.

The intervals of all looks together are wrong in at most 2 % of verdicts, half of it at either end: so a change that
makes nothing faster is kept once in a hundred. A change is kept where its whole interval is above 1 and it is nearer to
the wanted gain than to none; it is discarded where its whole interval is below that gain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, exp, inf, log

from laptime.model.other_work import OtherWork
from laptime.model.quantities import Factor, Missing, percent
from laptime.model.record import Comparison
from laptime.model.stats import FIRST_LOOK
from laptime.questions.verdict.nouns import ERRORS, Cause, Decision, SessionPart, Word

BUSY_TIMES = 3.0
NEARER = 0.5  # of the gain: from here on a change is nearer to it than to no gain
LOOK_SHARE = 0.02  # of the errors, for each look before the last: the rest is the last one's, which decides most often
LOOKS_APART = 1.4  # times the rounds of a look, until the next one
MORE_AT_LEAST = 1.5  # times the budget: less is not worth another command
FRESH_NEEDS = "more time: half of the budget is for the rounds that confirm it"
SameWork = OtherWork | Missing | None
"""Nothing where two trainings do the same work, how it differs where they do not, or why that is not known."""


def looks(planned: int) -> tuple[int, ...]:
    """Return after how many rounds the verdict may be known early: ever more apart, as most decide soon or not at all.

    Fewer than four rounds would need an interval of ten times their spread.
    """
    rounds = [FIRST_LOOK + 1]
    while (after := ceil(rounds[-1] * LOOKS_APART)) < planned:
        rounds.append(after)
    return tuple(number for number in rounds if number < planned)


def alpha_at(rounds: int, planned: int, *, final: bool, share: float = LOOK_SHARE, errors: float = ERRORS) -> float:
    """Return the error rate of a look; the last one, whenever it comes, gets what the earlier ones left."""
    early = looks(planned)
    left = 1 - share * sum(look < rounds for look in early)
    return errors * (share if rounds in early and not final else left)


def judge_change(
    found: Comparison | None, twin: Comparison | None, gain: float, *, gate: bool, busy: str | None = None
) -> Decision:
    """Return the verdict on a candidate whose work is the base's.

    Where the machine was too `busy` for figures to be reliable, an interval is taken as three times as wide.
    """
    if found is None or found.ends is None or (gate and (twin is None or twin.ends is None)):
        needs = "more time: an interval needs three rounds"
        return Decision("UNDECIDED", "early", "there are too few rounds for an interval.", needs)
    # The candidate's factor, with an interval that is no narrower than that of the base against itself
    times = BUSY_TIMES if busy else 1.0
    if twin is None and times == 1:
        factor = Factor(found.ratio, found.low, found.high)
    else:
        half = times * max(_half(found), 0.0 if twin is None else _half(twin))
        half = half if half < WIDEST else inf
        factor = Factor(found.ratio, found.ratio * exp(-half), found.ratio * exp(half))
    again = None if twin is None else Factor(twin.ratio, twin.low, twin.high)
    if again is not None and (again.is_above(1) or again.is_below(1)):
        says = f"the base differs from itself by {again.ratio:.3f}x: the machine changes from round to round."
        return Decision("UNDECIDED", "busy", says, "a quieter machine", factor, again)
    word, cause, says = (_judge_gate if gate else _judge_gain)(factor, gain)
    if busy and word == "UNDECIDED":
        return Decision(word, "busy", f"the figures are not reliable: {busy}", "a quieter machine", factor, again)
    says += f" The machine was busy, so the interval is {BUSY_TIMES:.0f} times as wide." if busy else ""
    if word != "UNDECIDED":
        return Decision(word, cause, says, "", factor, again)
    # What would decide: as many rounds as make the interval so narrow that a bound is out of it
    off = log(factor.ratio)
    bound = -log(1 + gain) if gate else log(1 + gain)
    more = max((_half(factor) / max(abs(off), abs(off - bound))) ** 2, MORE_AT_LEAST)
    needs = f"about {more:.1f} times the budget, or a quieter machine"
    return Decision(word, cause, says, needs, factor, again)


def confirm_change(decided: Decision, session: SessionPart) -> Decision:
    """Return the verdict of a session: one that only chosen rounds would keep is not known yet.

    `decided` is by the fresh rounds where the session says what was chosen, and else by the rounds that choose.
    """
    chosen = session.chosen
    if chosen is None and decided.word == "KEEP":
        says = f"it is {_times(decided.factor)} as fast in the rounds that chose it, and no others confirmed it."
        return replace(decided, word="UNDECIDED", cause="unconfirmed", says=says, needs=FRESH_NEEDS)
    if chosen is None:
        return decided
    earlier = f"The rounds that chose it measured {chosen.ratio:.3f}x."
    if decided.word == "UNDECIDED" and decided.cause in ("wide", "early"):
        decided = replace(decided, cause="unconfirmed")
    return replace(decided, says=f"{decided.says} {earlier}")


WIDEST = 7.0  # half of an interval, as a logarithm: one that reaches over a thousand times as far has no end


def _half(found: Comparison | Factor) -> float:
    """Return half an interval, as a logarithm."""
    if found.ends is None:
        return float("inf")
    low, high = found.ends
    return log(high / low) / 2 if low > 0 else float("inf")


def _judge_gain(factor: Factor, gain: float) -> tuple[Word, Cause, str]:
    low, high = _ends(factor)
    if low > 1 and factor.ratio >= 1 + NEARER * gain and high >= 1 + gain:
        return "KEEP", "faster", f"it is {_times(factor)} as fast, and does the same work."
    if high < 1:
        return "DISCARD", "slower", f"it is slower: {_times(factor)} as fast."
    if high < 1 + gain:
        return "DISCARD", "no gain", f"it gains less than {percent(gain)}: {_times(factor)} as fast."
    return "UNDECIDED", "wide", f"it is {_times(factor)} as fast, which may be a gain of {percent(gain)} or none."


def _judge_gate(factor: Factor, gain: float) -> tuple[Word, Cause, str]:
    low, high = _ends(factor)
    if high < 1 and factor.ratio <= 1 / (1 + NEARER * gain):
        return "DISCARD", "slower", f"it is slower: {_times(factor)} as fast."
    if low > 1 / (1 + gain):
        return "KEEP", "not slower", f"it is not slower by {percent(gain)}: {_times(factor)} as fast."
    return "UNDECIDED", "wide", f"it is {_times(factor)} as fast, which may be slower by {percent(gain)} or not at all."


def _ends(factor: Factor) -> tuple[float, float]:
    assert factor.ends is not None
    return factor.ends


def _times(factor: Factor | None) -> str:
    assert factor is not None
    low, high = _ends(factor)
    return f"{factor.ratio:.3f}x ({low:.3f}-{high:.3f})"


# What a sandbox refuses (engine/heat/sandbox.py), in the words of the system, of Python and of PyTorch.
REFUSALS = re.compile(
    "Permission denied|Read-only file system|Operation not permitted|cannot be opened|"
    "Network is unreachable|Connection refused|name resolution|the sandbox of the heat"
)
SANDBOX_RULE = "In a verdict, a training can write temporary files alone, and has no network."
WITHIN_SANDBOX = "a training that writes to tempfile.gettempdir() alone, and reads its data from files"


def is_refusal(says: str) -> bool:
    """Whether a training ended because of its sandbox, by what it said."""
    return REFUSALS.search(says) is not None


def judge_failure(says: str, *, is_base: bool) -> Decision:
    """Return the verdict where a side did not finish. What its sandbox refused is no fault of a candidate."""
    if is_refusal(says):
        return Decision("UNDECIDED", "sandbox", f"{says.rstrip('.')}. {SANDBOX_RULE}", WITHIN_SANDBOX)
    return Decision("UNDECIDED" if is_base else "DISCARD", "failed", says, "a base that trains" if is_base else "")


def judge_trick(trick: OtherWork) -> Decision:
    """Return the verdict on a candidate that changed what it is judged by."""
    return Decision("DISCARD", "cheat", f"{trick.says}.", cheat=trick.kind)


def judge_left(left: Sequence[str]) -> Decision:
    """Return the verdict where processes left something behind, which a later one could have read."""
    says = f"after a round, {left[0]} was left behind, where the next one could read it."
    return Decision("UNDECIDED", "sandbox", says, "a training that removes its shared memory, and no others meanwhile")


def judge_elsewhere(says: str, kept: Decision) -> Decision:
    """Return the verdict where the turns that were compared do not have the gain for which a change was kept."""
    return replace(kept, word="UNDECIDED", cause="unproven", says=f"{says}.", needs="more time, for turns that have it")


def refuse_change(
    lanes: Sequence[tuple[str, str | None]], same_work: SameWork, trick: OtherWork | None = None
) -> Decision | None:
    """Return the verdict that needs no factor: a lane that failed, a trick, other work, or work that is not proven.

    `lanes` are the base's and the candidate's name, each with why it did not finish.
    """
    (base, base_failed), (candidate, failed) = lanes
    if base_failed is not None:
        return judge_failure(f"the base {base} did not finish: {base_failed}", is_base=True)
    if trick is not None:
        return judge_trick(trick)
    if failed is not None:
        return judge_failure(f"{candidate} did not finish: {failed}", is_base=False)
    if isinstance(same_work, OtherWork):
        return Decision("DISCARD", "other work", f"it does other work: {same_work.says}.", cheat=same_work.kind)
    if isinstance(same_work, Missing):
        says = f"equal work is not proven: {same_work.missing}."
        return Decision("UNDECIDED", "unproven", says, "a training whose work can be proven (docs/proof.md)")
    return None
