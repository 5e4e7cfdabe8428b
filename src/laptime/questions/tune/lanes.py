"""What `laptime tune` may try on a lane: single settings, the presets in words, and changes of a set of settings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.model.process import Lane
from laptime.model.quantities import Missing
from laptime.model.symptoms import StepSymptoms
from laptime.model.workload import Adam, Sgd, Workload
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import PlanLane
from laptime.planner.refusals import LaneFacts, SubjectFacts
from laptime.planner.settings import SETTINGS
from laptime.questions.tune.nouns import ALL_FRAMEWORKS, ALLOWED, Changes
from laptime.questions.tune.options import AIMS, TuneAsk

SettingWords = tuple[tuple[str, str], ...]
"""Settings that a lane has besides its own, each with its value, in the order of SETTINGS."""
ALLOWED_BY = {"arithmetic": "precision", "learning": "batch"}
BATCH_SETTING = "batch"
RATE = "lr"
WAITS_SHARE = 0.2  # of its steps, in which a script waits for its data
WAITS_MOSTLY = 0.5  # of its steps: then nothing but the wait decides
SHORT_STEP_MS = 30.0  # threads may take longer to meet in its operators than they save
AS_MANY = "the script has as many already"
WORKERS_WORD = "workers="
NEEDS = {"prefetch": "workers"}  # what a script may have only with another setting,
NONE = "0"  # which has another value than this
OWN_OPTIMIZER = "a training of your own brings its learning rate with its optimizer, and keeps it at another batch"
OWN_RATE = "the lane names its learning rate, and keeps it at another batch"


@dataclass(frozen=True, slots=True)
class Tunable:
    """A lane to tune: as asked, and the values of each setting that may be tried on it.

    `known` are the sets of settings that presets have. `refused` are values that the lane as asked cannot have, with
    the reason; those in `in_company` it can have together with what a preset sets. `rates` has, by value of the batch,
    the learning rate that goes with it. `needs` has, by setting, another one without which a script cannot have it. The
    setting `first` is tried before all others.
    """

    lane: Lane
    base: PlannedLane
    plan: PlanLane
    values: Mapping[str, tuple[str, ...]]
    known: tuple[SettingWords, ...]
    refused: Mapping[str, str]
    rates: Mapping[str, str] = field(default_factory=dict)
    in_company: frozenset[tuple[str, str]] = frozenset()
    needs: Mapping[str, str] = field(default_factory=dict)
    first: str = ""

    def singles(self) -> list[SettingWords]:
        """Return each single setting: first what a script waits for, then those of the presets."""
        every = [((name, value),) for name, values in self.values.items() for value in values]
        every = [words for words in every if words[0] not in self.in_company]
        likely = {pair for words in self.known for pair in words}
        return sorted(every, key=lambda words: (words[0][0] != self.first, words[0] not in likely))

    def with_words(self, words: SettingWords) -> PlannedLane | str:
        """Return the lane with these settings, or why it cannot be."""
        named = dict(words)
        for name, other in self.needs.items():
            if name in named and named.get(other, NONE) == NONE:
                return f"{name} needs {other}, and the script has none"
        return _planned_with(self.lane, self._in_full(words), self.plan)

    def after_look(self, look: ScriptLook) -> Tunable:
        """Return what is left to try on a script, once its first heat showed what it cannot have, or has already."""
        pairs = [(name, value) for name, values in self.values.items() for value in values]
        why = {pair: look.why_not(*pair) for pair in pairs}
        may_have = {name for name, other in NEEDS.items()
                    if name in look.cannot and any(pair[0] == other and pair[1] != NONE and not why[pair]
                                                   for pair in pairs)}  # fmt: skip
        kept = [pair for pair in pairs if not why[pair] or pair[0] in may_have]
        presets = [tuple(pair for pair in words if not why.get(pair)) for words in self.known]
        known, first = guess_first(look, presets, kept)
        return replace(
            self,
            values=_by_name(kept),
            known=known,
            refused={**self.refused, **{written((pair,))[0]: reason for pair, reason in why.items() if reason}},
            in_company=self.in_company | {pair for pair in kept if pair[0] in may_have},
            needs={name: NEEDS[name] for name in may_have},
            first=first,
        )

    def words_of(self, name: str) -> SettingWords | None:
        """Return the settings that the lane of this name has besides; None where it is another lane."""
        own = dict(self.lane.overrides)
        words = tuple(pair for pair in parse_lane(name).overrides if pair[0] not in own)
        if dict(words).get(BATCH_SETTING) in self.rates:
            words = changed(words, RATE, None)
        planned = self.with_words(words)
        return words if not isinstance(planned, str) and planned.name == name else None

    def written(self, words: SettingWords) -> tuple[str, ...]:
        """Return the words of a lane that has these settings."""
        return written(self._in_full(words))

    def _in_full(self, words: SettingWords) -> SettingWords:
        """Return the settings with the learning rate that goes with their batch."""
        rate = self.rates.get(dict(words).get(BATCH_SETTING, ""))
        return words if rate is None else changed(words, RATE, rate)


def check_tune(ask: TuneAsk) -> None:
    """Refuse words that are not known, and a learning rate without another batch."""
    if ask.aim not in AIMS:
        raise UsageError(f"--for {ask.aim}: expected {', '.join(AIMS)}", "such as --for energy")
    for word in ask.allow:
        if word not in ALLOWED:
            raise UsageError(f"--allow {word}: expected some of {', '.join(ALLOWED)}", "such as --allow precision")
    if "learning" in ask.allow and BATCH_SETTING not in ask.allow:
        says = "--allow learning: the learning rate changes no time, it goes with another batch"
        raise UsageError(says, "add batch: --allow batch,learning")


def lanes_of_frameworks(ask: TuneAsk, lanes: Sequence[str], able: Sequence[str]) -> tuple[str, ...]:
    """Return each device of the lanes once for every framework that is asked for."""
    if not ask.frameworks:
        return tuple(lanes)
    names = able if ask.frameworks == (ALL_FRAMEWORKS,) else ask.frameworks
    for name in names:
        if name not in able:
            raise UsageError(f"--frameworks {name}: it cannot run this here", f"those that can: {', '.join(able)}")
    devices = dict.fromkeys(parse_lane(text).device or "cpu" for text in lanes or ("cpu",))
    return tuple(f"{name}/{device}" for device in devices for name in names)


def find_tunable(lane: Lane, machine: Machine, subject: SubjectFacts, plan: PlanLane, ask: TuneAsk) -> Tunable:
    """Return what may be tried on a lane."""
    base = plan(lane)
    lane = replace(lane, device=base.device.name)
    facts = LaneFacts(lane.row, base.device, machine, subject)
    own = {name for name, _ in lane.overrides}
    tries = [
        (row.name, value)
        for row in SETTINGS.values()
        # What changes arithmetic or learning is tried only if it was allowed
        if row.name not in own and (not row.changes or ALLOWED_BY[row.changes] in ask.allow)
        for value in row.tunes(facts)
        if lane.framework != SCRIPT or row.can_be_outside(value)
    ]
    alone = {pair: _planned_with(lane, (pair,), plan) for pair in tries}
    refused = {written((pair,))[0]: why for pair, why in alone.items() if isinstance(why, str)}
    able = [pair for pair, made in alone.items() if not isinstance(made, str) and made.settings != base.settings]
    presets = _presets(facts, _by_name(able), ask)
    in_company = frozenset(
        pair
        for pair in tries
        if isinstance(alone[pair], str)
        and any(not isinstance(_planned_with(lane, changed(words, *pair), plan), str) for words in presets)
    )
    values = _by_name([pair for pair in tries if pair in able or pair in in_company])
    rates: dict[str, str] = {}
    if "learning" in ask.allow and BATCH_SETTING in values:
        if subject.workload is None:
            refused[RATE] = OWN_OPTIMIZER
        elif RATE in own:
            refused[RATE] = OWN_RATE
        else:
            for value in values[BATCH_SETTING]:
                batch = plan(replace(lane, overrides=(*lane.overrides, (BATCH_SETTING, value)))).settings.batch
                if batch is not None:
                    rates[value] = f"{rate_of_batch(subject.workload, batch):g}"
    return Tunable(lane, base, plan, values, presets, refused, rates, in_company)


@dataclass(frozen=True, slots=True)
class ScriptLook:
    """What the first heat of a script showed: settings that it cannot have, by name or word, each with the reason;
    the share of its steps in which it waits for its data; how many workers would load as fast as it trains; and how
    long a step took.
    """

    cannot: Mapping[str, str]
    waits_share: float = 0.0
    workers_wanted: float = 0.0
    step_ms: float = math.inf

    @property
    def waits(self) -> bool:
        return self.waits_share > WAITS_SHARE

    def why_not(self, name: str, value: str) -> str | None:
        return self.cannot.get(name) or self.cannot.get(SETTINGS[name].written(value))


def guess_first(
    look: ScriptLook, presets: Sequence[SettingWords], pairs: Sequence[tuple[str, str]]
) -> tuple[tuple[SettingWords, ...], str]:
    """Return the sets that a script's first heat suggests, and the setting that is tried before all others.

    Where it waits for its data, that is more workers, with what the presets set and without; and the presets alone,
    where it does not wait most of the time. Where its steps are short, one thread is another guess.
    """
    loads = sorted(int(value) for name, value in pairs if name == "workers" and value != NONE)
    guesses = list(presets)
    first = ""
    if look.waits and loads:
        first = "workers"
        wanted = min((count for count in loads if count >= look.workers_wanted), default=loads[-1])
        alone = presets if look.waits_share < WAITS_MOSTLY else ()
        guesses = [*alone, *(changed(words, first, str(wanted)) for words in (*presets, ()))]
    elif look.step_ms < SHORT_STEP_MS and ("threads", "1") in pairs:
        guesses += [changed(words, "threads", "1") for words in presets or [()]]
    return tuple(words for words in dict.fromkeys(guesses) if words), first


def read_look(signs: StepSymptoms) -> ScriptLook:
    """Return what the first heat of a script showed."""
    notes = dict(signs.impossible)
    if not isinstance(signs.threads, Missing):
        notes[f"threads={signs.threads}"] = AS_MANY
    if isinstance(signs.wall_ns, Missing) or not signs.wall_ns:
        return ScriptLook(notes)
    wait_ns = 0 if isinstance(signs.wait_ns, Missing) else signs.wait_ns
    wall_ns = signs.wall_ns
    trains_ns = max(wall_ns - wait_ns, 1)
    has = next((int(key.removeprefix(WORKERS_WORD)) for key in notes if key.startswith(WORKERS_WORD)), 0)
    # Without workers a batch takes the wait; workers that a training waits for load one in each of its steps.
    wanted = (has * wall_ns if has else wait_ns) / trains_ns
    return ScriptLook(notes, wait_ns / wall_ns, wanted, wall_ns / signs.steps / 1e6)


def _planned_with(lane: Lane, words: SettingWords, plan: PlanLane) -> PlannedLane | str:
    """Return a lane with these settings besides its own, or why it cannot be."""
    try:
        return plan(replace(lane, overrides=(*lane.overrides, *words)))
    except UsageError as error:
        return error.says


def _by_name(pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the values of each setting."""
    return {name: tuple(value for other, value in pairs if other == name) for name, _ in pairs}


