"""What this computer has, found without importing any framework."""

from laptime.machine.look import look_at_machine

__all__ = ["look_at_machine"]
