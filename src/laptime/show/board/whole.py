"""Whether a record has all that its race or its training ran: no heat, turn, window, run or lap is left out of it.

laptime numbers them in the order in which they ran, so one that was taken out leaves a gap. A record in which
everything was numbered again passes: only its keeper's whole record (`check --records`) shows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from laptime.model.record import RaceAnswer, Record, TrainingAnswer


def find_left_out(record: Record) -> Iterator[str]:
    """Yield a sentence for each gap in the numbers of a record, and for each count that its plan disagrees with."""
    # Where more lanes were asked for than there are. Batches make several lanes of one.
    asked = len(record.ask.lanes)
    if asked > len(record.lanes):
        yield f"{asked} lanes were asked for, and it has {len(record.lanes)}"
    if isinstance(record.answer, TrainingAnswer):
        yield from _find_lost_runs(record, record.answer)
    else:
        yield from _find_lost_heats(record)
        yield from _find_lost_comparisons(record)
    for lane in record.lanes:
        for heat in [result.heat for result in lane.heats]:
            where = f"round {heat.round} of {lane.name}"
            turns = [window.turn for window in heat.windows if window.turn is not None]
            if turns and turns != list(range(len(heat.windows))):
                yield f"a turn is left out of {where}: it has the turns {', '.join(map(str, turns[:12]))}"
            for before, after in pairwise(heat.windows):
                if after.start_ns < before.end_ns:
                    yield f"two windows of {where} are at one time"
                if before.first_step is None or after.first_step is None:
                    continue
                if after.first_step < before.first_step + before.steps:  # some steps between windows are not timed
                    yield f"two windows of {where} have the same steps"


def _find_lost_heats(record: Record) -> Iterator[str]:
    heats = [(lane, result.heat) for lane in record.lanes for result in lane.heats]
    rounds = {heat.round for _, heat in heats}
    if missing := _gap(rounds):
        yield f"round {missing - 1} is left out of it"
    orders = sorted(heat.order for _, heat in heats)
    if len(set(orders)) < len(orders):
        yield "two of its heats have one number"
    is_whole = all(lane.status == "ok" for lane in record.lanes)  # a lane that failed may have started more
    if is_whole and (missing := _gap(set(orders))):
        yield f"heat {missing - 1} is left out of it: its heats are numbered up to {orders[-1]}"
    for lane in record.lanes:
        mine = [result.heat.round for result in lane.heats]
        if len(set(mine)) < len(mine):
            yield f"{lane.name} has two heats in one round"
        if is_whole and set(mine) != rounds:
            yield f"{lane.name} has {len(mine)} rounds, and the race has {len(rounds)}"
        if record.ask.heats is not None and len(mine) > record.ask.heats:
            yield f"{lane.name} has {len(mine)} heats, and {record.ask.heats} were asked for"


def _find_lost_comparisons(record: Record) -> Iterator[str]:
    """Yield where a lane has no factor, or one of fewer pairs than it has rounds."""
    if not isinstance(record.answer, RaceAnswer):
        return
    compared = {comparison.lane for comparison in record.answer.comparisons}
    references = {comparison.reference for comparison in record.answer.comparisons}
    timed = {lane.name for lane in record.lanes if lane.step_ms is not None}
    if len(timed) > 1 and (alone := sorted(timed - compared - references)):
        yield f"the factor of {alone[0]} is left out of it"
    for comparison in record.answer.comparisons:
        if comparison.pairs != len(comparison.ratios):
            ratios = len(comparison.ratios)
            yield f"the factor of {comparison.lane} is of {comparison.pairs} pairs, and has {ratios} ratios"


def _find_lost_runs(record: Record, answer: TrainingAnswer) -> Iterator[str]:
    protocol = answer.protocol
    asked = record.ask.full
    orders = sorted(run.order for run in answer.runs)
    if orders != list(range(len(orders))):
        yield f"a training is left out of it: they are numbered {', '.join(map(str, orders[:12]))}"
    if asked is not None and asked.laps is not None and asked.laps != protocol.laps:
        yield f"{asked.laps} laps were asked for, and its protocol has {protocol.laps}"
    for lane in record.lanes:
        seeds = [run.seed for run in answer.runs if run.process.lane == lane.name]
        if len(set(seeds)) < len(seeds):
            yield f"two trainings of {lane.name} have one seed"
        if lane.status == "ok" and len(seeds) != protocol.seeds:
            yield f"{lane.name} was trained {len(seeds)} times, and its protocol has {protocol.seeds} seeds"
    for run in answer.runs:
        lane_name = run.process.lane
        numbers = [lap.number for lap in run.laps]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"a lap of {lane_name} is left out of it: its laps are {', '.join(map(str, numbers[:12]))}"
        ends_early = protocol.until_accuracy is not None
        if len(numbers) > protocol.laps or (len(numbers) < protocol.laps and not ends_early):
            yield f"{lane_name} has {len(numbers)} laps, and its protocol has {protocol.laps}"
        if any(lap.steps != protocol.steps_per_lap for lap in run.laps):
            yield f"a lap of {lane_name} has other steps than its protocol's {protocol.steps_per_lap}"


def _gap(numbers: set[int]) -> int | None:
    """Return the place of the first number that is missing from 0 on, counted from 1; None where none is."""
    for number in range(max(numbers, default=-1)):
        if number not in numbers:
            return number + 1
    return None
