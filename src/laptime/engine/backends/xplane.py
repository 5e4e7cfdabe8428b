"""What the profilers of JAX and TensorFlow share: planes of lines of events, read once from a session's folder.

This module turns them into operator sums and a Chrome trace.
"""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from laptime.model.errors import LaneError
from laptime.model.quantities import Missing
from laptime.model.symptoms import PROFILER_TELLS_NOT, DeviceSum, Observed, OperatorSum

ON_PROCESSOR = Missing("this lane computes on the processor")
NOTHING_TOLD = Missing(
    "the profiler told of no kernel: another tool may hold the card's profiling interface, or the driver refuses it"
)
NO_MEMORY = Missing("this profiler does not tell it by operator; XLA takes it for a whole step at once")
CARD_PLANES = re.compile(r"^/device:(?:GPU|TPU|CUSTOM)")
CARD_LINES = re.compile(r"^(?:Stream|XLA Ops$)")  # a GPU's streams as they ran; a TPU reports its operators in one line
OPERATOR_FACTS = ("hlo_op", "tf_op")  # an event names the operator that it computes by one of these
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
            tuple(XLine(line.name, tuple(_placed(event, origins) for event in line.events)) for line in plane.lines),
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
        if CARD_PLANES.match(plane.name):
            continue
        for line in plane.lines:
            for event, own_ns in own_times([x_event for x_event in line.events if operator_of(x_event)]):
                name = operator_of(event)
                calls[name] = calls.get(name, 0) + 1
                times[name] = times.get(name, 0.0) + own_ns
    return tuple(OperatorSum(name, "processor", calls[name], times[name], NO_MEMORY) for name in calls)


def operator_of(event: XEvent) -> str:
    """Return the name of the operator that an event computes; an empty string where it computes none."""
    for fact in OPERATOR_FACTS:
        if event.facts.get(fact):
            origin = event.facts.get(ORIGIN)
            return f"{event.facts[fact]} ({origin})" if origin else str(event.facts[fact])
    typed = TYPED.match(event.name)
    return f"{typed['type']} {typed['name']}" if typed else ""


def own_times(events: Sequence[XEvent]) -> Iterator[tuple[XEvent, float]]:
    """Yield each event of one thread with its time minus that of the events inside it."""
    open_: list[tuple[XEvent, list[float]]] = []
    for event in sorted(events, key=lambda event: (event.start_ns, -event.duration_ns)):
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
        if not CARD_PLANES.match(plane.name):
            continue
        for line in plane.lines:
            if CARD_LINES.match(line.name):
                for event in line.events:
                    yield Activity(event.name, event.start_ns, event.end_ns, operator_of(event) or None)


def chrome_trace(planes: Iterable[XPlane]) -> dict[str, Any]:
    """Return the planes as Chrome trace events: a process per plane, a thread per line, times in microseconds."""
    planes = list(planes)
    begins_ns = min((event.start_ns for plane in planes for line in plane.lines for event in line.events), default=0.0)
    rows: list[dict[str, Any]] = []
    for process, plane in enumerate(planes, 1):
        rows.append(_named("process_name", process, 0, plane.name))
        for thread, line in enumerate(plane.lines, 1):
            rows.append(_named("thread_name", process, thread, line.name))
            rows += [
                {
                    "ph": "X",
                    "name": event.name,
                    "pid": process,
                    "tid": thread,
                    "ts": (event.start_ns - begins_ns) / 1e3,
                    "dur": event.duration_ns / 1e3,
                    "args": {name: str(value) for name, value in event.facts.items()},
                }
                for event in line.events
            ]
    return {"displayTimeUnit": "ms", "traceEvents": rows}


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


class FolderProfiler(ABC):
    """Watches the whole process, from whichever thread it is started, and writes a file of planes."""

    by: str
    framework: str

    def __init__(self, device: str, scratch: Path) -> None:
        self._on_card = device != "cpu"
        self._scratch = scratch
        self._folder = scratch
        self._planes: tuple[XPlane, ...] = ()

    def start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=self._scratch))
        self._planes = ()
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


# Where XLA's operators come from: XLA names a fused operator after what it computes; the program holds its origin.
#
# The profiles of JAX and TensorFlow include the programs that ran, as protobuf messages. Neither framework has a reader
# for them, so this module reads the few fields that it needs. A message is a list of pairs: a field's number and its
# value.

Origins = dict[tuple[str, str], str]

# Field numbers in XLA's xplane.proto and hlo.proto.
PLANES = 1
PLANE_NAME = 2
PLANE_PROGRAMS = 4
ENTRY_VALUE = 2
PROGRAM_NAME = 2
PROGRAM_FACTS = 5
FACT_BYTES = 6
MODULE = 1
COMPUTATIONS = 3
COMPUTATION_ID = 5
INSTRUCTIONS = 2
INSTRUCTION_NAME = 1
INSTRUCTION_KIND = 2
INSTRUCTION_METADATA = 7
INSTRUCTION_CALLS = 38
METADATA_OP_NAME = 2
HEAVY = (b"convolution", b"dot")  # the main work of a fusion that contains one
PLANE_OF_PROGRAMS = b"/host:metadata"
# How protobuf marks what a value is.
VARINT = 0
FIXED_64 = 1
WIRE_BYTES = 2
FIXED_32 = 5


