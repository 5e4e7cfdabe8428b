"""What a check finds: devices that a framework cannot use, each with one cause, and what slows the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

from laptime.model.frameworks import find_framework
from laptime.model.hardware import Peak
from laptime.model.machine import DeviceKind, HostEnvironment, Machine, Use
from laptime.model.quantities import Missing

CARD_NOT_SEEN = "card not seen"  # the rule of the finding by which a race reports a problem


@dataclass(frozen=True, slots=True)
class Problem:
    """One device that one framework cannot use, or one thing on the host that slows trainings.

    `cause` is a short name that other programs may rely on, `command` the line to type (several are joined by " && ").
    """

    about: str
    cause: str
    says: str
    command: str
    evidence: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceTest:
    """A matrix product on a device that a framework can use, and its share of the device's measured peak.

    `others_cores` is what other processes took of the cores meanwhile, and with `is_slowed` that was much: the rate is
    then lower than what the device can do.
    """

    framework: str
    device: str
    label: str
    product: Peak | None
    share: float | Missing
    reason: str | None = None
    others_cores: float | Missing = field(default_factory=lambda: Missing("nobody looked"))
    is_slowed: bool = False


class DeviceRow(TypedDict):
    """One device of one framework; hardware, of no framework (kind "processor" or "card"); or one that cannot run (kind
    "framework"). `limits` are what was measured, or why not, `users` the framework devices that are a card.
    """

    framework: str | None
    version: str | None
    notes: tuple[str, ...]
    kind: DeviceKind | Literal["framework", "processor", "card"]
    name: str | Missing
    usable: bool
    reason: str | None
    # Of a framework's device.
    label: NotRequired[str]
    features: NotRequired[tuple[str, ...]]
    details: NotRequired[dict[str, str]]
    card: NotRequired[dict[str, Any] | None]
    limits: NotRequired[dict[str, Any]]
    # Of a device, the processor or a card.
    memory_bytes: NotRequired[int | Missing]
    # Of the processor.
    architecture: NotRequired[str]
    cores_visible: NotRequired[int]
    cores_usable: NotRequired[int]
    quota_cores: NotRequired[float | Missing]
    core_score: NotRequired[float | None]
    memory_limit_bytes: NotRequired[int | Missing]
    use: NotRequired[Use | None]
    surroundings: NotRequired[HostEnvironment | None]
    absent: NotRequired[dict[str, Missing]]
    container: NotRequired[str | None]
    # Of a card, next to all that `Card` has.
    uuid: NotRequired[str | Missing]
    bus: NotRequired[str | Missing]
    driver: NotRequired[str | Missing]
    memory_used_bytes: NotRequired[int | Missing]
    parent: NotRequired[str | None]
    maker: NotRequired[str]
    computes: NotRequired[bool]
    users: NotRequired[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Checkup:
    """A machine and all that was found. `unused` lists devices that exist but that a framework cannot use."""

    machine: Machine
    trials: tuple[DeviceTest, ...]
    unused: tuple[Problem, ...]
    around: tuple[Problem, ...]

    @property
    def is_well(self) -> bool:
        """Whether there is a framework, and every device can be used by every one that has a build for it."""
        named = any(not find_framework(framework.name).is_opaque for framework in self.machine.frameworks)
        tried = all(trial.reason is None for trial in self.trials)
        return bool(self.trials or named) and not self.unused and tried
