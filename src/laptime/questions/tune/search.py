"""The search for the best settings of one lane: what was tried, how fast that is and how sure, and what to try next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from laptime.analysis.heats import ALPHA, bounds, noise_of_ratio, pairs_of_heats, step_ratio
from laptime.analysis.lanes import compare_lanes
from laptime.analysis.usage import summarise_usage
from laptime.engine.run.instruments import SensorSelection
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT
from laptime.model.plan import PlannedLane
from laptime.model.quantities import Factor, Missing
from laptime.model.record import HeatResult, LaneResult
from laptime.model.stats import weighted_interval
from laptime.questions.heat_rounds import Fitting, HeatRounds
from laptime.questions.job import FAKE_FRAMEWORK
from laptime.questions.tune.lanes import SettingWords, Tunable, changed, read_look
from laptime.questions.tune.nouns import TunedLane

GAINS = 0.01  # a setting that seems faster by this is joined with others
HURTS = -0.15  # a setting that alone costs more than this is not tried together with others
SURE = 2.0  # standard errors


class Search:
    """The search on one lane: the sets of settings that were tried, each with its lane, and those that failed."""

    def __init__(self, tunable: Tunable, rounds: HeatRounds, objective: Objective) -> None:
        self.tunable = tunable
        self._rounds = rounds
        self.objective = objective
        self._fitting = Fitting(rounds)
        self.tried: dict[SettingWords, PlannedLane] = {(): tunable.base}
        self.refused: dict[SettingWords, str] = {}
        self._settled: dict[SettingWords, Rating] | None = None
        self.kept: set[SettingWords] = set()  # the sets from which the search went on
        self.confirmed: tuple[SettingWords, Gain] | None = None  # by fresh heats, before the search went on

    def take_up(self, lanes: Sequence[LaneResult], found: TunedLane | None) -> None:
        """Go on with the sets that a record has; `found` is its answer for this lane, if it had one."""
        heats = [heat.heat for lane in lanes if lane.name == self.tunable.base.name for heat in lane.heats]
        signs = [heat.signs for heat in heats if heat.signs is not None]
        if self.tunable.base.framework == SCRIPT and signs:
            self.tunable = self.tunable.after_look(read_look(signs[0]))
        for lane in lanes:
            if words := self.tunable.words_of(lane.name):
                planned = self.tunable.with_words(words)
                assert not isinstance(planned, str)
                self.tried[words] = planned
                self._rounds.admit(planned)
        if found is None:
            return
        kept = {tried_set.words for tried_set in found.path if tried_set.kept}
        self.kept = {words for words in self.tried if self.tunable.written(words) in kept}
        if found.standing == "confirmed" and found.gain is not None and (words := self.tunable.words_of(found.winner)):
            self.confirmed = words, Gain(found.gain, found.pairs)

    def stands(self, best: SettingWords, found: Gain | Missing | None) -> bool:
        """Whether what was confirmed before the search went on is still the answer: no longer fresh race was run."""
        if self.confirmed is None or self.confirmed[0] not in self.ratings():
            return False
        words, gain = self.confirmed
        return not isinstance(found, Gain) or (words == best and found.pairs <= gain.pairs)

    def add(self, words: SettingWords) -> bool:
        """Add a set of settings. Return whether there can be such a lane, it may fit into memory, and it is new."""
        if words in self.tried or words in self.refused:
            return False
        planned = self._planned(words)
        if isinstance(planned, str):
            self.refused[words] = planned
            return False
        if any(planned.settings == lane.settings for lane in self.tried.values()):
            return False
        self.tried[words] = planned
        self._rounds.admit(planned)
        return True

    def lane_of(self, words: SettingWords) -> PlannedLane | None:
        """Return the lane that a set of settings has, or would have; None where there can be none."""
        if words in self.tried:
            return self.tried[words]
        planned = self.tunable.with_words(words)
        return None if isinstance(planned, str) else planned

    def _planned(self, words: SettingWords) -> PlannedLane | str:
        """Return the lane with these settings, or why it cannot be, or surely does not fit into memory."""
        planned = self.tunable.with_words(words)
        return planned if isinstance(planned, str) else self._fitting.why_too_large(planned) or planned

    def tried_as(self, words: SettingWords) -> list[SettingWords]:
        """Return the sets that were tried and are the same lane as this one."""
        planned = self.tunable.with_words(words)
        return (
            []
            if isinstance(planned, str)
            else [other for other, lane in self.tried.items() if planned.settings == lane.settings]
        )

    def ratings(self) -> dict[SettingWords, Rating]:
        """Return how good each set of settings is that did the lane's own work; once it is settled, as it was then.

        A set that failed once is out. The lane as asked is not: all others are compared with it, by the heats that it
        finished.
        """
        if self._settled is not None:
            return self._settled
        mine = {lane.name for lane in self.tried.values()}
        lanes = [lane for lane in self._rounds.results() if lane.name in mine]
        base = self.tunable.base.name
        finished = [lane for lane in lanes if lane.status == "ok" or lane.name == base]
        sound = [lane for lane in finished if lane.step_ms is not None and lane.parity.status != "differs"]
        found = self.objective.rate(sound, base)
        return {words: found[lane.name] for words, lane in self.tried.items() if lane.name in found}

    def untried(self) -> list[SettingWords]:
        return [words for words in self.tunable.singles() if words not in self.tried and words not in self.refused]

    def joined(self, ratings: dict[SettingWords, Rating]) -> SettingWords:
        """Return all settings together that seem faster alone, each at its best value."""
        words: SettingWords = ()
        for name, values in self.tunable.values.items():
            alone = {value: ratings[((name, value),)].log for value in values if ((name, value),) in ratings}
            best = max(alone, key=lambda value: alone[value], default=None)
            if best is not None and alone[best] > GAINS:
                words = changed(words, name, best)
        return words

    def neighbours(self, words: SettingWords, ratings: dict[SettingWords, Rating]) -> list[SettingWords]:
        """Return the sets that differ in one setting and were not tried: what may be useless first, then what may help.

        A setting that costs much alone may still help with others, but is not tried then. Of those with the same
        promise, the next values of the setting that is tried before all others come first.
        """
        without = {changed(words, name, None): -self._alone(((name, value),), ratings) for name, value in words}
        others = {
            changed(words, name, value): self._alone(((name, value),), ratings)
            for name, values in self.tunable.values.items()
            for value in values
            if (name, value) not in words and self._alone(((name, value),), ratings) > HURTS
        }
        promise = {changed_words: gain for changed_words, gain in (others | without).items() if changed_words}
        failed = {tried[0] for tried in self.tried if len(tried) == 1 and self.has_failed(tried, ratings)}
        failed |= {refused[0] for refused in self.refused if len(refused) == 1} - self.tunable.in_company
        new = []
        for near in promise:
            if failed & set(near) or near in self.tried:
                continue
            # Whether there can be such a lane; if not, the reason is kept
            if near not in self.refused and isinstance(planned := self._planned(near), str):
                self.refused[near] = planned
            if near not in self.refused:
                new.append(near)
        return sorted(new, key=lambda near: (-promise[near], self._values_between(near, words)))

    def _values_between(self, words: SettingWords, other: SettingWords) -> float:
        """Return how many values of the first setting are between two sets; infinity where both have the same."""
        mine = dict(words).get(self.tunable.first)
        theirs = dict(other).get(self.tunable.first)
        values = self.tunable.values.get(self.tunable.first, ())
        if mine == theirs or mine is None or theirs is None:
            return math.inf
        return abs(values.index(mine) - values.index(theirs))

    def has_failed(self, words: SettingWords, ratings: dict[SettingWords, Rating]) -> bool:
        """Whether a set of settings was tried and has no rating: it did not finish, or did other work."""
        return words not in ratings and self.has_run(words)

    def has_run(self, words: SettingWords) -> bool:
        return bool(self._rounds.heats[self.tried[words].name])

    def lacking(self, lanes: Sequence[PlannedLane]) -> list[PlannedLane]:
        """Return the lanes that finished their heats, which were too short to tell what a second takes."""
        done = {lane.name: lane for lane in self._rounds.results() if lane.status == "ok" and lane.step_ms is not None}
        ran = [lane for lane in lanes if lane.name in done]
        return [lane for lane in ran if isinstance(self.objective.per_s(done[lane.name]), Missing)]

    @staticmethod
    def _alone(words: SettingWords, ratings: dict[SettingWords, Rating]) -> float:
        return ratings[words].log if words in ratings else 0.0

    def settle(self) -> SettingWords:
        """End the search, and return the winner: later heats change nothing."""
        self._settled = self.ratings()
        self.kept.add(self.winner())
        return self.winner()

    def is_about_first(self, words: SettingWords, other: SettingWords) -> bool:
        """Whether two sets differ in the value of the setting that is tried before all others."""
        return not math.isinf(self._values_between(words, other))

    def winner(self) -> SettingWords:
        return choose(self.ratings())

    def contenders(self, ratings: dict[SettingWords, Rating]) -> list[SettingWords]:
        """Return the sets that cannot be told from the best, the best first."""
        return self.as_good_as(max(ratings, key=lambda words: score(ratings, words)), ratings)

    @staticmethod
    def as_good_as(best: SettingWords, ratings: Mapping[SettingWords, Rating]) -> list[SettingWords]:
        """Return the sets that are not surely worse than this, when each setting has to add a percent."""
        margins = {
            words: SURE * (rating.error**2 + ratings[best].error ** 2) ** 0.5 + GAINS
            for words, rating in ratings.items()
        }
        open_ = [words for words in ratings if score(ratings, best) - score(ratings, words) < margins[words]]
        return sorted(open_, key=lambda words: -score(ratings, words))


# What the settings of a tuning are judged by: how many items they do per second, per joule, or for the money.

NOT_READ = Missing("no instrument was read")
FAKE_CLOCK = Missing("fake lanes have a clock of their own, which no reading can be compared with")
POWER_HINT = "`laptime devices` shows the instruments; --for time needs none"


class Objective:
    """The aim of a tuning, and the prices of its lanes."""

    def __init__(self, ask: Ask, alpha: float = ALPHA) -> None:
        self.aim = ask.aim
        self._ask = ask
        self._alpha = alpha

    def needs_power(self, lanes: Sequence[PlannedLane]) -> bool:
        return any(self.aim.needs_power(self._ask.prices_of(lane.device)) for lane in lanes)

    def per_s(self, lane: LaneResult) -> float | Missing:
        """Return how much of the aim's unit a second of a lane takes."""
        power_w = NOT_READ if lane.usage is None else lane.usage.energy.power_w
        return self.aim.per_s(power_w, self._ask.prices_of(lane.device))

    def rate(self, lanes: Sequence[LaneResult], base: str) -> dict[str, Rating]:
        """Return the ratings of lanes against the base; none of those whose figures do not tell what they take."""
        return weigh(rate_lanes(lanes, base), {lane.name: self.per_s(lane) for lane in lanes}, base)

    def compare(self, lane: LaneResult, reference: LaneResult) -> Gain | Missing | None:
        """Return how many times as much a lane does per unit, by the rounds of both; None where there is no round."""
        return find_gain(lane, reference, self.per_s, self._alpha)


