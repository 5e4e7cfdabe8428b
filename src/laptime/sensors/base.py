"""What every sensor can do."""

from __future__ import annotations

from typing import Protocol, TypeVar

from laptime.model.missing import Missing

Reading_co = TypeVar("Reading_co", covariant=True)


class Sensor(Protocol[Reading_co]):
    """Probe first: it gives the reason for which there is nothing to read, or None."""

    def probe(self) -> Missing | None: ...

    def open(self, pid: int) -> None: ...

    def read(self) -> Reading_co: ...

    def close(self) -> None: ...
