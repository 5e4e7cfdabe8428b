"""Two records, or the trainings of one race -> how each lane changed, what else differs, and what is doubtful.

Heats of two records are not paired in time: their interval is Welch's, on logarithms. Those of one race are, and their
interval is that of the rounds' ratios, as on the race's page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from laptime.analysis.heats import ALPHA, ONE_HEAT, ONE_TRAINING, bounds, estimate
from laptime.analysis.lanes import compare_lanes
from laptime.analysis.parity import compare_references, is_same_work
from laptime.model.errors import UsageError
from laptime.model.machine import Machine
from laptime.model.other_work import words_of_work
from laptime.model.quantities import Missing
from laptime.model.questions import find_question
from laptime.model.record import NOT_RELIABLE, InferAnswer, LaneResult, QuestionRates, Record
from laptime.model.rows import OF_TRAINING
from laptime.model.script import ITERATION_PARTS, TrainingLoop
from laptime.model.stats import unpaired_ratio, verdict
from laptime.model.watched import WatchAnswer
from laptime.questions.compare.nouns import Compared, Difference, HistoryPoint, LaneChange, Measured, PartChange, Side
from laptime.questions.infer.reduce import answer_distance, answer_tolerance

BLOCKS = 12  # of the windows of a watched loop, whose means are compared
LaneKey = tuple[str, str]  # a lane without its training, and the training


def compare_records(before: Record, after: Record, fail_above: float | None = None) -> Compared:
    """Compare the lanes that two records share; refuse two that have nothing to compare."""
    _refuse(before, after)
    if before.question == "watch":
        return _compare_watches(before, after, fail_above)
    ours = _lanes_of(before)
    theirs = _lanes_of(after)
    pairs = {key: (lane, theirs[key]) for key, lane in ours.items() if key in theirs}
    if not pairs:
        names = (", ".join(lane.name for lane in record.lanes) or "none" for record in (before, after))
        says = "{} and {} have no lane in common: {}; and {}".format(before.id, after.id, *names)
        raise UsageError(says, f"laptime race --against {before.id} races the lanes of the first again")
    changes = {key: change_of(before, after, pair) for key, pair in pairs.items()}
    found = Compared(
        before.question,
        _side(before),
        _side(after),
        interleaved=False,
        lanes=tuple(change for change in changes.values() if change is not None),
        differences=find_differences(before, after, [*pairs.values()]),
        unpaired=tuple(_unpaired(before, after, ours, theirs)),
        unjudged=tuple(lane.name for key, lane in ours.items() if changes.get(key) is None),
    )
    if not found.lanes:
        says = f"no lane has a result in both {before.id} and {after.id}"
        raise UsageError(says, f"laptime show {before.id} and laptime show {after.id} say why")
    warnings = (*_doubts_of(before), *_doubts_of(after), *_doubts(found))
    return _judged(replace(found, warnings=warnings), fail_above)


WATCHED = "a script that is watched is not proven"
NO_LOOP = "no training with enough iterations was seen in {}"


def _compare_watches(before: Record, after: Record, fail_above: float | None) -> Compared:
    """Compare the iterations of two watched scripts: their time, and its parts."""
    change = _change_of_watches(before, after, ALPHA)
    differences = find_differences(before, after, [])
    steady_before = _loop_of(before).steady
    steady_after = _loop_of(after).steady
    parts = []
    for words, field in ITERATION_PARTS:
        one = getattr(steady_before, field)
        other = getattr(steady_after, field)
        if not isinstance(one, Missing) and not isinstance(other, Missing) and max(one, other) > 0:
            parts.append(PartChange(words, one * 1e3, other * 1e3))
    parts.sort(key=lambda part: -abs(part.after_ms - part.before_ms))
    found = Compared(before.question, _side(before), _side(after), interleaved=False, lanes=(change,),
                     differences=differences, parts=tuple(parts))  # fmt: skip
    return _judged(replace(found, warnings=(*_doubts_of(before), *_doubts_of(after), *_doubts(found))), fail_above)


def _change_of_watches(before: Record, after: Record, alpha: float) -> LaneChange:
    """Return how the iterations of a watched script changed: by their items, where both records know these."""
    loops = [_loop_of(before), _loop_of(after)]
    is_known = not any(isinstance(loop.items_per_iteration, Missing) for loop in loops)
    rates = [_rates_of_loop(loop, by_items=is_known) for loop in loops]
    interval = unpaired_ratio(rates[1], rates[0], alpha)
    figures = [estimate(rate) for rate in rates]
    assert figures[0] is not None
    assert figures[1] is not None
    low, high = bounds(interval)
    return LaneChange(
        lane=before.workload.name,
        training=before.workload.name,
        measured="windows",
        before=figures[0],
        after=figures[1],
        counts=(len(rates[0]), len(rates[1])),
        ratio=interval.estimate,
        low=low,
        high=high,
        verdict=verdict(interval),
        same_work=Missing(WATCHED),
    )


def _loop_of(record: Record) -> TrainingLoop:
    assert isinstance(record.answer, WatchAnswer)
    for process in record.answer.processes:
        if process.loop is not None and process.loop.step_ms is not None:
            return process.loop
    raise UsageError(NO_LOOP.format(record.id), f"laptime show {record.id} says what was seen")


def _rates_of_loop(loop: TrainingLoop, *, by_items: bool) -> list[float]:
    """Return what was trained in a second, a value for each block of windows that count: neighbours are alike."""
    windows = [window for window in (loop.windows[1:] or loop.windows)[loop.steady_from :] if window.wall_ns > 0]
    size = max(1, len(windows) // BLOCKS)
    blocks = [windows[first : first + size] for first in range(0, len(windows) - size + 1, size)]
    counts = [sum(window.items if by_items else window.iterations for window in block) for block in blocks]
    took_ns = [sum(window.wall_ns for window in block) for block in blocks]
    return [count / ns * 1e9 for count, ns in zip(counts, took_ns, strict=True) if count]


def compare_trainings(record: Record, fail_above: float | None = None) -> Compared:
    """Compare each further training of a race with the first, lane by lane, by the rounds that both took part in."""
    if record.question != "race" or not record.others:
        says = f"{record.id} is one record of one training, and a comparison needs two"
        raise UsageError(says, f"laptime compare {record.id} OTHER, or race two trainings: laptime race A.py:f B.py:f")
    base = {place: lane for (place, training), lane in _lanes_of(record).items() if training == record.workload.name}
    further = {key: lane for key, lane in _lanes_of(record).items() if key[1] != record.workload.name}
    changes = {key: _change_within(record, base.get(key[0]), lane) for key, lane in further.items()}
    names = [other.subject.name for other in record.others]
    found = Compared(
        record.question,
        _side(record),
        replace(_side(record), training=" and ".join(names)),
        interleaved=True,
        lanes=tuple(change for change in changes.values() if change is not None),
        unjudged=tuple(lane.name for key, lane in further.items() if changes[key] is None),
    )
    differ = tuple(f"{other.subject.name} does other work: {other.differs}" for other in record.others
                   if isinstance(other.differs, str))  # fmt: skip
    warnings = (*_doubts_of(record), *_too_few(record, found.lanes), *differ, *_doubts(found))
    return _judged(replace(found, warnings=warnings), fail_above)


def _too_few(record: Record, lanes: Sequence[LaneChange]) -> Iterator[str]:
    """Return that the budget ended a race before the rounds that were asked for."""
    wanted = record.ask.heats
    least = min((min(lane.counts) for lane in lanes), default=0)
    if wanted is not None and lanes and least < wanted:
        yield f"Only {least} of {wanted} rounds fit into the budget: a longer --budget makes the ratio surer."


def _spoken(record: Record) -> str:
    return find_question(record.question).spoken or record.question


def _refuse(before: Record, after: Record) -> None:
    """Refuse two records whose ratio would mean nothing."""
    for record in (before, after):
        if not find_question(record.question).is_followed:
            says = f"{record.id} is {_spoken(record)}, which has no figures to compare"
            raise UsageError(says, "compare two races, two trainings, two of inference, or two watches")
    if before.id == after.id and before.started == after.started:
        hint = f"laptime race --against {before.id} runs it again and compares"
        raise UsageError(f"{before.id} is the same record twice", hint)
    if before.question != after.question:
        kinds = f"{before.id} is {_spoken(before)}, and {after.id} {_spoken(after)}"
        raise UsageError(kinds, "compare two records of the same question")
    if not before.trainings.keys() & after.trainings.keys():
        names = (" and ".join(record.trainings) for record in (before, after))
        says = f"{before.id} trained {next(names)}, and {after.id} {next(names)}"
        raise UsageError(says, "race two trainings to compare them: laptime race A.py:f B.py:f")


def _lanes_of(record: Record) -> dict[LaneKey, LaneResult]:
    """Return the lanes by what is the same in two records: the lane, and what it trains."""
    return {(lane.name.partition(OF_TRAINING)[0], lane.training or record.workload.name): lane for lane in record.lanes}


def _side(record: Record) -> Side:
    return Side(record.id, record.started, record.ask.label, record.status, record.workload.name)


def change_of(before: Record, after: Record, pair: LanePair, alpha: float = ALPHA) -> LaneChange | None:
    """Return how a lane changed between two records; None where one of them has no result of it."""
    rates = tuple(rates_of(record, lane) for record, lane in zip((before, after), pair, strict=True))
    measured: Measured = "trainings" if before.question == "full" else "heats"
    alone = ONE_TRAINING if measured == "trainings" else ONE_HEAT
    figures = [estimate(rate, alone=alone) for rate in rates]
    if figures[0] is None or figures[1] is None:
        return None
    interval = unpaired_ratio(rates[1], rates[0], alpha)
    other_work = find_other_work(before, after)
    same = is_same_work(pair[1].parity, pair[0].parity)
    return LaneChange(
        lane=pair[0].name,
        training=pair[0].training or before.workload.name,
        measured=measured,
        before=figures[0],
        after=figures[1],
        counts=(len(rates[0]), len(rates[1])),
        ratio=interval.estimate,
        low=bounds(interval, alone)[0],
        high=bounds(interval, alone)[1],
        verdict=verdict(interval),
        same_work=Missing(other_work) if isinstance(other_work, str) and same is True else same,
    )


def _change_within(record: Record, base: LaneResult | None, lane: LaneResult) -> LaneChange | None:
    """Return how a training compares with the first on the same lane; None where one of them has no result."""
    alpha = next((comparison.alpha for comparison in record.answer.comparisons), ALPHA)
    found = None if base is None else compare_lanes(lane, base, record.ask.margin, alpha)
    if found is None or base is None or base.items_per_s is None or lane.items_per_s is None:
        return None
    return LaneChange(
        lane=lane.name.partition(OF_TRAINING)[0],
        training=lane.training or record.workload.name,
        measured="heats",
        before=base.items_per_s,
        after=lane.items_per_s,
        counts=(found.pairs, found.pairs),
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        verdict=found.verdict,
        same_work=_same_as_first(record, lane) if found.same_work is True else found.same_work,
    )


def _same_as_first(record: Record, lane: LaneResult) -> bool | Missing:
    """Return whether a lane, which did its own training's work, did the work of the first training."""
    differs = next((other.differs for other in record.others if other.subject.name == lane.training), None)
    return True if differs is None else Missing(differs) if isinstance(differs, str) else differs


