"""What the settings of a lane depend on: where it runs, and what it trains."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.frameworks import FrameworkRow, find_framework
from laptime.model.machine import Device, Machine
from laptime.model.network import Conv, Dropout
from laptime.model.plan import OwnTraining
from laptime.model.workload import Workload


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What settings depend on in the subject. `own` is what a user's function returned, if it was called.

    `data_is_given` is true where real data is named, and none are made.
    """

    workload: Workload | None
    reads_images: bool = True
    own: OwnTraining | None = None
    name: str = ""
    gives_step: bool = False
    data_is_given: bool = False

    @property
    def may_convolve(self) -> bool:
        return self.workload is None or any(isinstance(layer, Conv) for layer in self.workload.layers)

    @property
    def may_drop(self) -> bool:
        return self.workload is None or any(isinstance(layer, Dropout) for layer in self.workload.layers)

    @property
    def reads_files(self) -> bool:
        return self.workload is not None and self.workload.reads_files


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """Everything that a lane's settings depend on: where it runs, and what it trains."""

    framework: str
    device: Device
    machine: Machine
    subject: SubjectFacts
    devices: tuple[Device, ...] = ()  # all, of a lane on several
    group: str = ""  # the name of these
    spread: tuple[int, ...] = ()  # how many of these are on each of several nodes

    @property
    def cores(self) -> int:
        """How many cores one process may use: on a processor, the processes of a group share those of a node out."""
        share = self.most_on_a_node if self.devices and self.on_processor and self.row.spreads == "ranks" else 1
        return self.machine.processor.cores_usable // share

    @property
    def free_cores(self) -> int:
        """How many of these no other process fills; a group shares out all of them."""
        return self.cores if self.devices else max(1, self.cores - self.machine.cores_taken)

    @property
    def most_on_a_node(self) -> int:
        """How many of its devices are on one node, at most."""
        return max(self.spread, default=len(self.devices))

    @property
    def row(self) -> FrameworkRow:
        return find_framework(self.framework)

    @property
    def workload(self) -> Workload | None:
        return self.subject.workload

    @property
    def on_processor(self) -> bool:
        return self.device.kind == "cpu"
