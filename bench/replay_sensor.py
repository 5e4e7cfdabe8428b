"""A recording of an instrument, played again as if it were there: a card on a machine without one."""

from __future__ import annotations

import gzip
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from laptime.model.errors import SensorError
from laptime.model.process import Channel, Opened
from laptime.model.quantities import Missing

FORM = 1


@dataclass(frozen=True, slots=True)
class Recording:
    """What an instrument showed: a series a channel, and for all of them the times since the recording began.

    On disk it is this as JSON, plain or packed by gzip. `form` is the number of its shape.
    """

    form: int
    about: str
    name: str
    period_s: float
    channels: tuple[Channel, ...]
    absent: tuple[tuple[Channel, Missing], ...]
    at_ns: tuple[int, ...]
    figures: tuple[tuple[float | None, ...], ...]


class ReplaySensor:
    """Shows at any time what was shown last at that time of the recording; time runs from `open` by the clock given.

    Before the first reading there is no figure. After the last one and its period, the instrument is lost.
    """

    def __init__(self, path: Path, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.name = "replay"
        self.period_s = 0.0
        self._path = path
        self._clock_ns = clock_ns
        self._playing: Recording | None = None
        self._began_ns = 0

    def probe(self) -> Missing | None:
        try:
            load_recording(self._path)
        except SensorError as error:
            return Missing(str(error))
        return None

    def open(self, _pid: int) -> Opened:
        self._playing = load_recording(self._path)
        self.name, self.period_s = self._playing.name, self._playing.period_s
        self._began_ns = self._clock_ns()
        return Opened(self._playing.channels, self._playing.absent)

    def read(self) -> tuple[float | None, ...]:
        if self._playing is None:
            raise SensorError(f"{self._path.name} is not being played: open comes before read")
        spent_ns = self._clock_ns() - self._began_ns
        times = self._playing.at_ns
        if spent_ns > times[-1] + self._playing.period_s * 1e9:
            raise SensorError(f"the recording {self._path.name} ended after {times[-1] / 1e9:.1f} s")
        place = bisect_right(times, spent_ns) - 1
        return tuple(series[place] if place >= 0 else None for series in self._playing.figures)

    def close(self) -> None:
        self._playing = None


def load_recording(path: Path) -> Recording:
    """Read a recording; SensorError says what is wrong with the file."""
    try:
        data = path.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        found = msgspec.json.decode(text, type=Recording)
    except OSError as error:
        raise SensorError(f"the recording {path} cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error, msgspec.DecodeError) as error:
        raise SensorError(f"{path} is not a recording of an instrument: {error}") from error
    wrong = _find_fault(found)
    if wrong:
        raise SensorError(f"{path} is not a recording that can be played: {wrong}")
    return found


def _find_fault(found: Recording) -> str | None:
    if found.form != FORM:
        return f"it has form {found.form}, and this laptime reads form {FORM}"
    if not found.at_ns:
        return "it has no readings"
    if any(later <= earlier for earlier, later in zip(found.at_ns, found.at_ns[1:], strict=False)):
        return "its times do not grow"
    if len(found.figures) != len(found.channels):
        return f"it has {len(found.channels)} channels and {len(found.figures)} series"
    lengths = {len(series) for series in found.figures} - {len(found.at_ns)}
    return f"it has {len(found.at_ns)} times and a series of {min(lengths)}" if lengths else None
