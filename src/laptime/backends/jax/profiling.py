"""JAX's own profiler on a lane: what XLA computed, thread by thread or stream by stream."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from laptime.backends.hlo import read_origins
from laptime.backends.jax.devices import list_versions  # before JAX itself
from laptime.backends.xplane import Event, Line, Plane, chrome_trace, name_origins, observe
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.profile import Observed

import jax  # isort: skip  the line above says how much of a card it may take


NO_READER = "JAX {} has no reader of its own profiles (jax.profiler.ProfileData); a newer one has"


def open_profiler(device: str, scratch: Path) -> JaxProfiler | Missing:
    """Give the profiler of a lane on this device, or say why this JAX has none that can be read."""
    if not (hasattr(jax.profiler, "ProfileData") and hasattr(jax.profiler, "ProfileOptions")):
        return Missing(NO_READER.format(list_versions()["jax"]))
    return JaxProfiler(device, scratch)


class JaxProfiler:
    """Watches the whole process, whichever thread starts it."""

    by = f"jax.profiler of JAX {list_versions()['jax']}"

    def __init__(self, device: str, scratch: Path) -> None:
        self._on_card, self._scratch = device != "cpu", scratch
        self._folder = scratch
        self._planes: tuple[Plane, ...] = ()

    def start(self) -> None:
        """Leave out Python's own calls: each would be slowed, and they are no operators."""
        self._folder, self._planes = Path(tempfile.mkdtemp(dir=self._scratch)), ()
        options: Any = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(str(self._folder), profiler_options=options)

    def stop(self) -> None:
        jax.profiler.stop_trace()

    def read(self) -> Observed:
        return observe(self._read(), on_card=self._on_card)

    def write_trace(self, path: Path) -> None:
        path.write_text(json.dumps(chrome_trace(self._read())), encoding="utf-8")

    def _read(self) -> tuple[Plane, ...]:
        """Read what the last session wrote, once."""
        if not self._planes:
            files = sorted(self._folder.rglob("*.xplane.pb"))
            if not files:
                raise LaneError("jax.profiler wrote nothing that could be read", "try another version of JAX")
            told: Any = jax.profiler.ProfileData.from_file(str(files[-1]))
            origins = read_origins(files[-1].read_bytes())
            self._planes = name_origins(map(_read_plane, told.planes), origins)
        return self._planes


def _read_plane(plane: Any) -> Plane:
    lines = (Line(str(line.name), tuple(map(_read_event, line.events))) for line in plane.lines)
    return Plane(str(plane.name), tuple(lines))


def _read_event(event: Any) -> Event:
    return Event(str(event.name), float(event.start_ns), float(event.duration_ns), dict(event.stats))
