"""Every card of this computer: what drivers report, and what is on the bus without a driver that reports it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from laptime.machine.pci import NVIDIA, PciDevice, describe_pci, list_pci
from laptime.model.card import Card, is_at
from laptime.model.missing import Missing
from laptime.sensors.amd import describe_amd_cards
from laptime.sensors.apple import describe_apple_cards
from laptime.sensors.base import PATIENCE_S, PendingAnswer
from laptime.sensors.nvml import Survey, survey_cards

NO_CARD = Missing("the NVIDIA driver is here, but it shows no card")
NO_DRIVER = Missing("no card that amdgpu drives is under /sys/class/drm")
NO_PLACE = Missing("no display and no accelerator is on the PCI bus")


@dataclass(frozen=True, slots=True)
class Cards:
    """All cards, in the order of the bus, each followed by its MIG instances; and which source found none, and why."""

    cards: tuple[Card, ...]
    absent: dict[str, Missing]


class CardSearch:
    """A search for all cards that has started; each driver is asked in its own thread, since drivers may hang."""

    def __init__(self, sys: Path = Path("/sys")) -> None:
        self._nvidia = PendingAnswer("NVIDIA's library (NVML)", survey_cards)
        self._amd = PendingAnswer("AMD's driver (amdgpu)", lambda: describe_amd_cards(sys))
        self._apple = PendingAnswer("ioreg", describe_apple_cards)
        self._bus = PendingAnswer("the PCI bus", lambda: list_pci(sys))

    def end(self, patience_s: float = PATIENCE_S) -> Cards:
        """Return what was found; a driver that has not answered by then is reported as hanging."""
        deadline_s = time.monotonic() + min(patience_s, PATIENCE_S)

        def left_s() -> float:
            return max(0.1, deadline_s - time.monotonic())

        nvidia, amd, apple = self._nvidia.answer(left_s()), self._amd.answer(left_s()), self._apple.answer(left_s())
        return join_cards(nvidia, amd, apple, self._bus.answer(left_s()))


def join_cards(
    nvidia: Survey | Missing,
    amd: tuple[Card, ...] | Missing,
    apple: tuple[Card, ...] | Missing,
    bus: tuple[PciDevice, ...] | Missing,
) -> Cards:
    """Combine what each source reported, every card once: a driver knows more about a card than the bus does."""
    told = (*(() if isinstance(nvidia, Missing) else nvidia.cards), *_or_none(amd), *_or_none(apple))
    there = () if isinstance(bus, Missing) else bus
    rest = [each for each in there if not any(is_at(card, each.bus) for card in told)]
    lost, rest = _name_lost(nvidia, rest)
    silent = tuple(_explain(describe_pci(each), each, nvidia) for each in rest)
    cards = _in_order((*told, *lost, *silent))
    return Cards(cards, _absent(nvidia, amd, apple, bus))


def _or_none(told: tuple[Card, ...] | Missing) -> tuple[Card, ...]:
    return () if isinstance(told, Missing) else told


def _name_lost(nvidia: Survey | Missing, rest: list[PciDevice]) -> tuple[tuple[Card, ...], list[PciDevice]]:
    """Return the cards that NVML counts but that do not answer, and the rest of the bus.

    If as many of NVIDIA's cards are left on the bus, these are the lost cards; else they have no place.
    """
    unseen = () if isinstance(nvidia, Missing) else nvidia.unseen
    left = [each for each in rest if each.vendor == NVIDIA and each.module == "nvidia"]
    if len(left) != len(unseen):
        return tuple(_nameless(each.name, each.reason) for each in unseen), rest
    pairs = zip(left, unseen, strict=True)
    lost = tuple(replace(describe_pci(place), reason=each.reason.missing) for place, each in pairs)
    return lost, [each for each in rest if each not in left]


def _nameless(name: str, reason: Missing) -> Card:
    blank = PciDevice(bus="", kind="display", vendor=NVIDIA, device="0x", module="nvidia", folder=Path("/nowhere"))
    return replace(describe_pci(blank, ()), name=name, bus=reason, reason=reason.missing, module="nvidia")


def _explain(card: Card, place: PciDevice, nvidia: Survey | Missing) -> Card:
    """Add NVML's reason to a card of NVIDIA that its own module holds, and that does not answer."""
    if card.reason is not None or place.vendor != NVIDIA or not card.computes:
        return card
    reason = nvidia.missing if isinstance(nvidia, Missing) else "NVIDIA's library (NVML) does not show it"
    return replace(card, reason=reason)


def _in_order(cards: tuple[Card, ...]) -> tuple[Card, ...]:
    """Sort by place on the bus; cards without one come last, and instances stay behind their card."""
    places = {each.uuid: each.bus for each in cards if each.parent is None and isinstance(each.uuid, str)}

    def place(card: Card) -> tuple[bool, str]:
        bus = places.get(card.parent, card.bus) if card.parent is not None else card.bus
        return (True, "") if isinstance(bus, Missing) else (False, bus)

    return tuple(sorted(cards, key=place))


def _absent(
    nvidia: Survey | Missing,
    amd: tuple[Card, ...] | Missing,
    apple: tuple[Card, ...] | Missing,
    bus: tuple[PciDevice, ...] | Missing,
) -> dict[str, Missing]:
    """Return, for each source that reported no card, the reason."""
    told: dict[str, Missing | bool] = {
        "NVIDIA": nvidia if isinstance(nvidia, Missing) else bool(nvidia.cards or nvidia.unseen) or NO_CARD,
        "AMD": amd if isinstance(amd, Missing) else bool(amd) or NO_DRIVER,
        "Apple": apple if isinstance(apple, Missing) else bool(apple),
        "PCI": bus if isinstance(bus, Missing) else bool(bus) or NO_PLACE,
    }
    return {name: why for name, why in told.items() if isinstance(why, Missing)}
