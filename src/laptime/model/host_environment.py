"""What is between a program and the devices: device nodes, variables that hide devices, the container."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.missing import Missing


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A file by which programs reach a driver. `mode` is as in chmod ("0660"); `may_open` is about this process."""

    path: str
    mode: str
    owner: str
    group: str
    may_open: bool


@dataclass(frozen=True, slots=True)
class HostEnvironment:
    """`variables` are those that choose, hide or slow down devices; only variables that are set here are listed.

    `virtual` names what the system itself runs in: "wsl", or a hypervisor's name as the firmware reports it; None where
    neither is known. `filesystems` holds the file system type of each folder that training data may be read from.
    """

    nodes: tuple[DeviceNode, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    shared_memory_bytes: int | Missing = field(default_factory=lambda: Missing("not looked at"))
    container: str | None = None
    virtual: str | None = None
    filesystems: dict[str, str] = field(default_factory=dict)
