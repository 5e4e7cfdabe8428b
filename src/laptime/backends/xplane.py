"""What the profilers of JAX and TensorFlow share: planes of lines of events, read once from a session's folder.

This module turns them into operator sums and a Chrome trace.
"""

from __future__ import annotations

import json
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from laptime.backends.hlo import Origins, read_origins
from laptime.backends.kernels import Activity, sum_device, sum_operators
from laptime.errors import LaneError
from laptime.model.missing import Missing
from laptime.model.profile import DeviceSum, Observed, OperatorSum

ON_PROCESSOR = Missing("this lane computes on the processor")
NOTHING_TOLD = Missing(
    "the profiler told of no kernel: another tool may hold the card's profiling interface, or the driver refuses it"
)
NO_MEMORY = Missing("this profiler does not tell it by operator; XLA takes it for a whole step at once")
CARDS = re.compile(r"^/device:(?:GPU|TPU|CUSTOM)")
OF_CARDS = re.compile(r"^(?:Stream|XLA Ops$)")  # a GPU's streams as they ran; a TPU reports its operators in one line
FACTS = ("hlo_op", "tf_op")  # an event names the operator that it computes by one of these
ORIGIN = "origin"  # our own fact: the place in the user's code
# How TensorFlow names an operator on the processor: its place in the graph, and its type.
TYPED = re.compile(r"^(?:StatefulPartitionedCall/)*(?P<name>[\w./\-]+):_?(?P<type>[A-Z]\w*)$")


@dataclass(frozen=True, slots=True)
class XEvent:
    """Something that took some time; `facts` is what the framework reports about it."""

    name: str
    start_ns: float
    duration_ns: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def end_ns(self) -> float:
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class XLine:
    name: str
    events: tuple[XEvent, ...]


@dataclass(frozen=True, slots=True)
class XPlane:
    name: str
    lines: tuple[XLine, ...]


def observe(planes: Sequence[XPlane], *, on_card: bool) -> Observed:
    """Return operators with their own time, and the work of a card separately from that of the processor."""
    ran = list(list_activities(planes))
    device: DeviceSum | Missing = ON_PROCESSOR
    if on_card:
        device = sum_device(ran) if ran else NOTHING_TOLD
    notes = (device.missing,) if on_card and isinstance(device, Missing) else ()
    return Observed((*host_operators(planes), *sum_operators(ran, None)), device, notes)


def name_origins(planes: Iterable[XPlane], origins: Origins) -> tuple[XPlane, ...]:
    """Return the planes with the place in the user's code added to each of XLA's operators."""
    return tuple(
        XPlane(
            plane.name,
            tuple(XLine(line.name, tuple(_placed(each, origins) for each in line.events)) for line in plane.lines),
        )
        for plane in planes
    )


def _placed(event: XEvent, origins: Origins) -> XEvent:
    facts = event.facts
    program = f"{facts.get('hlo_module')}({facts.get('program_id')})"
    origin = origins.get((program, str(facts.get("hlo_op"))))
    return event if origin is None else replace(event, facts={**facts, ORIGIN: origin})


def host_operators(planes: Iterable[XPlane]) -> tuple[OperatorSum, ...]:
    """Add up each operator's own time over all threads; what a runtime does between operators is not an operator."""
    calls: dict[str, int] = {}
    times: dict[str, float] = {}
    for plane in planes:
        if CARDS.match(plane.name):
            continue
        for line in plane.lines:
            for event, own_ns in own_times([each for each in line.events if operator_of(each)]):
                name = operator_of(event)
                calls[name] = calls.get(name, 0) + 1
                times[name] = times.get(name, 0.0) + own_ns
    return tuple(OperatorSum(name, "processor", calls[name], times[name], NO_MEMORY) for name in calls)


def operator_of(event: XEvent) -> str:
    """Return the name of the operator that an event computes; an empty string where it computes none."""
    for fact in FACTS:
        if event.facts.get(fact):
            origin = event.facts.get(ORIGIN)
            return f"{event.facts[fact]} ({origin})" if origin else str(event.facts[fact])
    typed = TYPED.match(event.name)
    return f"{typed['type']} {typed['name']}" if typed else ""


