"""What will run, decided before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from laptime.model.ask import Ask, DataSource
from laptime.model.frameworks import FleetNode, FrameworkRow, NodeType, find_framework
from laptime.model.machine import Device, NodeRoom
from laptime.model.process import RANKED, Settings
from laptime.model.secrets import hide, list_secrets, mask_secrets
from laptime.model.workload import ProofPlan

OwnKind = Literal["torch", "keras", "step", "other"]
SET_IN_ITS_DATA = "set the batch in its own data, and race two functions"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is trained: a built-in workload by name, a user's `file.py:function`, or the `command` of a script.

    `written_for` is keras, jax, torch or python, and `gives_step` whether a step function is returned, as far as the
    text of the user's file shows it.
    """

    name: str
    title: str
    parameters: int | None
    batch: int | None
    steps_per_lap: int | None
    laps: int | None
    items: str
    file: str | None = None
    function: str | None = None
    optimizer: str | None = None
    loss: str | None = None
    written_for: str | None = None
    gives_step: bool = False
    command: tuple[str, ...] = ()

    @property
    def is_built_in(self) -> bool:
        return self.file is None and not self.command

    def without_secrets(self) -> Subject:
        title = hide(self.title, list_secrets(self.command))
        return replace(self, title=title, command=mask_secrets(self.command))


@dataclass(frozen=True, slots=True)
class OwnBatches:
    """Whether a user's own batches can be made larger and smaller, and if not, why: the one rule of all questions.

    `batch` are the items of one, and `lap_items` those of a lap, where these are known.
    """

    uncut: str
    batch: int | None = None
    lap_items: int | None = None

    def why_not(self, batch: int) -> str | None:
        """Return why a batch cannot have this many items, or None."""
        if self.uncut:
            return self.uncut
        if self.lap_items is not None and batch > self.lap_items:
            return f"a lap of it has {self.lap_items:,} items"
        return None

    @staticmethod
    def refusal(batch: str, name: str, why: str) -> tuple[str, str]:
        """Return what was given, why it cannot be, and the way out: the same words wherever a batch is refused."""
        return f"batch={batch}: the batches of {name} cannot be changed: {why}", SET_IN_ITS_DATA


@dataclass(frozen=True, slots=True)
class OwnTraining:
    """What a user's function returned, as far as it decides which lanes can run it.

    `kind` is the framework of its model, or `step` for a step function. `data` is the type of its data, and
    `takes_workers` says whether worker processes can load these, and `has_workers` whether these are a DataLoader of
    PyTorch's that has some. `batches` says whether laptime can set their batch.
    """

    kind: OwnKind
    data: str
    takes_workers: bool
    batches: OwnBatches
    has_fence: bool
    has_workers: bool = False