def rates_of(record: Record, lane: LaneResult) -> list[float]:
    """Return a lane's items per second, one value for each heat, or for each whole training."""
    rates = find_question(record.question).part(QuestionRates).of_lane(record, lane)
    return [rate for rate in rates if rate > 0]


def _unpaired(
    before: Record, after: Record, ours: dict[LaneKey, LaneResult], theirs: dict[LaneKey, LaneResult]
) -> Iterator[str]:
    for key, lane in ours.items():
        if key not in theirs:
            yield f"{lane.name} is in {before.id} only"
    for key, lane in theirs.items():
        if key not in ours:
            yield f"{lane.name} is in {after.id} only"
    for record, lanes, others in ((before, ours, theirs), (after, theirs, ours)):
        for key, lane in lanes.items():
            if key in others and lane.step_ms is None:
                yield f"{lane.name} has no result in {record.id}: {lane.reason or lane.status}"


def _doubts_of(record: Record) -> Iterator[str]:
    """Return what makes one record doubtful."""
    if record.status != "finished":
        yield f"{record.id} is {record.status}, so some of its heats may be missing."
    if record.distrust:
        yield f"{record.id} is not reliable: {record.distrust}"


def _doubts(found: Compared) -> Iterator[str]:
    """Return what makes the comparison doubtful."""
    doubtful = [
        f"{difference.what} {difference.before} and {difference.after}"
        for difference in found.differences
        if difference.doubtful
    ]
    if doubtful:
        yield f"A ratio may come from what differs: {'; '.join(doubtful)}."
    for lane in found.lanes:
        where = f"{lane.lane} of {lane.training}" if found.interleaved else lane.lane
        if lane.same_work is False:
            yield f"{where} did not do the same work on both sides."
        if min(lane.counts) < 2:
            counted = lane.measured.removesuffix("s")
            more = "--seeds 3" if lane.measured == "trainings" else "--heats 5"
            yield f"{where} has one {counted} on a side, so there is no interval and no verdict: use {more}."


