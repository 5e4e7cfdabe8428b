"""Losses over seconds of training, seed by seed -> KEEP, DISCARD or UNDECIDED of how a candidate learns.

From one seed, both are compared at the loss at which the worse of the two ends, and a margin above it, as a flat end is
chance. Curves are smoothed alike, so that they never rise. So a pair favours neither: where both learn alike, its ratio
is above 1 as often as below, and a test of the ratios is wrong as often as it says. Nothing is extrapolated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import log

from laptime.model.other_work import OtherWork
from laptime.model.quantities import Factor, number, percent
from laptime.model.stats import log_mean_interval, mean_interval, median
from laptime.questions.verdict.cheats import HIDDEN_LEAST_S, HIDDEN_PART, find_replaced
from laptime.questions.verdict.nouns import (
    Decision,
    Learning,
    LearningPoint,
    LearningRun,
    SeedPair,
    Word,
    mean_over_seeds,
)
from laptime.questions.verdict.reduce import MORE_AT_LEAST, NEARER, judge_failure, judge_trick

AROUND = (0.92, 0.96, 1.0)  # of a time: where the loss then is read off
LATE = 2 / 3  # of the training: a loss that falls no more after it has come to its end
POINTS_LEAST = 6
SEED_PAIRS_LEAST = 3
QUIET_SHARE = 0.25  # of the legs: with fewer, nothing shows what a leg takes undisturbed
END_MARGIN = 0.02  # of how far a loss falls: a candidate that ends higher by more does not learn as well
AHEAD = 0.1  # of the same: a candidate whose loss is lower by more before its first step was trained before
GIVE_MORE_TIME = "a longer training: more --budget, or --laps"
LossCurve = Sequence[tuple[float, float]]
"""Seconds of training, and the loss then."""


def pair_runs(base: LearningRun, candidate: LearningRun) -> SeedPair | None:
    """Return what both reached from one seed; None where one of them has no end that can be compared."""
    curves = [losses_of(run.points) for run in (base, candidate)]
    if any(len(curve) < POINTS_LEAST for curve in curves) or any(map(is_lost, (base, candidate))):
        return None
    common_s = min(curve[-1][0] for curve in curves)
    ends = [middle_loss(curve, common_s) for curve in curves]
    late_gains = [middle_loss(curve, LATE * common_s) - end for curve, end in zip(curves, ends, strict=True)]
    falling = [smoothed(curve) for curve in curves]
    falls = mean_over_seeds(curve[0][1] - curve[-1][1] for curve in falling)
    loss = max(curve[-1][1] for curve in falling) + END_MARGIN * falls
    base_s, candidate_s = (reached_s(curve, loss) for curve in falling)
    return SeedPair(
        base.seed,
        loss,
        base_s,
        candidate_s,
        starts=(curves[0][0][1], curves[1][0][1]),
        ends=(ends[0], ends[1]),
        late_gains=(late_gains[0], late_gains[1]),
    )


def is_lost(run: LearningRun) -> bool:
    """Whether its loss became infinite, or no number."""
    return any(point.loss is None for point in run.points)


def losses_of(points: Sequence[LearningPoint]) -> list[tuple[float, float]]:
    """Return the curve. A leg that other processes disturbed counts as the middle one of those that none did."""
    legs = [after.train_s - before.train_s for before, after in pairwise(points)]
    quiet = [leg_s for leg_s, point in zip(legs, points[1:], strict=True) if point.flag is None]
    usual = median(quiet) if len(quiet) >= QUIET_SHARE * len(legs) and quiet else None
    curve: list[tuple[float, float]] = []
    train_s = 0.0
    for point, leg_s in zip(points, [0.0, *legs], strict=True):
        train_s += leg_s if point.flag is None or usual is None else min(leg_s, usual)
        if point.loss is not None:
            curve.append((train_s, point.loss))
    return curve


def usual_s(points: Sequence[LearningPoint]) -> float:
    """Return how long a training takes, by its legs that nothing disturbed."""
    curve = losses_of(points)
    return curve[-1][0] if curve else 0.0


def middle_loss(curve: LossCurve, seconds: float) -> float:
    """Return the middle one of three losses up to this time, on lines between the points: one alone may be chance."""
    losses = []
    for time_s in (around * seconds for around in AROUND):
        place = min(max(bisect_left(curve, time_s, key=lambda point: point[0]), 1), len(curve) - 1)
        before_s, before = curve[place - 1]
        after_s, after = curve[place]
        share = (time_s - before_s) / (after_s - before_s) if after_s > before_s else 1.0
        losses.append(before + share * (after - before))
    return median(losses)


def smoothed(curve: LossCurve) -> list[tuple[float, float]]:
    """Return a curve that never rises: neighbours that do are replaced by their mean, at their mean time.

    (These are the blocks of an isotonic regression, each as one point in its middle.)
    """
    blocks: list[tuple[float, float, int]] = []  # sums of seconds and losses, and how many points
    for seconds, loss in curve:
        blocks.append((seconds, loss, 1))
        while len(blocks) > 1 and blocks[-2][1] / blocks[-2][2] <= blocks[-1][1] / blocks[-1][2]:
            time_b, loss_b, count_b = blocks.pop()
            time_a, loss_a, count_a = blocks.pop()
            blocks.append((time_a + time_b, loss_a + loss_b, count_a + count_b))
    return [(seconds / count, loss / count) for seconds, loss, count in blocks]


def reached_s(curve: LossCurve, wanted: float) -> float | None:
    """Return when a curve that falls reaches `wanted`, on lines between its points; None if at its start or never."""
    for (before_s, high), (after_s, low) in pairwise(curve):
        if high > wanted >= low:
            return before_s + (after_s - before_s) * (high - wanted) / (high - low)
    return None


def judge_learning(learning: Learning, gain: float, alpha: float) -> Decision:
    """Return the verdict on how a candidate learns, by intervals that miss `alpha` together at both ends."""
    pairs = learning.pairs
    refused = _refuse_runs(learning) or _refuse_pairs(pairs)
    if refused is not None:
        return refused
    falls = _base_falls(pairs)
    ratios = [pair.base_s / pair.candidate_s for pair in pairs if pair.base_s and pair.candidate_s]
    if len(pairs) < SEED_PAIRS_LEAST:
        return Decision("UNDECIDED", "early", "too few seeds are trained for an interval.", GIVE_MORE_TIME)
    if len(ratios) < len(pairs):
        return Decision("UNDECIDED", "early", "a loss hardly falls: it begins where the other ends.", GIVE_MORE_TIME)
    if mean_interval([pair.starts[0] - pair.ends[0] for pair in pairs], alpha)[1] <= 0:
        return Decision("UNDECIDED", "early", "the base's loss does not fall for certain.", GIVE_MORE_TIME)
    found = log_mean_interval(ratios, alpha)
    factor = Factor(found.estimate, found.low, found.high)
    excess = mean_interval([(pair.ends[1] - pair.ends[0]) / falls for pair in pairs], alpha)
    return _judge(factor, excess, pairs, gain)


def _base_falls(pairs: Sequence[SeedPair]) -> float:
    """Return how far the base's loss falls, in the mean of the seeds."""
    return mean_over_seeds(pair.starts[0] - pair.ends[0] for pair in pairs)


