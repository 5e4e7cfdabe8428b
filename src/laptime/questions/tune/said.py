"""What a tuning found, in words and figures: each lane's winner, what its settings are worth, and how to set them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from laptime.analysis.heats import ALPHA
from laptime.machine.cards import CardSearch
from laptime.machine.look import add_cards, look_at_machine
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import DEFAULT_FRAMEWORK, SCRIPT
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.model.process import AS_WRITTEN, Lane
from laptime.model.quantities import Factor, Missing, times
from laptime.model.record import LaneResult, Record
from laptime.model.rows import RecordRow
from laptime.model.secrets import mask_secrets
from laptime.model.stats import t_quantile
from laptime.model.visible import as_command
from laptime.planner.lanes import GPU, parse_lane
from laptime.planner.settings import SETTINGS, TUNED, find_setting
from laptime.questions.asking import means_a_script
from laptime.questions.code_changes import ChangeFinder
from laptime.questions.job import Job
from laptime.questions.subject import find_subject
from laptime.questions.tune.lanes import BATCH_SETTING, RATE, SettingWords, changes_besides
from laptime.questions.tune.nouns import (
    AtBest,
    SettingWorth,
    TriedSet,
    TuneAnswer,
    TunedLane,
    TuneStanding,
    Tuning,
    Unplaced,
)
from laptime.questions.tune.options import Aim
from laptime.questions.tune.search import Gain, Rating, Search
from laptime.questions.why.causes import list_experiments
from laptime.questions.why.experiments import AskedTraining

NO_ROOM = "the budget had no room for it"
NOTHING_TO_COMPARE = "no other settings could be raced"
OTHER_WORK = "it did other work"


def describe_tuning(
    job: Job,
    searches: Sequence[Search],
    lanes: Sequence[LaneResult],
    confirmed_from: int | None,
    unconfirmed: str | None,
    *,
    is_interrupted: bool = False,
) -> Tuning:
    """Return what was found on each lane, and how the lanes compare at their best.

    Heats from the round `confirmed_from` on are those of the confirming race; `unconfirmed` is why there was none. A
    search that was interrupted has found nothing before it has a winner.
    """
    fresh = {}  # each lane with the heats of the confirming race alone
    for lane in lanes:
        heats = [result for result in lane.heats if confirmed_from is not None and result.heat.round >= confirmed_from]
        fresh[lane.name] = replace(lane, heats=tuple(heats))
    named = {lane.name: lane for lane in lanes}
    tuned = tuple(_describe(job, search, named, fresh, unconfirmed) for search in searches)
    if is_interrupted:
        tuned = tuple(_break_off(lane, named[lane.asked]) for lane in tuned)
    objective = searches[0].objective
    # Compare the best of each lane with that of the first
    first, *others = tuned
    found = [(other, objective.compare(fresh[other.winner], fresh[first.winner])) for other in others]
    at_best = tuple(AtBest(other.winner, first.winner, gain.factor) for other, gain in found if isinstance(gain, Gain))
    sentences = [
        f"{_say(lane, objective.aim)}{_say_tried(search)}" for lane, search in zip(tuned, searches, strict=True)
    ]
    return Tuning(" ".join([*sentences, *_say_best(tuned, at_best, objective.aim)]), tuned, at_best)


def _break_off(tuned: TunedLane, base: LaneResult) -> TunedLane:
    """Return a lane whose search was interrupted: where it has found nothing, what it would have found is not known."""
    if tuned.standing not in {"no gain", "not compared"} or base.status != "ok" or base.parity.status == "differs":
        return tuned
    raced = max(0, tuned.tried - 1)
    after = "before any other settings were raced" if not raced else f"after {raced} of its sets of settings"
    return replace(tuned, standing="not compared", reason=f"the search was interrupted {after}")


def _describe(
    job: Job,
    search: Search,
    lanes: Mapping[str, LaneResult],
    fresh: Mapping[str, LaneResult],
    unconfirmed: str | None,
) -> TunedLane:
    base = search.tunable.base
    ratings = search.ratings()
    if len(ratings) < 2:
        lane = lanes[base.name]
        per_s = search.objective.per_s(lane)
        reason = lane.reason or (per_s.missing if isinstance(per_s, Missing) else NOTHING_TO_COMPARE)
        if lane.status == "ok" and lane.parity.status == "differs":
            reason = OTHER_WORK
        return TunedLane(base.name, base.name, (), "not compared", None, None, 0, _worths(search, (), ratings, lanes),
                         len(ratings), reason=reason)  # fmt: skip
    best = search.winner()
    found = search.objective.compare(fresh[search.tried[best].name], fresh[base.name]) if best else None
    if search.stands(best, found):
        assert search.confirmed is not None
        best, found = search.confirmed
        unconfirmed = None
    winner = search.tried[best]
    gain = found if isinstance(found, Gain) else None
    # A lane that did not finish a heat ended the search or the fresh heats early
    lost = [lane for lane in (lanes[winner.name], lanes[base.name]) if lane.status != "ok"]
    early = f"{_short(lost[0].name)} did not finish: {lost[0].reason}" if lost else unconfirmed if best else None
    # What the fresh heats show; a winner that failed in one of them is not confirmed
    standing: TuneStanding = "no gain"
    if best and (lanes[winner.name].status != "ok" or gain is None or gain.factor.ends is None):
        standing = "not confirmed"
    elif best and gain is not None and gain.factor.is_above(1):
        standing = "confirmed"
    more = _variables_besides(winner, base)
    return TunedLane(
        asked=base.name,
        winner=winner.name,
        words=search.tunable.written(best),
        standing=standing,
        gain=None if gain is None else gain.factor,
        seemed=ratings[best].factor if best else None,
        pairs=0 if gain is None else gain.pairs,
        settings=_worths(search, best, ratings, lanes),
        tried=len(ratings),
        ties=tuple(_joined(search, words) or "as asked" for words in _ties(search, best, ratings, fresh)),
        code=tuple(_code_by_word(job, search, search.tunable.written(best)).values()),
        environment=more or None,
        reason=found.missing if isinstance(found, Missing) else early,
        path=_path(search, ratings, lanes),
        untried=_count_untried(search),
    )


def _ties(
    search: Search, best: SettingWords, ratings: Mapping[SettingWords, Rating], fresh: Mapping[str, LaneResult]
) -> list[SettingWords]:
    """Return the sets that are as good as the winner is on fresh heats, if it has some: luck chose it, too."""
    base = search.tunable.base.name
    winner = search.tried[best].name
    again = search.objective.rate([fresh[name] for name in dict.fromkeys((base, winner))], base)
    known = {**ratings, best: again[winner]} if best and winner in again else ratings
    return [words for words in search.as_good_as(best, known) if words != best]


def _worths(
    search: Search, best: SettingWords, ratings: Mapping[SettingWords, Rating], lanes: Mapping[str, LaneResult]
) -> tuple[SettingWorth, ...]:
    """Return what each single setting is worth on the lane as asked, the best first; then what could not be tried."""
    tried = [(words, ratings[words]) for words in search.tunable.singles() if words in ratings]
    tried.sort(key=lambda pair: -pair[1].log)
    found = [
        SettingWorth(_joined(search, words), changes_besides(words), _factor(rating), words[0] in best)
        for words, rating in tried
    ]
    for words in search.tunable.singles():
        if words not in ratings:
            reason = _why_not(search, words, lanes)
            found.append(SettingWorth(_joined(search, words), changes_besides(words), None, words[0] in best, reason))
    has = search.tunable.written(best)
    refused = [
        SettingWorth(word, "", None, in_winner=word in has, reason=why) for word, why in search.tunable.refused.items()
    ]
    return (*found, *refused)


def _path(
    search: Search, ratings: Mapping[SettingWords, Rating], lanes: Mapping[str, LaneResult]
) -> tuple[TriedSet, ...]:
    """Return all sets that ran, in the order of the search."""
    found = []
    for words in search.tried:
        if words and search.has_run(words):
            rating = ratings.get(words)
            reason = None if rating else _why_not(search, words, lanes)
            factor = _factor(rating) if rating else None
            found.append(TriedSet(search.tunable.written(words), factor, words in search.kept, reason))
    return tuple(found)


def _joined(search: Search, words: SettingWords) -> str:
    return "+".join(search.tunable.written(words))


def _why_not(search: Search, words: SettingWords, lanes: Mapping[str, LaneResult]) -> str:
    """Return why a single setting has no figure."""
    if words in search.refused:
        return search.refused[words]
    if words not in search.tried:
        same = search.tried_as(words)
        return f"it is the same as {_joined(search, same[0])}" if same and same[0] else NO_ROOM
    lane = lanes[search.tried[words].name]
    if lane.status != "ok":
        return lane.reason or lane.status
    if lane.parity.status == "differs":
        return OTHER_WORK
    per_s = search.objective.per_s(lane)
    return per_s.missing if isinstance(per_s, Missing) else NO_ROOM


def _factor(rating: Rating) -> Factor:
    """Return a rating as a factor with its interval."""
    wide = t_quantile(1 - ALPHA / 2, max(2, rating.heats)) * rating.error
    log = rating.log
    return Factor(rating.factor, _exp(log - wide), _exp(log + wide))


def _exp(log: float) -> float:
    return Rating(log, 0.0, 0).factor


def _code_by_word(job: Job, search: Search, words: Sequence[str]) -> dict[str, str]:
    """Return the code that does the same in a training of your own, for each word of a lane that has some."""
    subject = job.plan.subject
    workload = None if subject.command else find_subject(job.plan.ask.what)[1]
    # What a script is written for; the lanes of all else say it themselves
    family = (subject.written_for or DEFAULT_FRAMEWORK) if subject.command else ""
    training = AskedTraining(search.tunable.base, job.machine, workload, family)
    known = {
        experiment.settings[0]: experiment.code
        for experiment in list_experiments(training)
        if experiment.settings and experiment.is_code
    }
    fits = bool(subject.command) and subject.written_for == "keras"
    lines = {}
    for word in words:
        found = find_setting(word)
        in_keras = "" if found is None or not fits else found[0].in_keras.format(value=found[1])
        lines[word] = in_keras or known.get(word) or ("" if found is None else found[0].code.format(value=found[1]))
    return {word: line for word, line in lines.items() if line}


def with_changes(job: Job, searches: Sequence[Search], tuning: Tuning, finder: ChangeFinder) -> Tuning:
    """Return what was found with the changes of the user's own code that make each winner."""
    pairs = zip(tuning.lanes, searches, strict=True)
    return replace(tuning, lanes=tuple(_with_changes(job, tuned, search, finder) for tuned, search in pairs))