def _judged(found: Compared, fail_above: float | None) -> Compared:
    """Return the comparison with the lanes that fail the threshold, if there is one."""
    if fail_above is None:
        return replace(found, unjudged=())
    names: Sequence[LaneChange] = [lane for lane in found.lanes if lane.is_beyond(fail_above)]
    failing = tuple(f"{name.lane}{OF_TRAINING}{name.training}" if found.interleaved else name.lane for name in names)
    return replace(found, fail_above=fail_above, failing=failing)


# What is not the same in two records: machine, versions, settings, seed, data, work.

MEMORY_ALIKE = 0.02  # what a kernel keeps for itself differs from start to start
SETTING_NOT_SET = "not set"
LanePair = tuple[LaneResult, LaneResult]


def find_differences(before: Record, after: Record, pairs: Sequence[LanePair]) -> tuple[Difference, ...]:
    """Return what differs between two records, what may be the reason for a ratio first."""
    found = [
        *_of_machines(before.machine, after.machine),
        *_of_lanes(pairs),
        *_of_asks(before, after),
        *_of_versions(before, after, pairs),
    ]
    return tuple(dict.fromkeys(sorted(found, key=lambda difference: not difference.doubtful)))


def _of_machines(before: Machine, after: Machine) -> Iterator[Difference]:
    yield from _differing("processor", before.processor.name, after.processor.name, doubtful=True)
    yield from _differing("cores", before.processor.cores_usable, after.processor.cores_usable, doubtful=True)
    if abs(before.memory_bytes - after.memory_bytes) > MEMORY_ALIKE * max(before.memory_bytes, after.memory_bytes):
        yield from _differing("memory", _memory(before), _memory(after), doubtful=True)
    yield from _differing("cards", _cards(before), _cards(after), doubtful=True)
    yield from _differing("system", before.system, after.system)


