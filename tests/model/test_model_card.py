"""Which card a framework's device is: by UUID, else by its place on the bus, never by a number."""

from __future__ import annotations

import pytest

from laptime.model.machine import Card, Device, match_card, normal_bus
from laptime.model.quantities import Missing

ONE, TWO, PART = "GPU-1f000000-0000-0000-0000-00000000000a", "GPU-2F000000-0000-0000-0000-00000000000B", "MIG-3c-d"
NOT_TOLD = Missing("not told")


def card(uuid: str, bus: str, parent: str | None = None) -> Card:
    told = {name: NOT_TOLD for name in Card.__dataclass_fields__ if name not in {"uuid", "bus", "parent"}}
    return Card(uuid=uuid, bus=bus, parent=parent, **told)


FIRST, SECOND = card(ONE, "0000:3b:00"), card(TWO, "0000:5e:00")
INSTANCE = card(PART, "0000:5e:00", parent=TWO)
CARDS = (FIRST, SECOND, INSTANCE)


def device(name: str, **details: str) -> Device:
    return Device(name, "cuda", "a card", usable=True, details=details)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"uuid": "2f000000-0000-0000-0000-00000000000b"}, SECOND),
        ({"uuid": TWO, "bus": "0000:3b:00"}, SECOND),
        ({"uuid": "", "bus": "0000:5e:00"}, SECOND),
        ({"bus": "5E:00.0"}, SECOND),
        ({"uuid": "3c-d"}, INSTANCE),
        ({"uuid": "from a newer CUDA", "bus": "00000000:3B:00.0"}, FIRST),
    ],
)
def test_numbers_are_crossed_and_cards_are_found(details, expected):
    """The framework's first is the driver's second wherever the two tell the same card's name."""
    assert expected == match_card(device("cuda:0", **details), CARDS)


def test_who_tells_nothing_of_a_card_is_given_none():
    """Not even where there is but one."""
    found = match_card(device("cuda:0"), (FIRST,))
    assert found == Missing("the framework reports neither UUID nor bus of cuda:0, so no card can be named for it")


def test_a_strange_card_is_said():
    found = match_card(device("cuda:1", uuid="9-9", bus="0000:01:00"), CARDS)
    assert found == Missing("no card that the driver shows has cuda:1's UUID 9-9 and place 0000:01:00")


@pytest.mark.parametrize(
    ("bus", "expected"),
    [
        ("00000000:00:06.0", "0000:00:06"),
        ("0000:3B:00.0", "0000:3b:00"),
        ("3b:00", "0000:3b:00"),
        ("0:3b:0", "0000:3b:00"),
        ("00010000:01:00.0", "10000:01:00"),
        (" Not a bus ", "not a bus"),
    ],
)
def test_a_bus_is_written_in_one_way(bus, expected):
    assert expected == normal_bus(bus)