def own_times(events: Sequence[XEvent]) -> Iterator[tuple[XEvent, float]]:
    """Yield each event of one thread with its time minus that of the events inside it."""
    open_: list[tuple[XEvent, list[float]]] = []
    for event in sorted(events, key=lambda each: (each.start_ns, -each.duration_ns)):
        while open_ and open_[-1][0].end_ns <= event.start_ns:
            yield _closed(open_.pop())
        if open_:
            open_[-1][1].append(min(event.end_ns, open_[-1][0].end_ns) - event.start_ns)
        open_.append((event, []))
    while open_:
        yield _closed(open_.pop())


def _closed(entry: tuple[XEvent, list[float]]) -> tuple[XEvent, float]:
    event, inside = entry
    return event, max(0.0, event.duration_ns - sum(inside))


def list_activities(planes: Iterable[XPlane]) -> Iterator[Activity]:
    """Yield what ran on cards, each with the operator that it belongs to."""
    for plane in planes:
        if not CARDS.match(plane.name):
            continue
        for line in plane.lines:
            if OF_CARDS.match(line.name):
                for each in line.events:
                    yield Activity(each.name, each.start_ns, each.end_ns, operator_of(each) or None)


def chrome_trace(planes: Iterable[XPlane]) -> dict[str, Any]:
    """Return the planes as Chrome trace events: a process per plane, a thread per line, times in microseconds."""
    planes = list(planes)
    begins_ns = min((each.start_ns for plane in planes for line in plane.lines for each in line.events), default=0.0)
    told: list[dict[str, Any]] = []
    for process, plane in enumerate(planes, 1):
        told.append(_named("process_name", process, 0, plane.name))
        for thread, line in enumerate(plane.lines, 1):
            told.append(_named("thread_name", process, thread, line.name))
            told += [_event(each, process, thread, begins_ns) for each in line.events]
    return {"displayTimeUnit": "ms", "traceEvents": told}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _event(event: XEvent, process: int, thread: int, begins_ns: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": event.name,
        "pid": process,
        "tid": thread,
        "ts": (event.start_ns - begins_ns) / 1e3,
        "dur": event.duration_ns / 1e3,
        "args": {name: str(value) for name, value in event.facts.items()},
    }


class FolderProfiler(ABC):
    """Watches the whole process, from whichever thread it is started, and writes a file of planes."""

    by: str
    framework: str

    def __init__(self, device: str, scratch: Path) -> None:
        self._on_card, self._scratch = device != "cpu", scratch
        self._folder = scratch
        self._planes: tuple[XPlane, ...] = ()

    def start(self) -> None:
        self._folder, self._planes = Path(tempfile.mkdtemp(dir=self._scratch)), ()
        self.watch(self._folder)

    @abstractmethod
    def watch(self, folder: Path) -> None:
        """Start the framework's profiler, which writes into this folder.

        Python's own calls are left out: watching would slow each of them, and they are not operators.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the profiler; the file is complete on return."""

    @abstractmethod
    def planes_of(self, data: bytes, file: Path) -> Iterable[XPlane]:
        """Read a file of planes with the framework's own reader."""

    def read(self) -> Observed:
        return observe(self._read(), on_card=self._on_card)

    def write_trace(self, path: Path) -> None:
        path.write_text(json.dumps(chrome_trace(self._read())), encoding="utf-8")

    def _read(self) -> tuple[XPlane, ...]:
        """Read what the last session wrote, once."""
        if not self._planes:
            files = sorted(self._folder.rglob("*.xplane.pb"))
            if not files:
                name = self.by.partition(" ")[0]
                raise LaneError(f"{name} wrote nothing that could be read", f"try another version of {self.framework}")
            data = files[-1].read_bytes()
            self._planes = name_origins(self.planes_of(data, files[-1]), read_origins(data))
        return self._planes
