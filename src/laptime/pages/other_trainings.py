"""The page of a race of several trainings: which two to compare, their names, and whether their work is the same."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.model.missing import Missing
from laptime.model.process import OF_TRAINING
from laptime.model.record import Comparison, OtherTraining, Record
from laptime.pages.words import short_name


def most_telling(compared: Sequence[Comparison]) -> Comparison:
    """Return the lane that is fastest against the first. Where trainings race, it is another training's, if any is.

    One that does the same work comes first, then one on the first lane's own device and settings.
    """

    def order(found: Comparison) -> tuple[bool, bool, bool, float]:
        (place, training), (other_place, other) = _split(found.lane), _split(found.reference)
        is_other = training != other
        return is_other, is_other and found.same_work is True, is_other and place == other_place, found.ratio

    return max(compared, key=order)


def _split(lane: str) -> tuple[str, str]:
    """Return the device and settings of a lane, and its training where a race has several."""
    place, _, training = lane.partition(OF_TRAINING)
    return place, training


def is_other_work(found: Comparison, record: Record) -> bool:
    """Whether a comparison is of two trainings that are known to do other work."""
    differ = {each.subject.name for each in record.others if isinstance(each.differs, str)}
    trainings = {_split(found.lane)[1], _split(found.reference)[1]}
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