@dataclass(frozen=True, slots=True)
class PlannedLane:
    """A lane with every setting filled in, and the environment variables of its process.

    `training` is what it trains in a race of several trainings. Elsewhere it is the plan's subject, and None here.
    `devices` are all devices of a lane that is on several (or on a group of one); `device` is the first of them. On a
    processor, each has a share of the cores. `where` is the type of nodes of a cluster on which it runs, if it matters.
    `spread` is how many of its devices are on each of several nodes; it is empty where all are on one. `writes` are the
    files that its processes may write to where they are in a sandbox.
    """

    name: str
    framework: str
    device: Device
    settings: Settings
    environment: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    training: Subject | None = None
    devices: tuple[Device, ...] = ()
    where: NodeType | None = None
    spread: tuple[int, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def row(self) -> FrameworkRow:
        """Its framework's row. In records and over the wire, a lane has the name."""
        return find_framework(self.framework)

    @property
    def items(self) -> int | None:
        """How many items are made for this lane; None where it reads those of the plan."""
        named = self.settings.value_of("items")
        return None if named is None else int(named)

    @property
    def computes_on(self) -> tuple[Device, ...]:
        return self.devices or (self.device,)

    @property
    def shares(self) -> int:
        """Into how many parts a batch is cut, each of which the network sees alone."""
        return len(self.devices) if self.settings.value_of("parallel") is not None else 1

    @property
    def is_ranked(self) -> bool:
        """Whether it has a process for each of its devices."""
        return bool(self.devices) and self.settings.value_of("parallel") in RANKED

    @property
    def may_fork(self) -> bool:
        """Whether its heats may be forked: in one process, on a device where the framework bears it."""
        forks_on = self.row.forks_on
        return bool(forks_on) and not self.is_ranked and all(device.kind in forks_on for device in self.computes_on)

    def seat_of(self, rank: int) -> tuple[int, int]:
        """Return which of the processes on its node a rank is, and how many these are."""
        counts = self.spread or (len(self.devices),)
        before = 0
        for count in counts:
            if rank < before + count:
                return rank - before, count
            before += count
        raise ValueError(f"rank {rank} of {self.name}")

    @property
    def batches_a_step(self) -> int:
        """How many batches, as they are written, make one step: several where each device has its own."""
        return len(self.devices) if self.devices and self.settings.value_of("scaling") == "weak" else 1


NODE_ADDRESS = "LAPTIME_NODE_ADDRESS"  # set by an agent: the address by which other nodes find its heat
RANKS_SECRET = "LAPTIME_RANKS_SECRET"  # noqa: S105  set by an agent, if ranks on several nodes have to meet


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One process of a lane that several train together: its `rank` `of` all, and where they meet.

    `address` is host:port of the first rank. `meeting_fd` is the socket on which the first rank listens there. Ranks on
    other nodes find it at `links`. They know the same secret from the agents of their nodes (`RANKS_SECRET`).
    """

    rank: int
    of: int
    address: str
    meeting_fd: int | None = None
    links: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many heats, and how long each: `heats_max` are run unless the margin or the budget ends the race before.

    Where a heat `takes_turns` with those of other lanes, a window is one turn. A heat of a script ends after
    `steps_most` timed steps, if that is set. `known_step_ns` is how long a step took in an earlier heat of the lane:
    then no steps are spent on an estimate. Heats that take turns go on to step `reach_step`, if that does not take far
    longer. With `shares_steps`, all of them time the same steps, however fast they are.
    """

    heats_min: int
    heats_max: int
    adaptive: bool
    measure_s: float
    window_s: float
    windows_min: int = 5
    reruns_max: int = 3
    takes_turns: bool = False
    steps_most: int | None = None
    known_step_ns: float | None = None
    reach_step: int = 0
    shares_steps: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All decisions. `others` are further trainings of a race, whose lanes name theirs.

    `data` is what lanes read, and `sets` what those lanes read that name a number of items, by that number.
    `kept_batches` holds, for each training of a user's own, the file with the batches of its proof. `alone` is why
    heats run one after another; else those of a round take turns. `nodes` are those of a fleet.
    """

    ask: Ask
    subject: Subject
    lanes: tuple[PlannedLane, ...]
    proof: ProofPlan
    pace: Pace
    notes: tuple[str, ...] = ()
    data: DataSource | None = None
    sets: dict[int, DataSource] = field(default_factory=dict)
    kept_batches: dict[str, str] = field(default_factory=dict)
    alone: str | None = None
    others: tuple[Subject, ...] = ()
    nodes: tuple[FleetNode, ...] = ()

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """All that is trained."""
        return (self.subject, *self.others)

    def without_secrets(self) -> Plan:
        """Return the plan as a record keeps it and a page shows it: no word of a command looks like a secret."""
        if not self.ask.command:
            return self
        return replace(
            self,
            ask=replace(self.ask, command=mask_secrets(self.ask.command)),
            subject=self.subject.without_secrets(),
            others=tuple(subject.without_secrets() for subject in self.others),
            lanes=tuple(
                lane if lane.training is None else replace(lane, training=lane.training.without_secrets())
                for lane in self.lanes
            ),
        )

    def subject_of(self, lane: PlannedLane) -> Subject:
        """Return what a lane trains."""
        return lane.training or self.subject

    def data_of(self, lane: PlannedLane) -> DataSource | None:
        """Return what a lane reads from disk."""
        return self.data if lane.items is None else self.sets.get(lane.items)


@dataclass(frozen=True, slots=True)
class HeatOrder:
    """All that a child needs to know to run one heat.

    `seed` draws weights, order and dropout; it also draws the data made in memory, unless there is a `data_seed`.
    `test_items` is how many items the whole training tests: after the windows, the heat evaluates enough of them to
    estimate the time for all. With `census`, the heat then counts denormal numbers, and with `breakdown` it takes some
    steps apart. `kept_batches` is the file to
    which the reference writes the proof's batches, and from which every lane reads them. `place` is set in each process
    of a lane that several train together. With `profiles_exchange`, its first rank then profiles the collectives of
    some steps. A reference for lanes on several devices cuts its batches into `shares`, where the network computes over
    a batch. `versions` are those that each node of a cluster has to have; elsewhere it is empty. `first_losses` are
    those of the lane's heat that was proven: one that repeats them needs no proof. If they are empty, the heat is the
    one to be proven; if they are None, each heat is. A script has to begin its training within `seen_within_s`, and
    with `counts_work`, one of its iterations is counted after the windows, operator by operator. With `replays`, a turn
    of it may be taken again, and with `is_fresh` its seed is new to everybody, so that it repeats no proven heat.
    """

    subject: Subject
    lane: PlannedLane
    seed: int
    proof: ProofPlan
    pace: Pace
    number: int = 0
    pretrained: bool = False
    data: DataSource | None = None
    data_seed: int | None = None
    test_items: int = 0
    breakdown: bool = False
    census: bool = False
    kept_batches: str | None = None
    place: RankPlace | None = None
    shares: int = 1
    profiles_exchange: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    first_losses: tuple[float, ...] | None = None
    seen_within_s: float | None = None
    counts_work: bool = False
    replays: bool = False
    is_fresh: bool = False

    @property
    def counts_step(self) -> bool:
        """Whether its reference counts a step: built-in trainings have known layers, and cut batches compute alike."""
        return not self.subject.is_built_in and self.shares == 1


# LAUNCHERS: where the heats of a race may run. One row for each word that --on knows; without --on they run here.


@dataclass(frozen=True, slots=True)
class LauncherRow:
    """`cluster` is "module:class" of what submits the agents, `module` the package that it needs, from an `extra`.

    With `takes_address`, the word may be an address: ray://host:10001.
    """

    word: str
    cluster: str
    module: str
    extra: str
    takes_address: bool = False


LAUNCHERS = (
    LauncherRow("ray", "laptime.engine.run.on_ray:RayCluster", "ray", "ray", takes_address=True),
    LauncherRow("slurm", "laptime.engine.run.on_slurm:SlurmCluster", "submitit", "slurm"),
    LauncherRow("slurm:local", "laptime.engine.run.on_slurm:SlurmCluster", "submitit", "slurm"),
    LauncherRow("torchrun", "laptime.engine.run.on_torchrun:TorchrunCluster", "torch", "torch"),
)


# What the parent may set in the environment of a child on a node: what settings and devices need, and the fake's
# script. No variable is among them that names code to run. A test compares them with what lanes bring.
NODE_VARIABLES = frozenset(
    (
        "LAPTIME_DEVICE",
        "LAPTIME_FAKE",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TOP_PAD_",
        "MALLOC_TRIM_THRESHOLD_",
        "MKL_NUM_THREADS",
        "NPROC",
        "OMP_NUM_THREADS",
        "OMP_PLACES",
        "OMP_PROC_BIND",
        "TF_ENABLE_ONEDNN_OPTS",
        "XLA_FLAGS",
    )
)


@dataclass(frozen=True, slots=True)
class Place:
    """What a heat asks of a cluster: with `nodes`, on the first of these that is there. They are of the type `on`."""

    cpus: int = 1
    gpus: int = 0
    nodes: tuple[str, ...] = ()
    on: str = ""

    @property
    def words(self) -> str:
        cores = f"{self.cpus} core{'s' * (self.cpus != 1)}"
        cards = f" and {self.gpus} GPU{'s' * (self.gpus != 1)}" if self.gpus else ""
        return f"{cores}{cards}{f' on {self.on}' if self.on else ''}"


def find_launcher(word: str) -> LauncherRow | None:
    """Return the row of a word of --on, or None: the word is a device."""
    for row in LAUNCHERS:
        if word == row.word or (row.takes_address and word.startswith(f"{row.word}://")):
            return row
    return None


def largest_of(place: Place, rooms: Sequence[NodeRoom]) -> Place:
    """Return what of a place one node has, where no node has all of it; cards that no node has are still asked for."""
    if not rooms:
        return place
    most = max(rooms, key=lambda room: (min(room.cards, place.gpus), min(room.cores, place.cpus)))
    return replace(place, cpus=min(place.cpus, most.cores) or 1, gpus=min(place.gpus, most.cards) or place.gpus)


def place_of(lane: PlannedLane, devices: int | None = None) -> Place:
    """Return what a lane, or N devices of it, needs: cards, or on a processor a core for each thread."""
    count = devices or max(1, len(lane.devices))
    nodes, on = ((), "") if lane.where is None else (lane.where.nodes, lane.where.name)
    if lane.device.kind == "cuda":
        return Place(gpus=count, nodes=nodes, on=on)
    return Place(cpus=count * (lane.settings.threads or 1), nodes=nodes, on=on)
