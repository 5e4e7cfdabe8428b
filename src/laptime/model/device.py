"""One device as one framework sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing

DeviceKind = Literal["cpu", "cuda", "mps", "xpu", "tpu"]


@dataclass(frozen=True, slots=True)
class Device:
    """One device as one framework sees it. `features` names what it supports: bf16, tf32, fp16, graph, compile."""

    name: str
    kind: DeviceKind
    label: str
    usable: bool
    reason: str | None = None
    memory_bytes: int | Missing = field(default_factory=lambda: Missing("not reported"))
    features: tuple[str, ...] = ()
    details: dict[str, str] = field(default_factory=dict)