def check_objective(ask: Ask, lanes: Sequence[PlannedLane]) -> None:
    """Refuse an aim whose figures are known to be missing: no price of a device, or nothing that reads its power."""
    aim = ask.aim
    for lane in lanes:
        prices = ask.prices_of(lane.device)
        if aim.word == "money":
            device = lane.device
            if prices.per_hour is None:
                raise UsageError(
                    f"--for money: what an hour of {device.name} costs is not known",
                    f"add --rate 0.50 for the machine, or a price for each device: --prices {device.kind}=0.50",
                )
            if not prices.per_hour and not prices.per_kwh:
                raise UsageError(f"--for money: an hour of {device.name} costs 0", "name a price above 0")
        if aim.needs_power(prices):
            if lane.framework == FAKE_FRAMEWORK:
                why: Missing | None = FAKE_CLOCK
            else:
                why = SensorSelection(ask.sensors, ask.sensors_hz).why_no_power(lane.device)
            if why is not None:
                raise UsageError(
                    f"--for {aim.word}: the power of {lane.device.name} cannot be read: {why.missing}", POWER_HINT
                )


# Heats of many lanes, of which only some race in a round -> how fast each is, and how sure that is.
#
# In each round, lanes are compared with one of them, turn by turn. These comparisons make a net, and the speeds are
# those that fit all of them best (least squares of logarithms).

