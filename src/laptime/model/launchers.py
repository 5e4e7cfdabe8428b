"""LAUNCHERS: where the heats of a race may run. One row for each word that --on knows; without --on they run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from laptime.model.machine import NodeRoom
from laptime.model.plan import PlannedLane


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
    LauncherRow("ray", "laptime.run.on_ray:RayCluster", "ray", "ray", takes_address=True),
    LauncherRow("slurm", "laptime.run.on_slurm:SlurmCluster", "submitit", "slurm"),
    LauncherRow("slurm:local", "laptime.run.on_slurm:SlurmCluster", "submitit", "slurm"),
    LauncherRow("torchrun", "laptime.run.on_torchrun:TorchrunCluster", "torch", "torch"),
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
    most = max(rooms, key=lambda each: (min(each.cards, place.gpus), min(each.cores, place.cpus)))
    return replace(place, cpus=min(place.cpus, most.cores) or 1, gpus=min(place.gpus, most.cards) or place.gpus)


def place_of(lane: PlannedLane, devices: int | None = None) -> Place:
    """Return what a lane, or N devices of it, needs: cards, or on a processor a core for each thread."""
    count = devices or max(1, len(lane.devices))
    nodes, on = ((), "") if lane.where is None else (lane.where.nodes, lane.where.name)
    if lane.device.kind == "cuda":
        return Place(gpus=count, nodes=nodes, on=on)
    return Place(cpus=count * (lane.settings.threads or 1), nodes=nodes, on=on)
