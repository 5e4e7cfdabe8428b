"""What a computer has, as far as anybody told us."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing

DeviceKind = Literal["cpu", "cuda", "mps", "xpu", "tpu"]


@dataclass(frozen=True, slots=True)
class Processor:
    """`cores_usable` is what this process may really use: affinity and container quota, in whole cores."""

    name: str
    architecture: str
    cores_visible: int
    cores_usable: int
    quota_cores: float | Missing
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """One device as one framework sees it. `features` names what it can do: bf16, tf32, fp16, graph, compile."""

    name: str
    kind: DeviceKind
    label: str
    usable: bool
    reason: str | None = None
    memory_bytes: int | Missing = field(default_factory=lambda: Missing("not reported"))
    features: tuple[str, ...] = ()
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Framework:
    """An installed framework; `devices` is empty until a scout has asked it, `problem` says why it cannot run.

    `notes` say what is odd about how it is installed.
    """

    name: str
    version: str
    versions: dict[str, str] = field(default_factory=dict)
    devices: tuple[Device, ...] = ()
    problem: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    processor: Processor
    memory_bytes: int
    memory_limit_bytes: int | Missing
    system: str
    python: str
    container: str | None
    frameworks: tuple[Framework, ...] = ()

    def framework(self, name: str) -> Framework | None:
        """Give the installed framework of that name, if there is one."""
        return next((each for each in self.frameworks if each.name == name), None)
