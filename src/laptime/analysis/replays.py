"""Timed turns that the base of a verdict took again -> whether the candidate does the same work in them.

A turn is drawn after it was timed, and taken again from where it began by the base's own code, on the base's batches of
the same steps. An honest candidate comes to the same weights, as near as rounding leaves them, or is one more of the
ends to which other random draws lead. One turn that differs may be chance, such as a value that rounding puts on the
other side of a rectifier: it takes a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import fmean, stdev

from laptime.model.other_work import OtherWork
from laptime.model.quantities import Missing, number
from laptime.model.sample import Heat, ReplayChance, TurnTakenAgain

REPEATS_WITHIN = 1e-3  # of its way: how far the base's own turn may come out from itself
DIFFERING_LEAST = 2  # turns
PART_OF_GAIN = 0.5  # of the gain is in the turns that were taken again
# Of the other ends' distance from their middle. An honest dropout was within 3 %, a rate of 0.2 for 0.3 is 17 % nearer.
FAR_APART = 0.12
SPREADS = 4.0

TAKEN_AGAIN = "taken again by the base's own code"
NOT_AS_TOLD = OtherWork(
    "knows the judge", "the state that it showed of a timed turn is not the one that it had told a digest of"
)
NOT_JOINED = OtherWork("knows the judge", "its state changed between two of its turns")


def find_other_replay(heats: Sequence[Heat]) -> OtherWork | Missing | None:
    """Return how a turn of a training differs from the base's code; Missing where that is not known for certain."""
    found: list[OtherWork] = []
    for replay in (replay for heat in heats for replay in heat.replays):
        if not replay.is_shown:
            return NOT_AS_TOLD
        if (difference := find_difference(replay)) is not None:
            found.append(difference)
    if len(found) >= DIFFERING_LEAST:
        return found[-1]
    if found:
        return Missing(f"{found[0].says}; one more turn would tell chance from other work")
    for heat in heats:
        if heat.unreplayed:
            return Missing(f"no timed turn of it could be {TAKEN_AGAIN}: {heat.unreplayed}")
    return None


def find_gain_elsewhere(heats: Sequence[Heat], gain: float) -> str | None:
    """Return why a gain is not that of the turns that were taken again: less than half of it is in these.

    Most often those are taken that gained most. A candidate that did less in the others alone would show so.
    """
    times = [replay.times for heat in heats for replay in heat.replays if replay.times]
    taken = exp(fmean(log(time) for time in times)) if times else gain
    if taken >= 1 + (gain - 1) * PART_OF_GAIN:
        return None
    return f"the turns that were {TAKEN_AGAIN} gained {taken:.2f}x, and all of them {gain:.2f}x"


def find_difference(replay: TurnTakenAgain) -> OtherWork | None:
    """Return how a turn came out elsewhere. Where the base does not repeat its own, nothing is known."""
    if not replay.is_joined:
        return NOT_JOINED
    if (replay.repeats or 0.0) > REPEATS_WITHIN:
        return None
    chances = {chance.of: chance for chance in replay.chance}
    for part in replay.parts:
        chance = chances.get(part.of)
        if part.is_same or (replay.chance and (chance is None or is_one_of(chance))):
            continue
        steps = f"{replay.steps:,} timed steps, {TAKEN_AGAIN}, lead elsewhere"
        if chance is not None:
            *others, far = chance.far
            nearness = far / max(fmean(others), 1e-30)
            says = f"{steps}, with any random draws: its {part.of} end {number(nearness)} times as far apart"
            return OtherWork("other random draws", says)
        says = f"{steps}: its {part.of} are {number(part.apart)} of the way off ({number(part.allowed)} allowed)"
        return OtherWork("knows the judge", says)
    return None


def is_one_of(chance: ReplayChance) -> bool:
    """Whether the training's end is among those of other draws: as far out as they are, and no further along."""
    *others, far = chance.far
    *rest, along = chance.along
    usual = fmean(others)
    off = abs(far - usual) <= max(FAR_APART * usual, SPREADS * stdev(others))
    return off and abs(along - fmean(rest)) <= max(FAR_APART * usual, SPREADS * stdev(rest))