def _memory(machine: Machine) -> str:
    return f"{machine.memory_bytes / 1e9:,.1f} GB"


def _cards(machine: Machine) -> str:
    names = sorted(card.name for card in machine.cards if isinstance(card.name, str))
    return ", ".join(names) or "none"


def _of_lanes(pairs: Sequence[LanePair]) -> Iterator[Difference]:
    for before, after in pairs:
        of = f" of {before.name}"
        yield from _differing(f"device{of}", before.device.label, after.device.label, doubtful=True)
        settings = [{**asdict(lane.settings), **lane.settings.extra, "extra": None} for lane in (before, after)]
        for name in dict.fromkeys((*settings[0], *settings[1])):
            yield from _differing(f"{name}{of}", settings[0].get(name), settings[1].get(name), doubtful=True)
        if before.settings.batch == after.settings.batch:
            yield from _differing(f"items in a step{of}", before.items_per_step, after.items_per_step)


def _of_asks(before: Record, after: Record) -> Iterator[Difference]:
    yield from _differing("seed", before.ask.seed, after.ask.seed)
    yield from _differing("starting weights", _weights(before), _weights(after), doubtful=True)
    yield from _differing("data", _data(before), _data(after), doubtful=True)
    yield from _differing("heats", _turns(before), _turns(after), doubtful=True)
    if before.ask.seed == after.ask.seed and _data(before) == _data(after):
        work = find_other_work(before, after)
        if isinstance(work, str):
            yield Difference("work", "as proven", work, doubtful=True)


def _weights(record: Record) -> str:
    return "pre-trained" if record.ask.pretrained else "drawn"


def _data(record: Record) -> str:
    """Return which data a record's lanes read: two folders with the same items are the same data."""
    data = record.data
    if data is None:
        return f"{record.ask.items:,} made items" if record.ask.items else "its own"
    return f"{'made' if data.made else 'real'}, {data.train_items:,} items, digest {data.digest[:8]}"


def _turns(record: Record) -> str:
    """Return with how many others a lane took turns: they share caches and memory."""
    if record.question == "full" or len(record.lanes) == 1:
        return "one lane at a time"
    return "one lane at a time" if record.ask.alone else f"{len(record.lanes)} lanes in turns"


def find_other_work(before: Record, after: Record) -> str | Missing | None:
    """Return how the float64 references of two records differ; None if they did the same work."""
    if isinstance(before.answer, InferAnswer) and isinstance(after.answer, InferAnswer):
        one = before.answer.reference
        other = after.answer.reference
        if one is None or other is None:
            return Missing("a reference is missing")
        apart = answer_distance(one.exact, other.exact)
        return f"its answers differ by {apart:.0e}" if apart > answer_tolerance(other, "fp32") else None
    if before.reference is None or after.reference is None:
        return Missing("a reference is missing")
    return words_of_work(compare_references(after.reference, before.reference))


def _of_versions(before: Record, after: Record, pairs: Sequence[LanePair]) -> Iterator[Difference]:
    yield from _differing("laptime", before.tool.get("version"), after.tool.get("version"))
    yield from _differing("python", before.machine.python, after.machine.python)
    for one, other in pairs:
        for name in dict.fromkeys((*one.framework, *other.framework)):
            yield from _differing(name, one.framework.get(name), other.framework.get(name))