def _judge(factor: Factor, excess: tuple[float, float, float], pairs: Sequence[SeedPair], gain: float) -> Decision:
    """Decide by the factor of the times, and by how much higher the candidate's loss ends than the base's."""
    assert factor.ends is not None
    low, high = factor.ends
    worse, worse_low, worse_high = excess
    is_worse = worse_low > 0 and worse >= NEARER * END_MARGIN
    is_flat = mean_over_seeds(pair.late_gains[1] for pair in pairs) < END_MARGIN * _base_falls(pairs)
    ends = f"its loss ends at {_loss(_ends(pairs, 1))}, the base's at {_loss(_ends(pairs, 0))}"
    # The loss that both reach, and after how many seconds each does, in the mean of the seeds
    base_s = mean_over_seeds(pair.base_s for pair in pairs if pair.base_s)
    candidate_s = mean_over_seeds(pair.candidate_s for pair in pairs if pair.candidate_s)
    loss = _loss(mean_over_seeds(pair.loss for pair in pairs))
    seconds_words = f"to a loss of {loss} in {candidate_s:.3g} s, the base in {base_s:.3g} s"
    times = f"{factor.ratio:.2f}x as fast ({low:.2f}-{high:.2f}), {seconds_words}"
    if is_worse and (is_flat or high >= 1):
        return Decision("DISCARD", "learns worse", f"it learns worse: {ends}.", factor=factor)
    if high < 1:
        return Decision("DISCARD", "learns slower", f"it learns slower: {times}.", factor=factor)
    if high < 1 + gain:
        return Decision("DISCARD", "no gain", f"it learns less than {percent(gain)} faster: {times}.", factor=factor)
    if low > 1 and factor.ratio >= 1 + NEARER * gain:
        if worse_high <= END_MARGIN:
            return Decision("KEEP", "learns faster", f"it learns as well, {times}.", factor=factor)
        says = f"it learns {times}, but it may end higher: {ends}."
        return Decision("UNDECIDED", "wide", says, "more --seeds, or a longer training", factor)
    # How many seeds make the interval so narrow that it leaves out no gain, or the wanted one
    off = log(factor.ratio)
    wanted = max(abs(off), abs(off - log(1 + gain)))
    more = max((log(high / low) / 2 / wanted) ** 2, MORE_AT_LEAST) if wanted and low > 0 else MORE_AT_LEAST
    needs = f"about {more * len(pairs):.0f} --seeds, with as much more of the budget"
    return Decision("UNDECIDED", "wide", f"it may learn faster or not: {times}.", needs, factor)