def read_origins(space: bytes) -> Origins:
    """Return the place in the user's code for each operator, by program and operator.

    For a file in another format this is empty: operators then keep XLA's own names.
    """
    origins: Origins = {}
    try:
        for plane in _held(space, PLANES):
            if PLANE_OF_PROGRAMS not in _held(plane, PLANE_NAME):
                continue
            for entry in _held(plane, PLANE_PROGRAMS):
                for program in _held(entry, ENTRY_VALUE):
                    name = b"".join(_held(program, PROGRAM_NAME)).decode()
                    for fact in _held(program, PROGRAM_FACTS):
                        for message in _held(fact, FACT_BYTES):
                            origins.update(_origins_of(name, message))
    except (IndexError, ValueError, UnicodeDecodeError):
        return {}
    return origins


def _origins_of(program: str, message: bytes) -> Iterator[tuple[tuple[str, str], str]]:
    for module in _held(message, MODULE):
        bodies: dict[int, list[bytes]] = {}
        for computation in _held(module, COMPUTATIONS):
            fields = _fields(computation)
            ids = [value for number, value in fields if number == COMPUTATION_ID and isinstance(value, int)]
            bodies[ids[0] if ids else -1] = _held(computation, INSTRUCTIONS)
        for instruction in itertools.chain.from_iterable(bodies.values()):
            name = b"".join(_held(instruction, INSTRUCTION_NAME)).decode()
            origin = _origin_of(instruction) or _origin_within(instruction, bodies)
            if origin:
                # Remove the program from an origin: in `jit(step)/jvp()/dot_general`, all operators are in `jit(step)`
                first, _, rest = origin.partition("/")
                without_program = rest if first.startswith("jit(") and rest else origin
                yield (program, name), without_program


def _origin_of(instruction: bytes) -> str:
    for metadata in _held(instruction, INSTRUCTION_METADATA):
        for name in _held(metadata, METADATA_OP_NAME):
            return name.decode()
    return ""


def _origin_within(instruction: bytes, bodies: Mapping[int, list[bytes]]) -> str:
    """Return, for a fusion without an origin, that of its product or convolution, else of its last operator with one.

    XLA loses the origin of some operators that it rewrites: then the name of the operation is better than nothing.
    """
    inside = [inner for called in _calls_of(instruction) for inner in bodies.get(called, [])]
    heavy = [inner for inner in inside if _kind_of(inner) in HEAVY]
    if heavy:
        return _origin_of(heavy[-1]) or _kind_of(heavy[-1]).decode()
    for inner in reversed(inside):
        if origin := _origin_of(inner):
            return origin
    return ""


def _kind_of(instruction: bytes) -> bytes:
    return b"".join(_held(instruction, INSTRUCTION_KIND))


def _calls_of(instruction: bytes) -> list[int]:
    """Return the ids of the computations that an instruction calls: packed numbers, or one field each."""
    called: list[int] = []
    for kind, value in _fields(instruction):
        if kind != INSTRUCTION_CALLS:
            continue
        if isinstance(value, int):
            called.append(value)
            continue
        place = 0
        while place < len(value):
            number, place = _read_varint(value, place)
            called.append(number)
    return called


def _held(message: bytes, number: int) -> list[bytes]:
    """Return the values of all fields of this number that hold bytes: strings, bytes or nested messages."""
    return [value for field, value in _fields(message) if field == number and isinstance(value, bytes)]


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        number = key >> 3
        kind = key & 7
        if kind == VARINT:
            value, place = _read_varint(message, place)
            yield number, value
            continue
        if kind == WIRE_BYTES:
            length, place = _read_varint(message, place)
        elif kind in {FIXED_64, FIXED_32}:
            length = 8 if kind == FIXED_64 else 4
        else:
            raise ValueError(f"no field is of kind {kind}")
        if place + length > len(message):
            raise ValueError("a field reaches over the end")
        yield number, message[place : place + length]
        place += length


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place


# What ran on a device, as plain figures: the time in which any kernel ran, and the operator of each kernel.

COPY_EVENTS = ("memcpy", "memset")  # run by a card's copy engines; all frameworks use these names


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel or a copy; `cause` is the operator that launched it, if known."""

    name: str
    start_ns: float
    end_ns: float
    cause: str | None = None

    @property
    def is_kernel(self) -> bool:
        return not self.name.lower().startswith(COPY_EVENTS)


def sum_device(activities: Iterable[Activity]) -> DeviceSum:
    """Return how long any kernel ran, how many ran, and the sum of their times, in which overlapping ones all count."""
    kernels = [activity for activity in activities if activity.is_kernel]
    busy_ns = unite_ns((kernel.start_ns, kernel.end_ns) for kernel in kernels)
    return DeviceSum(busy_ns, len(kernels), sum(kernel.end_ns - kernel.start_ns for kernel in kernels))


def unite_ns(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the time that the intervals cover together."""
    covered = 0.0
    reached = float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            covered += end - max(start, reached)
            reached = end
    return covered


def overlap_ns(some: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    """Return the time that both cover."""
    return unite_ns(some) + unite_ns(others) - unite_ns([*some, *others])


def sum_operators(activities: Sequence[Activity], memory_bytes: Mapping[str, float] | None) -> tuple[OperatorSum, ...]:
    """Return the device's time by operator; a kernel without a known operator, as in a graph, keeps its own name.

    `memory_bytes` is the device memory that each operator allocated, which kernels do not report. Operators that only
    allocated memory are included. Without it, memory figures are missing.
    """
    times: dict[str, list[float]] = {}
    for activity in activities:
        times.setdefault(activity.cause or activity.name, []).append(activity.end_ns - activity.start_ns)
    taken = memory_bytes or {}
    for name in taken:
        times.setdefault(name, [])
    untold: float | Missing = PROFILER_TELLS_NOT if memory_bytes is None else 0.0
    return tuple(
        OperatorSum(name, "device", len(lengths), sum(lengths), taken.get(name, untold))
        for name, lengths in times.items()
    )
