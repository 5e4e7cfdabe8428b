"""The page of a race of several trainings: which two to compare, their names, and whether their work is the same."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.model.lane import OF_TRAINING
from laptime.model.missing import Missing
from laptime.model.record import Comparison, OtherTraining, Record
from laptime.report.words import short_name


def most_telling(compared: Sequence[Comparison], record: Record) -> Comparison:
    """Return the lane that is fastest against the first. Where trainings race, it is another training's, if any is.

    One that does the same work comes first, then one on the first lane's own device and settings.
    """

    def order(found: Comparison) -> tuple[bool, bool, bool, float]:
        is_other = _are_two_trainings(found, record)
        is_same_work, is_same_place = found.same_work is True, _place(found.lane) == _place(found.reference)
        return is_other, is_other and is_same_work, is_other and is_same_place, found.ratio

    return max(compared, key=order)


def _place(lane: str) -> str:
    """Return a lane without its training."""
    return lane.partition(OF_TRAINING)[0]


def _are_two_trainings(found: Comparison, record: Record) -> bool:
    trainings = {lane.name: lane.training for lane in record.lanes}
    return trainings.get(found.lane) != trainings.get(found.reference)


def is_other_work(found: Comparison, record: Record) -> bool:
    """Whether a comparison is of two trainings that are known to do other work."""
    differ = {each.subject.name for each in record.others if isinstance(each.differs, str)}
    trainings = {lane.training for lane in record.lanes if lane.name in (found.lane, found.reference)}
    return len(trainings) > 1 and bool(trainings & differ)


def names_of_trainings(faster: str, slower: str) -> tuple[str, str] | None:
    """Return the names of two trainings on one lane for a sentence, the lane once; None if the lanes differ, too."""
    (place, of, training), (other_place, _, other) = (lane.partition(OF_TRAINING) for lane in (faster, slower))
    return (f"{training} on {short_name(place)}", other) if of and place == other_place else None


def trainings_compared(record: Record) -> str:
    """Return, for each training after the first, whether it does the same work as the first."""
    return " ".join(_compared(each, record.workload.name) for each in record.others)


def _compared(training: OtherTraining, first: str) -> str:
    name, differs = training.subject.name, training.differs
    if differs is None:
        return f"{name} does the same work as {first}."
    if isinstance(differs, Missing):
        return f"Whether {name} does the same work as {first} is not known: {differs.missing}."
    return f"{name} does other work than {first}: {differs}."
