"""What one process of a raced script sent, and where it was held."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laptime.analysis.script_process import SOME_MOST, ProcessReader, real, text, whole, whole_or_none
from laptime.engine.heat.script_work import read_work
from laptime.model.hardware import StepWork


@dataclass(frozen=True, slots=True)
class HeldScript:
    """The script is held at the end of an iteration. `idle_ns` of the time since `since_ns` was no work of it."""

    since_ns: int
    at_ns: int
    idle_ns: int
    loss: float | None
    device_bytes: int | None
    peak_bytes: int | None
    threads: int | None
    shapes: int
    redrawn: bool | None
    taken: int = 0  # steps that Keras's `fit` took so far
    lengths: tuple[float, ...] = ()  # of the weights' arrays, at the first holds
    work: StepWork | None = None  # what was computed since the last hold, if that was counted


class Visitor:
    """What one process sent. Its events wait until it is held: reading them must not disturb its windows."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self.reader = ProcessReader(hello)
        self.set: set[str] = set()
        self.not_set: dict[str, str] = {}  # settings that it cannot have: why not, in a word of the agent
        self.held: HeldScript | None = None
        self.is_counted = True  # whether its events are still iterations
        self.has_left = False
        self._events: list[bytes] = []

    @property
    def may_lead(self) -> bool:
        """Whether this process may be the one that is held: the others of a training wait for it by themselves."""
        return self.reader.hello.rank in {None, 0}

    def take_facts(self, facts: dict[str, Any]) -> None:
        if "held" in facts:
            for body in self._events:
                self.reader.take_events(body)
            self._events = []
            self.held = _read_held(facts)
        elif "has_set" in facts:
            self.set.add(text(facts["has_set"]))
        elif "not_set" in facts:
            self.not_set[text(facts["not_set"])] = text(facts.get("why"))
        else:
            self.reader.take_facts(facts)
            self.has_left = self.has_left or "is_leaving" in facts

    def take_events(self, body: bytes) -> None:
        if self.is_counted:
            self._events.append(body)


def _read_held(facts: Mapping[str, Any]) -> HeldScript:
    """Return a hold. Raise ValueError if it is none of an agent's."""
    since_ns, at_ns, idle_ns = (whole(facts.get(name)) for name in ("since_ns", "at_ns", "idle_ns"))
    if not since_ns + idle_ns <= at_ns <= now_ns():
        raise ValueError("a hold at a time that cannot be")
    loss = facts.get("loss")
    lengths = facts.get("lengths") or []
    if not isinstance(lengths, list) or len(lengths) > SOME_MOST:
        raise ValueError("lengths that no agent sends")
    return HeldScript(
        since_ns,
        at_ns,
        idle_ns,
        loss=None if loss is None else float(loss),  # one that is not finite comes as a text
        device_bytes=whole_or_none(facts.get("device_bytes")),
        peak_bytes=whole_or_none(facts.get("peak_bytes")),
        threads=whole_or_none(facts.get("threads")),
        shapes=whole(facts.get("shapes")),
        redrawn=facts.get("redrawn") if isinstance(facts.get("redrawn"), bool) else None,
        taken=whole_or_none(facts.get("taken")) or 0,
        lengths=tuple(real(length) for length in lengths),
        work=None if facts.get("work") is None else read_work(facts["work"]),
    )


def now_ns() -> int:
    """Return the time on the clock of the agents."""
    return time.monotonic_ns()
