"""What a list shows of one record, so that a long list need not read the records themselves."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.protocol import FullRace
from laptime.model.record import Inference, Record
from laptime.model.why import Why


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One line of the list of records; `unreadable` says why a file could not be read."""

    id: str
    started: str
    question: str
    workload: str
    status: str
    summary: str
    unreadable: str | None = None


def row_of(identity: str, record: Record) -> RecordRow:
    """Give the line of a record that is saved under `identity`."""
    return RecordRow(
        id=identity,
        started=record.started,
        question=record.question,
        workload=record.workload.name,
        status=record.status,
        summary=_summary(record),
    )


def unreadable_row(identity: str, why: str) -> RecordRow:
    return RecordRow(identity, "", "", "", "unreadable", "", unreadable=why)


def _summary(record: Record) -> str:
    """Say in a few words what came out."""
    if record.why is not None:
        return ", ".join(_found_cause(record.why))
    words = [f"{len(record.lanes)} lane{'s' * (len(record.lanes) != 1)}"]
    faster = [each for each in record.comparisons if each.verdict == "faster" and each.same_work]
    if faster:
        best = max(faster, key=lambda each: each.ratio)
        words.append(f"{_short(best.lane)} {best.ratio:.2f}x faster than {_short(best.reference)}")
    if record.question == "profile":
        words += _heaviest_operator(record)
    if record.full is not None:
        words.append(f"{sum(len(run.laps) for run in record.full.runs)} whole laps")
        words += _fastest_training(record.full)
    if record.infer is not None:
        words += _quickest_answer(record.infer)
    failed = sum(lane.status != "ok" for lane in record.lanes)
    if failed:
        words.append(f"{failed} without a result")
    return ", ".join(words)


def _found_cause(why: Why) -> list[str]:
    """Name the cause that stands first, and what the recommended remedy gains."""
    standing = {each.cause: each.standing for each in why.causes}
    cause = f"{why.first[0]} ({standing.get(why.first[0], 'likely')})" if why.first else "no cause found"
    words = [f"why {_short(why.lane)}: {cause}"]
    words += [] if why.trusted else ["too noisy to tell"]
    best = next((each for each in why.remedies if each.recommended and each.measured is not None), None)
    return [*words, f"{best.says} {best.measured.ratio:.2f}x"] if best and best.measured else words


def _heaviest_operator(record: Record) -> list[str]:
    """Name the operator that takes the most of a step, on the first lane that has a profile."""
    profile = next((lane.profile for lane in record.lanes if lane.profile is not None), None)
    if profile is None or not profile.operators:
        return ["no profile"]
    most = profile.operators[0]
    return [f"profile, most in {most.name[:40]} ({100 * most.own_ms / profile.profiled_ms:.0f} % of a step)"]


def _fastest_training(full: FullRace) -> list[str]:
    """Name the lane that trains fastest, where that is faster than the one that all are held against."""
    known = [(each.later_laps, each) for each in full.factors if isinstance(each.later_laps, float) and each.same_work]
    ratio, best = max(known, key=lambda pair: pair[0], default=(1.0, None))
    return [f"{_short(best.lane)} {ratio:.2f}x faster than {_short(best.reference)}"] if best and ratio > 1 else []


def _quickest_answer(infer: Inference) -> list[str]:
    """Name the lane that answers soonest, where that is faster than the one that all are held against."""
    faster = [each for each in infer.factors if each.batch is None and each.verdict == "faster" and each.same_work]
    if not faster:
        return ["answers"]
    best = max(faster, key=lambda each: each.ratio)
    return [f"answers, {_short(best.lane)} {best.ratio:.2f}x faster than {_short(best.reference)}"]


def _short(lane: str) -> str:
    return lane.removesuffix("/as-written")