def _with_changes(job: Job, tuned: TunedLane, search: Search, finder: ChangeFinder) -> TunedLane:
    """Return a lane with the changes that make its winner, and what has no certain place; in code for PyTorch alone."""
    base = search.tunable.base
    subject = job.plan.subject
    if not tuned.words or subject.is_built_in or base.row.family not in {SCRIPT, DEFAULT_FRAMEWORK}:
        return tuned
    wanted: dict[str, str] = {}
    pairs: dict[str, tuple[str, str]] = {}
    for word in tuned.words:
        if (found := find_setting(word)) is not None:
            wanted[word] = found[0].rewrite.format(value=found[1], device=base.device.kind)
            pairs[word] = (found[0].name, found[1])
    changes, why_none = finder.find_all([*wanted.values()])
    left = [word for word, change in wanted.items() if change in why_none]
    code = _code_by_word(job, search, left)
    unplaced = tuple(Unplaced(word, why_none[wanted[word]], code[word]) for word in left if word in code)
    if not subject.command:
        return replace(tuned, changes=changes, unplaced=unplaced)
    planned = search.tunable.with_words(tuple(pairs[word] for word in left))
    environment = {} if isinstance(planned, str) else _variables_besides(planned, base)
    return replace(tuned, changes=changes, unplaced=unplaced, environment=environment or None)


