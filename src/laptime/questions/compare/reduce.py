"""Two records, or the trainings of one race -> how each lane changed, what else differs, and what is doubtful.

Heats of two records are not paired in time: their interval is Welch's, on logarithms. Those of one race are, and their
interval is that of the rounds' ratios, as on the race's page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from laptime.analysis.aggregate import ALPHA, ONE_HEAT, ONE_TRAINING, bounds, estimate
from laptime.analysis.lanes import compare_lanes
from laptime.analysis.parity import is_same_work
from laptime.errors import UsageError
from laptime.model.lane import OF_TRAINING
from laptime.model.missing import Missing
from laptime.model.questions import InferAnswer, TrainingAnswer, find_question
from laptime.model.record import LaneResult, Record
from laptime.questions.compare.differences import Pair, find_differences, find_other_work
from laptime.questions.compare.nouns import Compared, LaneChange, Measured, Side
from laptime.questions.infer.reduce import single_item_ms
from laptime.questions.train.reduce import item_s, later_laps
from laptime.stats import unpaired_ratio, verdict

Key = tuple[str, str]  # a lane without its training, and the training


def compare_records(before: Record, after: Record, fail_above: float | None = None) -> Compared:
    """Compare the lanes that two records share; refuse two that have nothing to compare."""
    _refuse(before, after)
    ours, theirs = _lanes_of(before), _lanes_of(after)
    pairs = {key: (lane, theirs[key]) for key, lane in ours.items() if key in theirs}
    if not pairs:
        names = (", ".join(lane.name for lane in each.lanes) or "none" for each in (before, after))
        says = "{} and {} have no lane in common: {}; and {}".format(before.id, after.id, *names)
        raise UsageError(says, f"laptime race --against {before.id} races the lanes of the first again")
    changes = {key: change_of(before, after, pair) for key, pair in pairs.items()}
    found = Compared(
        before.question,
        _side(before),
        _side(after),
        interleaved=False,
        lanes=tuple(each for each in changes.values() if each is not None),
        differences=find_differences(before, after, [*pairs.values()]),
        unpaired=tuple(_unpaired(before, after, ours, theirs)),
        unjudged=tuple(lane.name for key, lane in ours.items() if changes.get(key) is None),
    )
    if not found.lanes:
        says = f"no lane has a result in both {before.id} and {after.id}"
        raise UsageError(says, f"laptime show {before.id} and laptime show {after.id} say why")
    warnings = (*_doubts_of(before), *_doubts_of(after), *_doubts(found))
    return _judged(replace(found, warnings=warnings), fail_above)


def compare_trainings(record: Record, fail_above: float | None = None) -> Compared:
    """Compare each further training of a race with the first, lane by lane, by the rounds that both took part in."""
    if record.question != "race" or not record.others:
        says = f"{record.id} is one record of one training, and a comparison needs two"
        raise UsageError(says, f"laptime compare {record.id} OTHER, or race two trainings: laptime race A.py:f B.py:f")
    base = {place: lane for (place, training), lane in _lanes_of(record).items() if training == record.workload.name}
    further = {key: lane for key, lane in _lanes_of(record).items() if key[1] != record.workload.name}
    changes = {key: _change_within(record, base.get(key[0]), lane) for key, lane in further.items()}
    names = [each.subject.name for each in record.others]
    found = Compared(
        record.question,
        _side(record),
        replace(_side(record), training=" and ".join(names)),
        interleaved=True,
        lanes=tuple(each for each in changes.values() if each is not None),
        unjudged=tuple(lane.name for key, lane in further.items() if changes[key] is None),
    )
    differ = tuple(f"{each.subject.name} does other work: {each.differs}" for each in record.others
                   if isinstance(each.differs, str))  # fmt: skip
    warnings = (*_doubts_of(record), *_too_few(record, found.lanes), *differ, *_doubts(found))
    return _judged(replace(found, warnings=warnings), fail_above)


def _too_few(record: Record, lanes: Sequence[LaneChange]) -> Iterator[str]:
    """Return that the budget ended a race before the rounds that were asked for."""
    wanted, least = record.ask.heats, min((min(lane.counts) for lane in lanes), default=0)
    if wanted is not None and lanes and least < wanted:
        yield f"Only {least} of {wanted} rounds fit into the budget: a longer --budget makes the ratio surer."


def _spoken(record: Record) -> str:
    return find_question(record.question).spoken or record.question


def _refuse(before: Record, after: Record) -> None:
    """Refuse two records whose ratio would mean nothing."""
    for each in (before, after):
        if not find_question(each.question).rates:
            says = f"{each.id} is {_spoken(each)}, which has no figures to compare"
            raise UsageError(says, "compare two races, two trainings, or two of inference")
    if before.id == after.id and before.started == after.started:
        hint = f"laptime race --against {before.id} runs it again and compares"
        raise UsageError(f"{before.id} is the same record twice", hint)
    if before.question != after.question:
        kinds = f"{before.id} is {_spoken(before)}, and {after.id} {_spoken(after)}"
        raise UsageError(kinds, "compare two records of the same question")
    if not before.trainings.keys() & after.trainings.keys():
        names = (" and ".join(each.trainings) for each in (before, after))
        says = f"{before.id} trained {next(names)}, and {after.id} {next(names)}"
        raise UsageError(says, "race two trainings to compare them: laptime race A.py:f B.py:f")


def _lanes_of(record: Record) -> dict[Key, LaneResult]:
    """Return the lanes by what is the same in two records: the lane, and what it trains."""
    return {(lane.name.partition(OF_TRAINING)[0], lane.training or record.workload.name): lane for lane in record.lanes}


def _side(record: Record) -> Side:
    return Side(record.id, record.started, record.ask.label, record.status, record.workload.name)


def change_of(before: Record, after: Record, pair: Pair, alpha: float = ALPHA) -> LaneChange | None:
    """Return how a lane changed between two records; None where one of them has no result of it."""
    rates = tuple(rates_of(record, lane) for record, lane in zip((before, after), pair, strict=True))
    measured: Measured = "trainings" if before.question == "full" else "heats"
    alone = ONE_TRAINING if measured == "trainings" else ONE_HEAT
    figures = [estimate(each, alone=alone) for each in rates]
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
    alpha = next((each.alpha for each in record.answer.comparisons), ALPHA)
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
    differs = next((each.differs for each in record.others if each.subject.name == lane.training), None)
    return True if differs is None else Missing(differs) if isinstance(differs, str) else differs


def rates_of(record: Record, lane: LaneResult) -> list[float]:
    """Return a lane's items per second, one value for each heat, or for each whole training."""
    return [each for each in find_question(record.question).part("rates")(record, lane) if each > 0]


