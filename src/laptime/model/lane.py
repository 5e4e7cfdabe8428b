"""A lane is one competitor in a race: a framework, a device, and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Preset = Literal["as-written", "best", "fastest"]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Execution = Literal["eager", "compile", "graph", "compiled_graph"]
Layout = Literal["framework", "channels_last"]
Optimizer = Literal["framework", "fused"]
Malloc = Literal["system", "keep"]
Denormals = Literal["keep", "flush"]
Reads = Literal["at once", "deferred"]
Input = Literal["published", "fast", "cached", "resident", "one", "copy", "only"]

AS_WRITTEN: Preset = "as-written"
OF_TRAINING = " of "  # in a lane's name, before what it trains, where a race has several trainings
ON_NODES = " on "  # before the type of its nodes, where a race has each lane on several types
# Groups of inputs.
NO_TRAINING: tuple[Input, ...] = ("copy", "only")  # one stage alone: nothing is computed
READY: tuple[Input, ...] = ("cached", "resident", "one")  # kept batches: only the computing is left
KEPT: tuple[Input, ...] = (*READY, "copy")
FROM_FILES: tuple[Input, ...] = ("published", "fast", "only")
# How several devices share a step, as PyTorch calls it: each in a process with all weights, or with its share of them,
# or all in one process.
DATA_PARALLEL, SHARDED, SPLIT = "ddp", "fsdp", "dp"
RANKED = (DATA_PARALLEL, SHARDED)  # a process for each device


def parts_of(name: str) -> tuple[str, str]:
    """Return the lane in a lane's name, and the rest: what it trains, or on which nodes it is."""
    found = (name.find(mark) for mark in (OF_TRAINING, ON_NODES))
    place = min((each for each in found if each >= 0), default=len(name))
    return name[:place], name[place:]


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as the user wrote it: `[framework/]device[/setting+setting...]`, before settings are filled in.

    `overrides` holds the settings that were named individually, as (key, value) pairs.
    """

    framework: str
    device: str | None
    preset: Preset = AS_WRITTEN
    overrides: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a lane, filled in: the preset's values on this device, then the named settings.

    `joined` is how many batches of a user's own data make one step. `extra` holds settings that a row of
    `planner.settings.SETTINGS` adds and that have no field here.
    """

    preset: Preset = AS_WRITTEN
    precision: Precision = "fp32"
    execution: Execution = "eager"
    layout: Layout = "framework"
    optimizer: Optimizer = "framework"
    threads: int | None = None
    malloc: Malloc = "system"
    input: Input = "published"
    workers: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    steps_per_execution: int | None = None
    denormals: Denormals = "keep"
    reads: Reads = "at once"
    joined: int | None = None
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def is_compiled(self) -> bool:
        return self.execution in {"compile", "compiled_graph"}

    @property
    def is_captured(self) -> bool:
        """Whether a step, or an answer, is one CUDA graph."""
        return self.execution in {"graph", "compiled_graph"}

    def value_of(self, name: str) -> Any:
        """Return the value of a field or of an extra setting; None where an extra setting is not set."""
        return getattr(self, name, self.extra.get(name))