def _variables_besides(lane: PlannedLane, base: PlannedLane) -> dict[str, str]:
    return {name: value for name, value in lane.environment.items() if base.environment.get(name) != value}


def times_words(factor: Factor) -> str:
    """Return a factor with its interval: 2.9x (2.7-3.1)."""
    if factor.ends is None:
        return times(factor.ratio)
    low, high = (times(end).removesuffix("x") for end in factor.ends)
    return f"{times(factor.ratio)} ({low}-{high})"


def _say(tuned: TunedLane, aim: Aim) -> str:
    """Return the verdict on one lane."""
    lane = _short(tuned.asked)
    settings = "+".join(tuned.words)
    early = "" if tuned.reason is None else f" It ended early: {tuned.reason}."
    if tuned.standing == "not compared":
        return f"{lane} was not tuned: {tuned.reason}."
    if tuned.standing == "no gain":
        return f"{aim.none.format(lane)}{early}"
    if tuned.standing == "confirmed" and tuned.gain is not None:
        return f"{lane} {aim.does} {times_words(tuned.gain)} {aim.as_much} with {settings}.{early}"
    why = "" if tuned.reason is None else f": {tuned.reason}"
    seemed = f"{lane} {aim.seems} {times(tuned.seemed or 1.0)} {aim.as_much} with {settings}"
    return f"{seemed}, which no fresh heats have confirmed{why}."