def rates_of_heats(_record: Record, lane: LaneResult) -> Iterator[float]:
    for heat in lane.heats:
        if heat.step_ms and lane.items_per_step:
            yield lane.items_per_step * 1e3 / heat.step_ms


def rates_of_trainings(record: Record, lane: LaneResult) -> Iterator[float]:
    assert isinstance(record.answer, TrainingAnswer)
    for run in record.answer.runs:
        if run.process.lane == lane.name and run.laps:
            yield 1 / item_s(later_laps(run))


def rates_of_answers(record: Record, lane: LaneResult) -> Iterator[float]:
    assert isinstance(record.answer, InferAnswer)
    for each in record.answer.lanes:
        if each.lane == lane.name:
            yield from (1e3 / ms for heat in each.heats if (ms := single_item_ms(heat)))


def _unpaired(
    before: Record, after: Record, ours: dict[Key, LaneResult], theirs: dict[Key, LaneResult]
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
    doubtful = [f"{each.what} {each.before} and {each.after}" for each in found.differences if each.doubtful]
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
    names: Sequence[LaneChange] = [each for each in found.lanes if each.is_beyond(fail_above)]
    failing = tuple(f"{each.lane}{OF_TRAINING}{each.training}" if found.interleaved else each.lane for each in names)
    return replace(found, fail_above=fail_above, failing=failing)