def _differing(what: str, before: object, after: object, *, doubtful: bool = False) -> Iterator[Difference]:
    if before != after:
        yield Difference(what, _shown(before), _shown(after), doubtful)


def _shown(value: object) -> str:
    return SETTING_NOT_SET if value is None else str(value)


# Records of one training -> one lane over time, with what changed from each record to the next.

NOT_RELIABLE_MARK = "NOT RELIABLE"
ROW_ALPHA = 0.01  # a history has many rows, and each may seem to change by chance
Found = tuple[Record, LaneResult]


def follow_lane(found: Sequence[Found]) -> tuple[HistoryPoint, ...]:
    """Return a point for each record, in their order. Each is compared with the last before it on its machine."""
    points: list[HistoryPoint] = []
    for place, (record, lane) in enumerate(found):
        earlier = next((older for older in reversed(found[:place]) if is_same_machine(older, (record, lane))), None)
        points.append(_point(record, lane, found[place - 1] if place else None, earlier))
    return tuple(points)


def has_rate(record: Record, lane: LaneResult) -> bool:
    """Whether a record has a figure of a lane."""
    return bool(rates_of(record, lane))


def is_same_machine(one: Found, other: Found) -> bool:
    """Whether two records are of the same kind of machine and device, as far as it decides how fast a lane is."""
    return _machine(one) == _machine(other)


def _machine(found: Found) -> tuple[str, int, str]:
    record, lane = found
    chip = record.machine.processor
    return chip.name, chip.cores_usable, lane.device.label


def _point(record: Record, lane: LaneResult, before: Found | None, earlier: Found | None) -> HistoryPoint:
    rates = rates_of(record, lane)
    figure = estimate(rates, alone=ONE_TRAINING if record.question == "full" else ONE_HEAT)
    assert figure is not None
    return HistoryPoint(
        id=record.id,
        started=record.started,
        label=record.ask.label,
        machine=", ".join(dict.fromkeys([lane.device.label, record.machine.processor.name])),
        items_per_s=figure,
        heats=len(rates),
        change=None if earlier is None else change_of(earlier[0], record, (earlier[1], lane), ROW_ALPHA),
        marks=() if before is None else _marks(before, (record, lane)),
    )


def _marks(before: Found, after: Found) -> tuple[str, ...]:
    """Return what differs from the point before, in short: what changed, and to what."""
    differences = find_differences(before[0], after[0], [(before[1], after[1])])
    marks = [
        f"{difference.what.removesuffix(f' of {before[1].name}')} {difference.after}" for difference in differences
    ]
    same = after[1].parity.status
    return tuple(marks if same != "differs" else [*marks, "did other work"])


def follow_watches(records: Sequence[Record]) -> tuple[HistoryPoint, ...]:
    """Return a point for each watch of a script, in their order; each is compared with the last on its machine."""
    points: list[HistoryPoint] = []
    for place, record in enumerate(records):
        alike = (other for other in reversed(records[:place]) if _processor(other) == _processor(record))
        points.append(_watch_point(record, records[place - 1] if place else None, next(alike, None)))
    return tuple(points)


def has_loop(record: Record) -> bool:
    """Whether a watch saw enough iterations for a figure."""
    assert isinstance(record.answer, WatchAnswer)
    loops = (process.loop for process in record.answer.processes)
    return any(loop is not None and loop.step_ms is not None for loop in loops)


def _processor(record: Record) -> tuple[str, int]:
    return record.machine.processor.name, record.machine.processor.cores_usable


def _watch_point(record: Record, before: Record | None, earlier: Record | None) -> HistoryPoint:
    loop = _loop_of(record)
    rates = _rates_of_loop(loop, by_items=not isinstance(loop.items_per_iteration, Missing))
    figure = estimate(rates)
    assert figure is not None
    differences = () if before is None else find_differences(before, record, [])
    marks = [f"{difference.what} {difference.after}" for difference in differences]
    return HistoryPoint(
        id=record.id,
        started=record.started,
        label=record.ask.label,
        machine=record.machine.processor.name,
        items_per_s=figure,
        heats=len(rates),
        change=None if earlier is None else _change_of_watches(earlier, record, ROW_ALPHA),
        marks=(*([] if record.distrust is None else [NOT_RELIABLE_MARK]), *marks),
        step_ms=loop.step_ms,
        finding=next((finding.says for finding in record.findings if finding.rule != NOT_RELIABLE), None),
    )
