"""What JAX's and TensorFlow's profilers share: planes of lines of events, told as operators and as a Chrome trace.

A plane is a processor or a card, a line one of its threads or streams. Nothing here knows the file that they come in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from laptime.backends.hlo import Origins
from laptime.backends.kernels import Activity, sum_device, sum_operators
from laptime.model.missing import Missing
from laptime.model.profile import DeviceSum, Observed, OperatorSum

ON_PROCESSOR = Missing("this lane computes on the processor")
NOTHING_TOLD = Missing(
    "the profiler told of no kernel: another tool may hold the card's profiling interface, or the driver refuses it"
)
NO_MEMORY = Missing("this profiler does not tell it by operator; XLA takes it for a whole step at once")
CARDS = re.compile(r"^/device:(?:GPU|TPU|CUSTOM)")
OF_CARDS = re.compile(r"^(?:Stream|XLA Ops$)")  # a GPU's streams as they ran; a TPU tells its operators in one line
FACTS = ("hlo_op", "tf_op")  # by which an event names the operator that it computes
ORIGIN = "origin"  # ours: where in the user's code it stands
# How TensorFlow names an operator on the processor: where it stands in the graph, and its kind.
TYPED = re.compile(r"^(?:StatefulPartitionedCall/)*(?P<name>[\w./\-]+):_?(?P<type>[A-Z]\w*)$")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took a while; `facts` is what the framework says of it."""

    name: str
    start_ns: float
    duration_ns: float
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def end_ns(self) -> float:
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Plane:
    name: str
    lines: tuple[Line, ...]


def observe(planes: Sequence[Plane], *, on_card: bool) -> Observed:
    """Tell operators by their own time, and what a card did beside the processor."""
    ran = list(list_activities(planes))
    device: DeviceSum | Missing = ON_PROCESSOR
    if on_card:
        device = sum_device(ran) if ran else NOTHING_TOLD
    notes = (device.missing,) if on_card and isinstance(device, Missing) else ()
    return Observed((*host_operators(planes), *sum_operators(ran, None)), device, notes)


def name_origins(planes: Iterable[Plane], origins: Origins) -> tuple[Plane, ...]:
    """Give the planes with the place in the user's code beside each of XLA's operators."""
    return tuple(
        Plane(
            plane.name,
            tuple(Line(line.name, tuple(_placed(each, origins) for each in line.events)) for line in plane.lines),
        )
        for plane in planes
    )


def _placed(event: Event, origins: Origins) -> Event:
    facts = event.facts
    program = f"{facts.get('hlo_module')}({facts.get('program_id')})"
    origin = origins.get((program, str(facts.get("hlo_op"))))
    return event if origin is None else replace(event, facts={**facts, ORIGIN: origin})


def host_operators(planes: Iterable[Plane]) -> tuple[OperatorSum, ...]:
    """Add up each operator's own time over all threads; what a runtime does between operators is none."""
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


def operator_of(event: Event) -> str:
    """Give the name of the operator that an event computes; nothing, where it computes none."""
    for fact in FACTS:
        if event.facts.get(fact):
            origin = event.facts.get(ORIGIN)
            return f"{event.facts[fact]} ({origin})" if origin else str(event.facts[fact])
    typed = TYPED.match(event.name)
    return f"{typed['type']} {typed['name']}" if typed else ""


def own_times(events: Sequence[Event]) -> Iterator[tuple[Event, float]]:
    """Give each event of one thread with its time less that of the events within it."""
    open_: list[tuple[Event, list[float]]] = []
    for event in sorted(events, key=lambda each: (each.start_ns, -each.duration_ns)):
        while open_ and open_[-1][0].end_ns <= event.start_ns:
            yield _closed(open_.pop())
        if open_:
            open_[-1][1].append(min(event.end_ns, open_[-1][0].end_ns) - event.start_ns)
        open_.append((event, []))
    while open_:
        yield _closed(open_.pop())


def _closed(entry: tuple[Event, list[float]]) -> tuple[Event, float]:
    event, inside = entry
    return event, max(0.0, event.duration_ns - sum(inside))


def list_activities(planes: Iterable[Plane]) -> Iterator[Activity]:
    """Give what ran on cards, each with the operator that it belongs to."""
    for plane in planes:
        if not CARDS.match(plane.name):
            continue
        for line in plane.lines:
            if OF_CARDS.match(line.name):
                for each in line.events:
                    yield Activity(each.name, each.start_ns, each.end_ns, operator_of(each) or None)


def chrome_trace(planes: Iterable[Plane]) -> dict[str, Any]:
    """Give the planes as Chrome's trace events: a process a plane, a thread a line, times in microseconds."""
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


def _event(event: Event, process: int, thread: int, begins_ns: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": event.name,
        "pid": process,
        "tid": thread,
        "ts": (event.start_ns - begins_ns) / 1e3,
        "dur": event.duration_ns / 1e3,
        "args": {name: str(value) for name, value in event.facts.items()},
    }
