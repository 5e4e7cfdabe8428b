"""What stands between a program and the devices: nodes that it may open, variables that hide them, the container."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.missing import Missing


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A file by which programs reach a driver. `mode` is as in chmod ("0660"), `may_open` is of this very process."""

    path: str
    mode: str
    owner: str
    group: str
    may_open: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`variables` are those that choose, hide or slow down devices, as they are set here; none that is not set.

    `virtual` names what the system itself runs in: "wsl", a hypervisor's name as the firmware tells it, or nothing
    where none is told. `filesystems` are the kinds of those on which folders lie that training data may be read from.
    """

    nodes: tuple[DeviceNode, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    shared_memory_bytes: int | Missing = field(default_factory=lambda: Missing("not looked at"))
    container: str | None = None
    virtual: str | None = None
    filesystems: dict[str, str] = field(default_factory=dict)