def _say_tried(search: Search) -> str:
    """Return how many sets of settings were tried, where there was no time for some."""
    untried = _count_untried(search)
    tried = sum(search.has_run(words) for words in search.tried if words)
    if not untried or not tried:
        return ""
    return f" {tried} of {tried + untried} sets of settings were tried: there was no time for the others."


def _count_untried(search: Search) -> int:
    return sum(not search.tried_as(words) for words in search.untried())


def _short(name: str) -> str:
    return name.removesuffix("/as-written")


def _say_best(tuned: Sequence[TunedLane], at_best: Sequence[AtBest], aim: Aim) -> list[str]:
    """Return which lane is the best at its best."""
    if not at_best:
        return []
    asked = {lane.winner: _short(lane.asked) for lane in tuned}
    next_ = max(at_best, key=lambda lane: lane.factor.ratio)
    first = asked[tuned[0].winner]
    other = asked[next_.lane]
    how_much = times_words(next_.factor)
    if next_.factor.ratio < 1:
        return [f"At its best, {first} {aim.does} {aim.most}; {other} {aim.does} {how_much} {aim.as_much}."]
    return [f"At its best, {other} {aim.does} {how_much} {aim.as_much} as {first} at its best."]


# `LANE/tuned`: the settings that the newest tuning of this training found on this lane, if they still hold.


def with_winners(ask: Ask, rows: Callable[[], Sequence[RecordRow]], load: Callable[[str], Record | None]) -> Ask:
    """Return the ask with the settings of winners in place of `tuned`.

    `rows` lists the records, newest first; `load` returns None for one that this user did not make here.
    """
    if not any(map(_is_tuned, ask.lanes)):
        return ask
    is_script = means_a_script(replace(ask, lanes=()))
    machine = look_at_machine()
    kept = [row for row in rows() if row.question == "tune" and not row.unreadable]
    if any(_is_tuned(text) and parse_lane(_without(text)).device != "cpu" for text in ask.lanes):
        machine = add_cards(machine, CardSearch().end(ask.patience_s))
    settle = partial(_settled, ask, machine, kept, load, is_script=is_script)
    return replace(ask, lanes=tuple(map(settle, ask.lanes)))


def _is_tuned(text: str) -> bool:
    return TUNED in text.rpartition("/")[2].split("+")


def _without(text: str) -> str:
    """Return the lane without the word."""
    place, _, words = text.rpartition("/")
    kept = [word for word in words.split("+") if word != TUNED]
    return "/".join(filter(None, (place, "+".join(kept))))


