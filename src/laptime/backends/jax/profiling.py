"""JAX's own profiler on a lane, thread by thread or stream by stream; and how often XLA has compiled."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from laptime.backends.jax.devices import list_versions  # before JAX itself
from laptime.backends.xplane import FolderProfiler, XEvent, XLine, XPlane
from laptime.model.missing import Missing

import jax  # isort: skip  the import above limits the memory of a card that JAX takes

COMPILED = "/jax/core/compile/backend_compile_duration"
NO_READER = "JAX {} has no reader of its own profiles (jax.profiler.ProfileData); a newer one has"


def open_profiler(device: str, scratch: Path) -> JaxProfiler | Missing:
    """Return the profiler of a lane on this device, or why this JAX has none whose profiles can be read."""
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

    def planes_of(self, _data: bytes, file: Path) -> Iterable[XPlane]:
        told: Any = jax.profiler.ProfileData.from_file(str(file))
        return map(_read_plane, told.planes)


def _read_plane(plane: Any) -> XPlane:
    lines = (XLine(str(line.name), tuple(map(_read_event, line.events))) for line in plane.lines)
    return XPlane(str(plane.name), tuple(lines))


def _read_event(event: Any) -> XEvent:
    return XEvent(str(event.name), float(event.start_ns), float(event.duration_ns), dict(event.stats))


class CompileCounter:
    """Counts compilations as JAX reports them. JAX never removes a listener, so there is only one counter."""

    def __init__(self) -> None:
        self.times = 0

    def hear(self, event: str, _seconds: float, **_words: Any) -> None:
        self.times += event == COMPILED


@functools.cache
def compile_counter() -> CompileCounter:
    made = CompileCounter()
    jax.monitoring.register_event_duration_secs_listener(made.hear)
    return made
