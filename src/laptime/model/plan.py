"""What will run, decided before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.ask import Ask
from laptime.model.dataset import DataSource
from laptime.model.lane import Settings
from laptime.model.machine import Device
from laptime.model.workload import ProofPlan


@dataclass(frozen=True, slots=True)
class Subject:
    """What is trained: a built-in workload by name, or a user's `file.py:function`.

    A user's file is `written_for` keras, jax, torch or python, as far as its text tells.
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


@dataclass(frozen=True, slots=True)
class PlannedLane:
    """A lane with every setting filled in and the environment that its process gets."""

    name: str
    framework: str
    device: Device
    settings: Settings
    environment: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pace:
    """How many heats and how long each: `heats_max` is reached unless the margin or the budget ends it before."""

    heats_min: int
    heats_max: int
    adaptive: bool
    measure_s: float
    window_s: float
    windows_min: int = 5
    reruns_max: int = 3


@dataclass(frozen=True, slots=True)
class Plan:
    ask: Ask
    subject: Subject
    lanes: tuple[PlannedLane, ...]
    proof: ProofPlan
    pace: Pace
    notes: tuple[str, ...] = ()
    data: DataSource | None = None


@dataclass(frozen=True, slots=True)
class HeatOrder:
    """All that a child needs to know to run one heat.

    `seed` draws weights, order and dropout; data made in memory come from `data_seed` where it is another. So many
    `test_items` are there to be looked at after the windows; of them as many are as tell how long all would take. With
    `takes_apart`, some steps are taken apart after that.
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
    takes_apart: bool = False