def _settled(
    ask: Ask,
    machine: Machine,
    rows: Sequence[RecordRow],
    load: Callable[[str], Record | None],
    text: str,
    *,
    is_script: bool,
) -> str:
    """Return the lane with the settings of its winner; what the lane names itself stays."""
    if not _is_tuned(text):
        return text
    lane = parse_lane(_without(text))
    if lane.preset != AS_WRITTEN:
        raise UsageError(f"lane '{text}': {lane.preset} and {TUNED} both name all settings", "name one of them")
    if is_script:
        lane = replace(lane, framework=SCRIPT)
    place = "/".join(filter(None, ("" if is_script else lane.framework, lane.device)))
    command = mask_secrets(ask.command)
    again = as_command(["laptime", "tune", ask.what, place, *(["--", *command] if command else [])])
    for row in rows:
        record = load(row.id)
        if record is not None and (found := _winner(record, ask, lane)) is not None:
            record, winner = found
            if (why := _why_outdated(record, lane, machine)) is not None:
                raise UsageError(f"lane '{text}': it was tuned in {record.id}, but {why}", f"tune it again: {again}")
            break
    else:
        raise UsageError(f"lane '{text}': no tuning of {ask.what} on it was confirmed here", again)
    own = {name for name, _ in lane.overrides}
    own |= {RATE} if BATCH_SETTING in own else set()  # a winner's learning rate is that of the winner's batch
    gained = winner.words if winner.standing == "confirmed" else ()
    words = [word for word in gained if (named := find_setting(word)) is None or named[0].name not in own]
    settings = "+".join((*(SETTINGS[name].written(value) for name, value in lane.overrides), *words))
    device = lane.device or _parts(winner.asked, lane)[1]
    return "/".join(filter(None, ("" if is_script else lane.framework, device, settings)))


def _parts(asked: str, lane: Lane) -> tuple[str, str, str]:
    """Return framework, device and settings of a lane's name; that of a script's lane has no framework."""
    whole = f"{SCRIPT}/{asked}" if lane.framework == SCRIPT else asked
    framework, device, words = whole.split("/", 2)
    return framework, device, words


def _winner(record: Record, ask: Ask, lane: Lane) -> tuple[Record, TunedLane] | None:
    """Return the winner of a lane as written, if the record has one of this training."""
    answer = record.answer
    is_same = (record.ask.what, record.ask.command) == (ask.what, mask_secrets(ask.command))  # as a record keeps them
    is_script = bool(record.workload.command)
    if not isinstance(answer, TuneAnswer) or answer.tuning is None or not is_same:
        return None
    if is_script != (lane.framework == SCRIPT):
        return None
    for tuned_lane in answer.tuning.lanes:
        framework, device, words = _parts(tuned_lane.asked, lane)
        is_here = lane.device in {None, device, device.partition(":")[0]} or (lane.device == GPU and device != "cpu")
        if (
            framework == lane.framework
            and is_here
            and words == AS_WRITTEN
            and tuned_lane.standing in {"confirmed", "no gain"}
        ):
            return record, tuned_lane
    return None


def _why_outdated(record: Record, lane: Lane, machine: Machine) -> str | None:
    """Return what has changed since the record, if that may change which settings are best."""
    before = record.machine.processor
    now = machine.processor
    if (before.name, before.cores_usable) != (now.name, now.cores_usable):
        return f"on {before.cores_usable} cores of {before.name}, and these are {now.cores_usable} of {now.name}"
    had = record.machine.framework(lane.framework)
    has = machine.framework(lane.framework)
    if lane.framework == SCRIPT:
        had = has = None  # its packages are those of its own Python
    elif had is None or has is None or had.version != has.version:
        versions = ["none" if framework is None else framework.version for framework in (had, has)]
        return f"with {lane.framework} {versions[0]}, and this is {versions[1]}"
    if lane.device != "cpu" and _cards(record.machine) != _cards(machine):
        return "with other cards"
    return None


def _cards(machine: Machine) -> list[str]:
    return sorted(str(card.name) for card in machine.cards)
