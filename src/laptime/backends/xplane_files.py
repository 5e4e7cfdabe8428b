"""What JAX's and TensorFlow's profilers share beside their planes: a session writes a folder, which is read once."""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from laptime.backends.hlo import read_origins
from laptime.backends.xplane import Plane, chrome_trace, name_origins, observe
from laptime.errors import LaneError
from laptime.model.profile import Observed


class FolderProfiler(ABC):
    """Watches the whole process, whichever thread starts it, and leaves a file of planes."""

    by: str
    framework: str

    def __init__(self, device: str, scratch: Path) -> None:
        self._on_card, self._scratch = device != "cpu", scratch
        self._folder = scratch
        self._planes: tuple[Plane, ...] = ()

    def start(self) -> None:
        self._folder, self._planes = Path(tempfile.mkdtemp(dir=self._scratch)), ()
        self.watch(self._folder)

    @abstractmethod
    def watch(self, folder: Path) -> None:
        """Start the framework's profiler, which writes into this folder.

        Python's own calls are left out: each would be slowed, and they are no operators.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop it; the file is there by then."""

    @abstractmethod
    def planes_of(self, data: bytes, file: Path) -> Iterable[Plane]:
        """Read a file of planes, in the framework's own way."""

    def read(self) -> Observed:
        return observe(self._read(), on_card=self._on_card)

    def write_trace(self, path: Path) -> None:
        path.write_text(json.dumps(chrome_trace(self._read())), encoding="utf-8")

    def _read(self) -> tuple[Plane, ...]:
        """Read what the last session wrote, once."""
        if not self._planes:
            files = sorted(self._folder.rglob("*.xplane.pb"))
            if not files:
                name = self.by.partition(" ")[0]
                raise LaneError(f"{name} wrote nothing that could be read", f"try another version of {self.framework}")
            data = files[-1].read_bytes()
            self._planes = name_origins(self.planes_of(data, files[-1]), read_origins(data))
        return self._planes
