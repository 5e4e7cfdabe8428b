"""What this computer has, found without importing any framework."""

from laptime.machine.cards import CardSearch
from laptime.machine.look import add_cards, look_around, look_at_machine, time_core

__all__ = ["CardSearch", "add_cards", "look_around", "look_at_machine", "time_core"]
