"""What every sensor can do, so that one sampler reads them all."""

from __future__ import annotations

from typing import Protocol

from laptime.model.missing import Missing
from laptime.model.timeline import Opened


class Sensor(Protocol):
    """Probe first: it gives the reason for which there is nothing to read, or None."""

    name: str
    """The word by which `--sensors` knows it."""

    period_s: float
    """The least time between two readings that makes sense, or that its cost allows; 0 where any rate does."""

    def probe(self) -> Missing | None:
        """Tell why there is nothing to read here, or None; costs little, changes nothing and never raises."""

    def open(self, pid: int) -> Opened:
        """Stand ready to watch the machine, and the process tree that begins at `pid`; say what will be shown."""

    def read(self) -> tuple[float | None, ...]:
        """Give one figure a channel, None where it was not told this time. Raises SensorError when all is lost."""

    def close(self) -> None:
        """Let go; called once after `open`, whatever happened in between."""