def _refuse_runs(learning: Learning) -> Decision | None:
    """Return the verdict where some run has no losses that can be compared. Those of the base are named first."""
    if learning.why_no_loss:
        says = f"no loss can be judged alike for both: {learning.why_no_loss}."
        return Decision("UNDECIDED", "no loss", says, "a base with a model and a loss of PyTorch (docs/verdict.md)")
    for run, is_base in _runs_by_side(learning):
        who = "the base" if is_base else "it"
        word: Word = "UNDECIDED" if is_base else "DISCARD"
        if run.misfit:
            says = f"the weights of {'the base' if is_base else 'the candidate'} cannot be judged: {run.misfit}."
            return Decision("UNDECIDED", "other network", says, "a candidate with the base's network")
        if run.process.dnf is not None:
            says = f"{who} did not finish, from seed {run.seed}: {run.process.dnf.reason}"
            return judge_failure(says, is_base=is_base)
        replaced = None if is_base else find_replaced([run.changed])
        if replaced is not None:
            return judge_trick(replaced)
        if is_lost(run):
            says = f"{who} does not learn: its loss is not finite, from seed {run.seed}."
            return Decision(word, "learns worse", says, "a base that learns" if is_base else "")
    hidden = _find_hidden_time(learning)
    if hidden is not None:
        return judge_trick(hidden)
    # Where a side learns the same from all seeds, their spread would be of the machine alone
    for is_base, who in ((True, "the base"), (False, "the candidate")):
        runs = [run for run, is_its in _runs_by_side(learning) if is_its == is_base]
        if len(runs) > 1 and len({(run.points[0].loss, run.points[-1].loss) for run in runs}) == 1:
            says = f"all seeds are one: {who} learns the same from each, so its code sets a seed of its own."
            return Decision("UNDECIDED", "one seed", says, "a training that leaves the seed to laptime")
    return None


def _find_hidden_time(learning: Learning) -> OtherWork | None:
    """Return that legs of the candidate took longer than it reported, next to those of the base.

    Both write weights of the same size after a leg, so what a leg takes beyond its steps is alike.
    """
    base: list[tuple[float, float]] = []  # the seconds of each undisturbed leg, by laptime's own clock and as reported
    candidate: list[tuple[float, float]] = []
    for run, is_base in _runs_by_side(learning):
        for before, after in pairwise(run.points):
            if after.seen_s is not None and after.flag is None:
                (base if is_base else candidate).append((after.seen_s, after.train_s - before.train_s))
    if not base or not candidate:
        return None
    usual_s = median([seen_s - told_s for seen_s, told_s in base])
    told_s = median([told_s for _, told_s in candidate])
    beyond_s = median([seen_s - told_s for seen_s, told_s in candidate])
    if beyond_s - usual_s <= max(HIDDEN_PART * told_s, HIDDEN_LEAST_S, usual_s):
        return None
    return OtherWork(
        "hidden time",
        f"by laptime's own clock its legs took {number(1e3 * (told_s + beyond_s))} ms, of which it reported "
        f"{number(1e3 * told_s)} ms; those of the base took {number(1e3 * usual_s)} ms more than it reported",
    )


def _runs_by_side(learning: Learning) -> list[tuple[LearningRun, bool]]:
    """Return all runs, each with whether it is the base's; the base has the first of all."""
    if not learning.runs:
        return []
    base = min(learning.runs, key=lambda run: run.order).process.lane
    sides = [(run, run.process.lane == base) for run in learning.runs]
    return sorted(sides, key=lambda side: not side[1])


def _refuse_pairs(pairs: Sequence[SeedPair]) -> Decision | None:
    """Return the verdict that needs no interval: weights that were trained before, or a loss that does not fall."""
    if not pairs:
        return Decision("UNDECIDED", "early", "no seed was trained by both.", GIVE_MORE_TIME)
    falls = _base_falls(pairs)
    ahead = mean_over_seeds(pair.starts[0] - pair.starts[1] for pair in pairs)
    if falls > 0 and ahead > AHEAD * falls:
        start, base = (_loss(mean_over_seeds(pair.starts[place] for pair in pairs)) for place in (1, 0))
        says = f"its weights were trained before: its loss is {start} before its first step, the base's {base}."
        return Decision("DISCARD", "trained before", says)
    lost = next((pair for pair in pairs if pair.ends[0] < pair.starts[0] and pair.ends[1] >= pair.starts[1]), None)
    if lost is not None:
        says = f"from seed {lost.seed} its loss goes from {_loss(lost.starts[1])} to {_loss(lost.ends[1])}"
        return Decision("DISCARD", "learns worse", f"it does not learn: {says}, the base's to {_loss(lost.ends[0])}.")
    return None


def _ends(pairs: Sequence[SeedPair], place: int) -> float:
    return mean_over_seeds(pair.ends[place] for pair in pairs)


def _loss(value: float) -> str:
    return f"{value:.3g}"