SettingSet = TypeVar("SettingSet", bound=tuple[Any, ...])  # a set of settings

# How much heats of one lane differ is assumed until enough were seen: two observations of this size, besides what the
# turns of single heats show.
USUAL_SPREAD = 0.02
USUAL_WEIGHT = 2
SWEEPS = 200
WORTH_SETTING = 0.01  # what each setting of a winner has to add, as a logarithm


@dataclass(frozen=True, slots=True)
class Rating:
    """How many times as fast as the base a lane is, as a logarithm, with its standard error."""

    log: float
    error: float
    heats: int

    @property
    def factor(self) -> float:
        return math.exp(self.log)


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times as much a lane does per unit of the aim as another, and from how many rounds that is known."""

    factor: Factor
    pairs: int


@dataclass(frozen=True, slots=True)
class _Link:
    """One heat against another of its round."""

    lane: str
    anchor: str
    log: float
    noise: float  # the variance that the turns of the two heats show


def rate_lanes(lanes: Sequence[LaneResult], base: str) -> dict[str, Rating]:
    """Return the rating of each lane that is linked with the base, by its name; none without a heat of the base."""
    if all(lane.name != base for lane in lanes):
        return {}
    links = _links(lanes, base)
    logs = _fit(links, base)
    residuals = [link.log - (logs[link.lane] - logs[link.anchor]) for link in links if link.lane in logs]
    counts = Counter(link.lane for link in links) + Counter(link.anchor for link in links)
    freedom = max(0, len(residuals) - (len(logs) - 1))
    usual = USUAL_SPREAD**2 + sum(link.noise for link in links) / max(1, len(links))
    spread = USUAL_WEIGHT * usual + sum(residual**2 for residual in residuals)
    variance = spread / (USUAL_WEIGHT + freedom)
    heats = {name: max(1, counts[name]) for name in logs}
    own = {lane.name: sum(heat.step_ms is not None for heat in lane.heats) for lane in lanes}
    return {
        name: Rating(log, 0.0 if name == base else math.sqrt(variance / min(heats[name], own[name])), own[name])
        for name, log in logs.items()
    }


def _links(lanes: Sequence[LaneResult], base: str) -> list[_Link]:
    rounds: dict[int, dict[str, HeatResult]] = {}
    for lane in lanes:
        for result in lane.heats:
            if result.step_ms is not None:
                rounds.setdefault(result.heat.round, {})[lane.name] = result
    items = {lane.name: lane.items_per_step or 1 for lane in lanes}
    often = Counter(name for heats in rounds.values() for name in heats)
    links = []
    for heats in rounds.values():
        anchor = base if base in heats else max(heats, key=lambda name: often[name])
        links += [
            _Link(
                name,
                anchor,
                math.log(step_ratio(heat, heats[anchor]) * items[name] / items[anchor]),
                noise_of_ratio(heat, heats[anchor]),
            )
            for name, heat in heats.items()
            if name != anchor
        ]
    return links


def _fit(links: Sequence[_Link], base: str) -> dict[str, float]:
    """Return the logarithms that fit best, of the lanes that are linked with the base."""
    reached = {base}
    grows = True
    while grows:
        ends = [(link.lane, link.anchor) for link in links]
        new = {name for pair in ends if reached & set(pair) for name in pair} - reached
        reached |= new
        grows = bool(new)
    used = [link for link in links if link.lane in reached]
    logs = dict.fromkeys(reached, 0.0)
    for _ in range(SWEEPS):
        for name in reached - {base}:
            by_links = [link.log + logs[link.anchor] for link in used if link.lane == name]
            by_links += [logs[link.lane] - link.log for link in used if link.anchor == name]
            logs[name] = sum(by_links) / len(by_links)
    return logs


def weigh(ratings: Mapping[str, Rating], per_s: Mapping[str, float | Missing], base: str) -> dict[str, Rating]:
    """Return the ratings by what lanes take a second, against the base; none of a lane of which that is not known."""
    known = {name: rate for name, rate in per_s.items() if not isinstance(rate, Missing) and rate > 0}
    if base not in known:
        return {}
    return {
        name: replace(rating, log=rating.log + math.log(known[base] / known[name]))
        for name, rating in ratings.items()
        if name in known
    }


def choose(ratings: Mapping[SettingSet, Rating]) -> SettingSet:
    """Return the set of settings that is surely the fastest, when each of its settings has to be worth a percent.

    A set with one heat may seem fast by chance, so a set counts as fast as its standard error allows. A setting that
    adds nothing is left out, although a set with it may by chance have had the faster heats.
    """
    return max(ratings, key=lambda words: score(ratings, words) - ratings[words].error)


def score(ratings: Mapping[SettingSet, Rating], words: SettingSet) -> float:
    """Return how good a set of settings is, as a logarithm, when each of its settings costs what it has to be worth."""
    return ratings[words].log - WORTH_SETTING * len(words)


def find_gain(
    lane: LaneResult, reference: LaneResult, per_s: Callable[[LaneResult], float | Missing], alpha: float
) -> Gain | Missing | None:
    """Compare what two lanes do per unit, by the rounds that both finished; None where there is none.

    Each round gives a ratio of times, and one of what a second took in its two heats. The interval is of the products.
    """
    times = compare_lanes(lane, reference, margin=1.0, alpha=alpha)
    if times is None:
        return None
    pairs = pairs_of_heats(lane.heats, reference.heats)
    taken = [(per_s(_in_heat(lane, ours)), per_s(_in_heat(reference, theirs))) for ours, theirs in pairs]
    weighed = [
        (ratio * theirs / ours, heat.counts)
        for ratio, (ours, theirs), (heat, _) in zip(times.ratios, taken, pairs, strict=True)
        if not isinstance(ours, Missing) and not isinstance(theirs, Missing)
    ]
    if not weighed:
        return next(used for pair in taken for used in pair if isinstance(used, Missing))
    ratios, weights = zip(*weighed, strict=True)
    interval = weighted_interval(ratios, weights, alpha)
    return Gain(Factor(interval.estimate, *bounds(interval)), len(ratios))


def _in_heat(lane: LaneResult, heat: HeatResult) -> LaneResult:
    """Return a lane with one of its heats alone, and what it used there."""
    usage = summarise_usage((heat,), lane.devices or (lane.device,), 1, None, None)
    return replace(lane, heats=(heat,), usage=usage)
