"""An engine's profiler, started and stopped in the thread in which Keras computes."""

from __future__ import annotations

from pathlib import Path

from laptime.backends.base import Profiler
from laptime.backends.keras.driving import Drive
from laptime.model.profile import Observed


class KerasProfiler:
    def __init__(self, profiler: Profiler, drive: Drive) -> None:
        self._profiler, self._drive = profiler, drive
        self.by = profiler.by

    def start(self) -> None:
        self._drive.within(self._profiler.start)

    def stop(self) -> None:
        self._drive.within(self._profiler.stop)

    def read(self) -> Observed:
        return self._profiler.read()

    def write_trace(self, path: Path) -> None:
        self._profiler.write_trace(path)
