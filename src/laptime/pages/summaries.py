"""The result of one record in a few words, for a list: one function per question."""

from __future__ import annotations

from laptime.model.protocol import LapFactor
from laptime.model.questions import (
    InferAnswer,
    ScaleAnswer,
    SweepAnswer,
    TrainingAnswer,
    TuneAnswer,
    WhyAnswer,
    inference_of,
    training_of,
    watch_of,
)
from laptime.model.record import Comparison, Estimate, InferFactor, Record
from laptime.model.script import TrainingLoop
from laptime.pages.numbers import duration, step
from laptime.pages.words import short_name
from laptime.questions.race.others_page import most_telling, names_of_trainings
from laptime.questions.why.nouns import Why


def of_race(record: Record) -> list[str]:
    faster = [each for each in record.answer.comparisons if each.verdict == "faster" and each.same_work is not False]
    best = most_telling(faster) if faster else None
    return [_lanes(record), *([_factor(best, best.ratio)] if best else []), *_failed(record)]


def of_training(record: Record) -> list[str]:
    answer = training_of(record)
    laps = f"{sum(len(run.laps) for run in answer.runs)} whole laps"
    return [_lanes(record), laps, *_fastest_training(answer), *_failed(record)]


def of_inference(record: Record) -> list[str]:
    return [_lanes(record), *_fastest_answer(inference_of(record)), *_failed(record)]


def of_profile(record: Record) -> list[str]:
    return [_lanes(record), *_heaviest_operator(record), *_failed(record)]


def of_why(record: Record) -> list[str]:
    answer = record.answer
    if isinstance(answer, WhyAnswer) and answer.why is not None:
        return _found_cause(answer.why)
    return of_race(record)


def of_scale(record: Record) -> list[str]:
    answer = record.answer
    if not isinstance(answer, ScaleAnswer) or answer.scaling is None:
        return of_race(record)
    points = [
        each
        for curve in answer.scaling.curves[:1]
        for each in curve.points
        if each.speedup is not None and each.devices > 1
    ]
    if not points:
        return ["no count has a result", *_failed(record)]
    most = points[-1]
    assert most.speedup is not None
    return [f"{most.devices} devices {most.speedup.value:.2f}x", *_failed(record)]


def of_tune(record: Record) -> list[str]:
    answer = record.answer
    if not isinstance(answer, TuneAnswer) or answer.tuning is None:
        return of_race(record)
    gains = [each for each in answer.tuning.lanes if each.standing == "confirmed" and each.gain is not None]
    per = f" {record.ask.aim.per}".rstrip()
    told = [
        f"{short_name(each.asked)} {each.gain.ratio:.2f}x{per} with {'+'.join(each.words)}"
        for each in gains
        if each.gain
    ]
    return [*(told or ["no settings gain"]), *_failed(record)]


def of_sweep(record: Record) -> list[str]:
    answer = record.answer
    if not isinstance(answer, SweepAnswer) or answer.sweep is None:
        return of_race(record)
    return [f"{len(answer.sweep.cells)} cells", answer.sweep.says.partition(". ")[0].removesuffix(".")]


def _lanes(record: Record) -> str:
    return f"{len(record.lanes)} lane{'s' * (len(record.lanes) != 1)}"


def _failed(record: Record) -> list[str]:
    failed = sum(lane.status != "ok" for lane in record.lanes)
    return [f"{failed} without a result"] if failed else []


def _found_cause(why: Why) -> list[str]:
    """Return the first cause, and the gain of the recommended remedy."""
    standing = {each.cause: each.standing for each in why.causes}
    cause = f"{why.first[0]} ({standing.get(why.first[0], 'likely')})" if why.first else "no cause found"
    words = [f"why {short_name(why.lane)}: {cause}"]
    best = next((each for each in why.remedies if each.recommended and each.measured is not None), None)
    return [*words, f"{best.says} {best.measured.ratio:.2f}x"] if best and best.measured else words


def _heaviest_operator(record: Record) -> list[str]:
    """Return the operator that takes most of a step, on the first lane with a profile."""
    profile = next((lane.profile for lane in record.lanes if lane.profile is not None), None)
    if profile is None or not profile.operators:
        return ["no profile"]
    most = profile.operators[0]
    return [f"profile, most in {most.name[:40]} ({100 * most.own_ms / profile.profiled_ms:.0f} % of a step)"]


def _fastest_training(full: TrainingAnswer) -> list[str]:
    """Return the fastest lane's factor, if it trains faster than the reference lane."""
    shown = [each for each in full.factors if each.same_work is not False]
    known = [(each.later_laps, each) for each in shown if isinstance(each.later_laps, float)]
    ratio, best = max(known, key=lambda pair: pair[0], default=(1.0, None))
    return [_factor(best, ratio)] if best and ratio > 1 else []


def _fastest_answer(infer: InferAnswer) -> list[str]:
    """Return the fastest lane's factor, if it answers faster than the reference lane."""
    single = [each for each in infer.factors if each.batch is None and each.same_work is not False]
    faster = [each for each in single if each.verdict == "faster"]
    if not faster:
        return ["answers"]
    best = max(faster, key=lambda each: each.ratio)
    return [f"answers, {_factor(best, best.ratio)}"]


def _factor(found: Comparison | LapFactor | InferFactor, ratio: float) -> str:
    """Return a factor, with a remark if the same work is unproven: a list has no column for the proof."""
    doubt = "" if found.same_work is True else " (same work unproven)"
    names = names_of_trainings(found.lane, found.reference) or (short_name(found.lane), short_name(found.reference))
    return f"{names[0]} {ratio:.2f}x faster than {names[1]}{doubt}"


def of_watch(record: Record) -> list[str]:
    answer = watch_of(record)
    loops = [each.loop for each in answer.processes if isinstance(each.loop, TrainingLoop)]
    if not loops:
        return [f"{duration(answer.wall_s)}, no training seen"]
    words = [f"{loops[0].iterations:,} iterations"]
    if isinstance(loops[0].step_ms, Estimate):
        words.append(f"{step(loops[0].step_ms.median)} each")
    return words
