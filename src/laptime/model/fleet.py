"""Nodes of several types: where the same lane races once on each type (`--each`)."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.machine import Machine


@dataclass(frozen=True, slots=True)
class NodeType:
    """One type of nodes: all those with this `value` of a `label`, or with a resource of that name (no `label`).

    `nodes` are the cluster's own names of them. They are replicates: rounds go to them in turn.
    """

    label: str | None
    value: str
    nodes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.value if self.label is None else f"{self.label}={self.value}"


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A node of a fleet, by the cluster's own name of it. `of` is the name of its type.

    `machine` is what it has, with what its drivers say; `problem` is why no heat runs on it.
    """

    node: str
    of: str
    host: str | None = None
    machine: Machine | None = None
    problem: str | None = None
