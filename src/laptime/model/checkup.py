"""What a doctor finds: which device a framework cannot use and for which one cause, and what else slows a machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.limits import Peak
from laptime.model.machine import Machine
from laptime.model.missing import Missing

CARD_NOT_SEEN = "card not seen"  # the rule by which a race tells of a complaint


@dataclass(frozen=True, slots=True)
class Complaint:
    """One device that one framework cannot use, or one thing around them that is amiss.

    `cause` is a short name that other programs may rely on, `command` the line to type (several are joined by " && ").
    """

    about: str
    cause: str
    says: str
    command: str
    evidence: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trial:
    """A real product of matrices on a device that a framework can use, and its share of the device's measured peak."""

    framework: str
    device: str
    label: str
    product: Peak | None
    share: float | Missing
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Checkup:
    """A machine as the doctor saw it. `unused` are devices that exist and that a framework cannot use."""

    machine: Machine
    trials: tuple[Trial, ...]
    unused: tuple[Complaint, ...]
    around: tuple[Complaint, ...]

    @property
    def is_well(self) -> bool:
        """Tell whether every device that is here can be used by every framework that has a build for such."""
        return not self.unused and all(each.reason is None for each in self.trials)
