"""What a card would bring, in a sentence, for the page of a race on a machine that has none."""

from __future__ import annotations

from laptime.model.forecasting import Range
from laptime.model.record import Record
from laptime.pages.numbers import rough
from laptime.pages.words import joined, short_name

WHY_HARDLY = {"loader": "the loader would bind it", "python": "its own Python takes too long between operators"}
HARDLY = 1.2  # times as fast: less is no reason to rent a card


def card_sentence(record: Record) -> list[str]:
    """Return whether a card would help, and how much; nothing where that was not predicted."""
    cards = record.cards
    if cards is None or not cards.rows:
        return []
    lane, best = short_name(cards.lane), max(cards.rows, key=lambda each: each.factor.middle)
    if best.factor.middle < HARDLY:
        why = WHY_HARDLY.get(best.binds, "the steps are too small")
        return [f"A card would hardly help, since {why}: {plain_card(best.card)} {times(best.factor)} as fast."]
    first, *others = (f"{plain_card(each.card)} {times(each.factor)}" for each in cards.rows)
    bound = [plain_card(each.card) for each in cards.rows if each.binds == "loader"]
    which = "each" if len(bound) == len(cards.rows) else joined(bound)
    loader = f"; the loader would bind {which}" if bound else ""
    unknown = "" if cards.loader_is_known else ", if the loader keeps up"
    told = joined([f"{first} as fast as {lane}", *others])
    return [f"Cards, as predicted: {told}{unknown}{loader} (laptime forecast {record.id})."]


def times(found: Range) -> str:
    return f"{rough(found.low)}-{rough(found.high)}x"


def plain_card(name: str) -> str:
    """Return a device's name without its maker and its family."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ")
