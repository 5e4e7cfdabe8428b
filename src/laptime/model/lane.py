"""A lane is who races: a framework, a device, and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Preset = Literal["as-written", "best", "fastest"]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Execution = Literal["eager", "compile", "graph"]
Layout = Literal["framework", "channels_last"]
Optimizer = Literal["framework", "fused"]
Malloc = Literal["system", "keep"]
Denormals = Literal["keep", "flush"]
Reads = Literal["at once", "deferred"]
Input = Literal["published", "fast", "cached", "resident", "one", "copy", "only"]

AS_WRITTEN: Preset = "as-written"
NO_TRAINING = ("copy", "only")  # inputs of lanes that have one stage alone, and compute nothing


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as the user wrote it: `[framework/]device[/setting+setting...]`, with nothing filled in yet.

    `overrides` holds the settings that were named one by one, as (key, value) pairs.
    """

    framework: str
    device: str | None
    preset: Preset = AS_WRITTEN
    overrides: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a lane, filled in: what the preset gives on this device, then what was named.

    `joined` is of a training of somebody's own, whose batches are not ours to make: so many of them are one step's.
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
