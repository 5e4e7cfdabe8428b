"""What a check finds: devices that a framework cannot use, each with one cause, and what slows the host."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.frameworks import find_framework
from laptime.model.hardware import Peak
from laptime.model.machine import Machine
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
    """A matrix product on a device that a framework can use, and its share of the device's measured peak."""

    framework: str
    device: str
    label: str
    product: Peak | None
    share: float | Missing
    reason: str | None = None


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
