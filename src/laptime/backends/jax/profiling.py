"""JAX's own profiler on a lane: what XLA computed, thread by thread or stream by stream."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from laptime.backends.jax.devices import list_versions  # before JAX itself
from laptime.backends.xplane import Event, Line, Plane
from laptime.backends.xplane_files import FolderProfiler
from laptime.model.missing import Missing

import jax  # isort: skip  the line above says how much of a card it may take


NO_READER = "JAX {} has no reader of its own profiles (jax.profiler.ProfileData); a newer one has"


def open_profiler(device: str, scratch: Path) -> JaxProfiler | Missing:
    """Give the profiler of a lane on this device, or say why this JAX has none that can be read."""
    if not (hasattr(jax.profiler, "ProfileData") and hasattr(jax.profiler, "ProfileOptions")):
        return Missing(NO_READER.format(list_versions()["jax"]))
    return JaxProfiler(device, scratch)


class JaxProfiler(FolderProfiler):
    by = f"jax.profiler of JAX {list_versions()['jax']}"
    framework = "JAX"

    def watch(self, folder: Path) -> None:
        options: Any = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        jax.profiler.start_trace(str(folder), profiler_options=options)

    def stop(self) -> None:
        jax.profiler.stop_trace()

    def planes_of(self, _data: bytes, file: Path) -> Iterable[Plane]:
        told: Any = jax.profiler.ProfileData.from_file(str(file))
        return map(_read_plane, told.planes)


def _read_plane(plane: Any) -> Plane:
    lines = (Line(str(line.name), tuple(map(_read_event, line.events))) for line in plane.lines)
    return Plane(str(plane.name), tuple(lines))


def _read_event(event: Any) -> Event:
    return Event(str(event.name), float(event.start_ns), float(event.duration_ns), dict(event.stats))
