"""Launchers: what starts the processes of a race, here or on a cluster.

    Launcher.start -> AnyChild          local: a Child; on a cluster: a RemoteChild, which is the same to its runner
      Cluster.submit -> Submission      Ray and Slurm differ only in how an agent (laptime.run.node) gets its place

The parent listens (`meeting`), an agent connects from its node, starts a usual Child there and relays (`node`,
`remote`; `spread` where a lane's devices are on several nodes). Decision 30 says why. Without --on nothing of this is
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, util
from typing import Any, Protocol

from laptime.errors import UsageError
from laptime.model.fleet import NodeType
from laptime.model.installation import install_command
from laptime.model.launchers import LauncherRow, Place, find_launcher
from laptime.model.machine import NodeRoom
from laptime.model.plan import PlannedLane
from laptime.run.child import AnyChild, Child
from laptime.run.fleet import Fleet
from laptime.run.meeting import Meeting

Tell = Callable[[str], None]


class Launcher(Protocol):
    """Starts children. `is_elsewhere`: not on this machine, whose memory and instruments say nothing of them.

    `fleet` is set where each lane has nodes of one type.
    """

    is_elsewhere: bool
    fleet: Fleet | None

    def start(self, environment: dict[str, str], lane: PlannedLane | None = None) -> AnyChild:
        """Start a child for a lane, or one that only answers a question."""

    def why_alone(self, lanes: Sequence[PlannedLane]) -> str | None:
        """Return why the heats of these lanes cannot all be alive at once, or None."""

    def report_to(self, tell: Tell) -> None:
        """Say from now on with `tell` what is waited for."""

    def close(self) -> None:
        """End what is left of all that was started, also what waits for its turn."""


class LocalLauncher:
    """Starts children on this machine."""

    is_elsewhere = False
    fleet: Fleet | None = None

    def start(self, environment: dict[str, str], _lane: PlannedLane | None = None) -> AnyChild:
        return Child(environment)

    def why_alone(self, _lanes: Sequence[PlannedLane]) -> str | None:
        return None

    def report_to(self, _tell: Tell) -> None:
        """Do nothing: nothing is waited for."""

    def close(self) -> None:
        """Do nothing: each child is ended by its runner."""


LOCAL = LocalLauncher()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A launcher that was asked for: the word of --on, what its scouts need, and how long things may take.

    No place is waited for longer than `patience_s`. `most_s` is for how long an agent may keep its place.
    """

    word: str
    scouts: Place
    patience_s: float
    most_s: float


class Submission(Protocol):
    """An agent that waits for its place, or is there."""

    def problem(self) -> str | None:
        """Return why the agent will not come any more, or None."""

    def give_back(self) -> None:
        """Let others have its place: its child has ended, and the agent is about to."""

    def cancel(self) -> None:
        """End it, wherever it is."""


class Cluster(Protocol):
    """What gives places to agents: one class for each row of LAUNCHERS, made with what is `Wanted`.

    `address` is that of this machine, as the nodes see it. `secret` is what its nodes know before the race begins, or
    empty: then one is made, which each agent gets as it is submitted.
    """

    address: str
    secret: str

    def open(self, meeting: Meeting) -> None:
        """Take note of where agents will come to, before the first is submitted."""

    def rooms(self) -> tuple[NodeRoom, ...]:
        """Return the nodes over which a lane can be spread; none if a lane has to be on one node."""

    def submit(self, words: list[str], secret: str, place: Place) -> Submission:
        """Have `python WORDS...` run in such a place, with the secret in its environment."""

    def submit_apart(self, words: list[list[str]], secret: str, places: Sequence[Place]) -> list[Submission]:
        """The same for several agents at once, each on a node of its own."""

    def why_alone(self, places: Sequence[Place]) -> str | None:
        """Return why these places cannot all be had at once, or None."""

    def find_types(self, each: str) -> tuple[NodeType, ...]:
        """Return the types of the nodes that are there, by a label or a resource. Refuse one that no node has."""

    def living(self, nodes: Sequence[str]) -> Sequence[str]:
        """Return those of some nodes that are there."""

    def close(self) -> None:
        """Leave the cluster."""


def open_cluster(wanted: Wanted) -> Cluster:
    """Reach the cluster that --on names. Raise UsageError if its package is not installed."""
    row = find_launcher(wanted.word)
    assert row is not None
    _refuse_missing(row)
    module, _, name = row.cluster.partition(":")
    make: Any = getattr(import_module(module), name)
    made: Cluster = make(wanted)
    return made


def _refuse_missing(row: LauncherRow) -> None:
    if util.find_spec(row.module) is None:
        raise UsageError(f"--on {row.word}: the package {row.module} is not installed", install_command(row.extra))
