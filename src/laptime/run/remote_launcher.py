"""Children on the nodes of a cluster: have an agent submitted for each, and give the child that it will relay."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from laptime.errors import LaneError, WireError
from laptime.model.fleet import FleetNode
from laptime.model.launchers import Place, largest_of, place_of
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.run.child import refuse_within_a_heat
from laptime.run.fleet import Fleet
from laptime.run.launchers import Cluster, Submission, Tell, Wanted, open_cluster
from laptime.run.meeting import Awaited, Meeting
from laptime.run.remote import LOOK_S, RemoteChild, Request, Waiting
from laptime.run.spread import SpreadChild
from laptime.run.starting import agent_words

LEAVE_S = 5.0
FORWARDED = ("LAPTIME_FAKE",)
A_LOOK = "a look at a node"


class RemoteLauncher:
    """Has each child started by an agent on a cluster."""

    is_elsewhere = True

    def __init__(self, wanted: Wanted) -> None:
        refuse_within_a_heat()
        self.fleet: Fleet | None = None
        self._wanted = wanted
        self._cluster: Cluster = open_cluster(wanted)
        self._tell: Tell = lambda _note: None
        self._submitted: list[Submission] = []
        with ExitStack() as opened:
            opened.callback(self._cluster.close)
            self._meeting = Meeting(self._cluster.address, self._cluster.secret)
            opened.callback(self._meeting.close)
            self._cluster.open(self._meeting)
            self._rooms = self._cluster.rooms()
            opened.pop_all()

    def start(self, environment: dict[str, str], lane: PlannedLane | None = None) -> RemoteChild:
        if lane is not None and lane.spread:
            return self._start_apart(environment, lane)
        place = largest_of(self._wanted.scouts, self._rooms) if lane is None else place_of(lane)
        if self.fleet is not None:
            place = self.fleet.place(place, lane)
        return self._start(environment, place, lane.name if lane else A_LOOK)

    def _start(self, environment: dict[str, str], place: Place, name: str) -> RemoteChild:
        awaited = self._meeting.expect()
        submission = self._cluster.submit(self._words(awaited), self._meeting.secret, place)
        return RemoteChild(self._wait_for(awaited, submission, name, place), _forwarded() | environment)

    def _start_apart(self, environment: dict[str, str], lane: PlannedLane) -> SpreadChild:
        """Start a process on each node over which a lane is spread: the first of them leads the others."""
        places = [place_of(lane, count) for count in lane.spread]
        awaited = [self._meeting.expect() for _ in places]
        submitted = self._cluster.submit_apart(list(map(self._words, awaited)), self._meeting.secret, places)
        first, *others = [
            self._wait_for(one, submission, lane.name, place)
            for one, submission, place in zip(awaited, submitted, places, strict=True)
        ]
        told = _forwarded() | environment
        return SpreadChild(first, told, [RemoteChild(each, told, is_spread=True) for each in others], lane)

    def _words(self, awaited: Awaited) -> list[str]:
        return agent_words(self._meeting.address, self._meeting.port, awaited.ticket)

    def _wait_for(self, awaited: Awaited, submission: Submission, name: str, place: Place) -> Waiting:
        self._submitted = [each for each in self._submitted if each.problem() is None]
        self._submitted.append(submission)
        request = Request(name, place, self._wanted.word, self._tell, self._wanted.patience_s)
        return Waiting(self._meeting, awaited, submission, request)

    def look(self) -> Machine:
        """Describe a node as those on which the lanes will run."""
        child = self.start({})
        try:
            return replace(child.look_around(self._wanted.patience_s), nodes=self._rooms)
        except WireError as error:
            raise LaneError(f"--on {self._wanted.word}: {error.says}", error.hint) from error
        finally:
            child.abandon()

    def look_at_each(self, each: str) -> Fleet:
        """Find the types of the cluster's nodes, and describe all nodes that have one."""
        fleet = Fleet(self._cluster.find_types(each), self._cluster.living)
        deadline = time.monotonic() + self._wanted.patience_s
        asked = [
            (kind, node, self._start({}, replace(self._wanted.scouts, nodes=(node,), on=kind.name), A_LOOK))
            for kind in fleet.types
            for node in kind.nodes
        ]
        try:
            fleet.note([_look(FleetNode(node, kind.name), child, deadline) for kind, node, child in asked])
        finally:
            for _, _, child in asked:
                child.abandon()
        self.fleet = fleet
        return fleet

    def why_alone(self, lanes: Sequence[PlannedLane]) -> str | None:
        return self._cluster.why_alone([place_of(lane) for lane in lanes])

    def report_to(self, tell: Tell) -> None:
        self._tell = tell

    def close(self) -> None:
        """Leave the cluster. Agents end as their children do, so they are given a moment first."""
        self._meeting.close()
        deadline = time.monotonic() + LEAVE_S
        for submission in self._submitted:
            while submission.problem() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            submission.cancel()
        self._cluster.close()


def _look(node: FleetNode, child: RemoteChild, deadline: float) -> FleetNode:
    """Return a node with its description, or with why it has none. Its place is free afterwards."""
    try:
        machine = child.look_around(max(deadline - time.monotonic(), LOOK_S), drivers=True)
        return replace(node, host=child.node, machine=machine)
    except WireError as error:
        return replace(node, host=child.node, problem=error.says)
    finally:
        child.abandon()


def _forwarded() -> dict[str, str]:
    return {name: os.environ[name] for name in FORWARDED if name in os.environ}