def _presets(facts: LaneFacts, values: Mapping[str, tuple[str, ...]], ask: TuneAsk) -> tuple[SettingWords, ...]:
    """Return what the presets set, in words: those that the lane may have. What they capture is also tried compiled."""
    best = {row.name: row.best(facts) for row in SETTINGS.values()}
    sets = [best]
    if "precision" in ask.allow:
        fastest = {row.name: row.fastest(facts) for row in SETTINGS.values() if row.fastest}
        sets.append(best | {name: value for name, value in fastest.items() if value is not None})
    if sets[-1]["execution"] == "graph":
        sets.append(sets[-1] | {"execution": "compiled_graph"})
    found = [
        tuple(
            (name, str(value))
            for name, value in preset.items()
            if value is not None and str(value) in values.get(name, ())
        )
        for preset in sets
    ]
    return tuple(words for words in dict.fromkeys(found) if words)


def changed(words: SettingWords, name: str, value: str | None) -> SettingWords:
    """Return the words with one setting at another value, or without it."""
    kept = {other: its_value for other, its_value in words if other != name}
    if value is not None:
        kept[name] = value
    return tuple((row, kept[row]) for row in SETTINGS if row in kept)


def written(words: SettingWords) -> tuple[str, ...]:
    return tuple(SETTINGS[name].written(value) for name, value in words)


def changes_besides(words: SettingWords) -> Changes:
    """Return what a set of settings changes besides the time."""
    found: Changes = next((SETTINGS[name].changes for name, _ in words if SETTINGS[name].changes), "")
    return found


# The learning rate that belongs to another batch of a built-in training.
#
# With plain SGD it grows as the batch: one step then takes the place of several, and has to go as far as they did. A
# step of Adam has nearly one length, whatever that of the gradient, and the noisier the gradient, the less of it goes
# one way. The mean over k times as many items has noise that is smaller by the root of k. So the rate grows as the
# root.

POWERS: dict[type[Adam | Sgd], float] = {Sgd: 1.0, Adam: 0.5}


def rate_of_batch(workload: Workload, batch: int) -> float:
    """Return the learning rate for a batch of this many items."""
    published = workload.optimizer
    rate = published.learning_rate * (batch / workload.batch) ** POWERS[type(published)]
    return float(f"{rate:.4g}")  # as short as a lane's name wants it
