"""TensorFlow's own profiler on a lane: its operators, thread by thread or stream by stream."""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from laptime.backends.hlo import read_origins
from laptime.backends.xplane import Event, Line, Plane, chrome_trace, name_origins, observe
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.profile import Observed

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


class TensorFlowProfiler:
    """Watches the whole process, whichever thread starts it."""

    by = f"tf.profiler of TensorFlow {tf.__version__}"

    def __init__(self, device: str, scratch: Path, its_format: Any) -> None:
        self._on_card, self._scratch = device != "cpu", scratch
        self._folder = scratch
        self._planes: tuple[Plane, ...] = ()
        self._format = its_format

    def start(self) -> None:
        """Leave out Python's own calls: each would be slowed, and they are no operators."""
        self._folder, self._planes = Path(tempfile.mkdtemp(dir=self._scratch)), ()
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
        )
        tf.profiler.experimental.start(str(self._folder), options=options)

    def stop(self) -> None:
        tf.profiler.experimental.stop()

    def read(self) -> Observed:
        return observe(self._read(), on_card=self._on_card)

    def write_trace(self, path: Path) -> None:
        path.write_text(json.dumps(chrome_trace(self._read())), encoding="utf-8")

    def _read(self) -> tuple[Plane, ...]:
        """Read what the last session wrote, once."""
        if not self._planes:
            files = sorted(self._folder.rglob("*.xplane.pb"))
            if not files:
                raise LaneError("tf.profiler wrote nothing that could be read", "try another version of TensorFlow")
            space: Any = self._format.XSpace()
            data = files[-1].read_bytes()
            space.ParseFromString(data)
            self._planes = name_origins(map(_read_plane, space.planes), read_origins(data))
        return self._planes


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
