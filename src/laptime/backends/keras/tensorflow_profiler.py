"""TensorFlow's own profiler on a lane: its operators, thread by thread or stream by stream."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from laptime.backends.xplane import Event, Line, Plane
from laptime.backends.xplane_files import FolderProfiler
from laptime.model.missing import Missing

WHERE_ITS_FORMAT_IS = (  # as versions have moved it about
    "tensorflow.tsl.profiler.protobuf.xplane_pb2",
    "tensorflow.core.profiler.protobuf.xplane_pb2",
    "tsl.profiler.protobuf.xplane_pb2",
)


NO_FORMAT = f"TensorFlow {tf.__version__} does not bring the format of its own profiles (xplane_pb2)"


def open_profiler(device: str, scratch: Path) -> TensorFlowProfiler | Missing:
    """Give the profiler of a lane on this device, or say why this TensorFlow has none that can be read."""
    for name in WHERE_ITS_FORMAT_IS:
        try:
            return TensorFlowProfiler(device, scratch, importlib.import_module(name))
        except ImportError:
            continue
    return Missing(NO_FORMAT)


class TensorFlowProfiler(FolderProfiler):
    by = f"tf.profiler of TensorFlow {tf.__version__}"
    framework = "TensorFlow"

    def __init__(self, device: str, scratch: Path, its_format: Any) -> None:
        super().__init__(device, scratch)
        self._format = its_format

    def watch(self, folder: Path) -> None:
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
        )
        tf.profiler.experimental.start(str(folder), options=options)

    def stop(self) -> None:
        tf.profiler.experimental.stop()

    def planes_of(self, data: bytes, _file: Path) -> Iterable[Plane]:
        space: Any = self._format.XSpace()
        space.ParseFromString(data)
        return map(_read_plane, space.planes)


def _read_plane(plane: Any) -> Plane:
    events, stats = plane.event_metadata, plane.stat_metadata
    return Plane(
        str(plane.name),
        tuple(
            Line(
                str(line.name or line.display_name),
                tuple(
                    Event(
                        str(events[each.metadata_id].name),
                        float(line.timestamp_ns) + each.offset_ps / 1e3,
                        each.duration_ps / 1e3,
                        {str(stats[stat.metadata_id].name): _read_fact(stat, stats) for stat in each.stats},
                    )
                    for each in line.events
                ),
            )
            for line in plane.lines
        ),
    )


def _read_fact(stat: Any, names: Any) -> Any:
    """A fact is a number, a word, or the place of a word in the plane's own list."""
    kind = stat.WhichOneof("value")
    if kind is None:
        return ""
    value = getattr(stat, kind)
    return names[value].name if kind == "ref_value" else value
