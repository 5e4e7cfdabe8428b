"""Which node the next heat of a lane gets, where each lane has nodes of one type: they take their rounds in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from laptime.model.fleet import FleetNode, NodeType
from laptime.model.launchers import Place
from laptime.model.plan import PlannedLane

Living = Callable[[Sequence[str]], Sequence[str]]


class Fleet:
    """The types of a cluster's nodes, and what each node is. `living` returns those of some nodes that are there."""

    def __init__(self, types: Sequence[NodeType], living: Living) -> None:
        self.types, self._living = tuple(types), living
        self.nodes: tuple[FleetNode, ...] = ()
        self._home: NodeType | None = None
        self._lost: set[str] = set()
        self._begun: Counter[str] = Counter()
        self._latest: dict[str, str] = {}

    def note(self, nodes: Sequence[FleetNode]) -> None:
        """Keep what was found out about each node. No heat runs on one that has a problem."""
        self.nodes = tuple(nodes)

    def first_of(self, kind: NodeType) -> FleetNode:
        """Return a node of a type, if possible one that can be used."""
        mine = [each for each in self.nodes if each.of == kind.name]
        return next((each for each in mine if each.problem is None), mine[0])

    def settle(self, kind: NodeType) -> None:
        """Let what belongs to no lane run on this type's nodes."""
        self._home = kind

    def place(self, place: Place, lane: PlannedLane | None) -> Place:
        """Return a place on the node whose turn it is."""
        kind = lane.where if lane is not None and lane.where is not None else self._home
        if kind is None:
            return place
        name = "" if lane is None else lane.name
        able = self._able(kind) or kind.nodes
        node = able[self._begun[name] % len(able)]
        self._begun[name] += 1
        self._latest[name] = node
        return replace(place, nodes=(node,), on=kind.name)

    def goes_on(self, lane: PlannedLane) -> bool:
        """Note that the node of a lane's latest heat is gone. Return whether its type has another one."""
        self._lost.add(self._latest.get(lane.name, ""))
        return lane.where is not None and bool(self._able(lane.where))

    def _able(self, kind: NodeType) -> tuple[str, ...]:
        bad = self._lost | {each.node for each in self.nodes if each.problem is not None}
        return tuple(node for node in self._living(kind.nodes) if node not in bad)
