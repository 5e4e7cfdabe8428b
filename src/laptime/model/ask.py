"""What the user asked for, after parsing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from laptime.model.machine import Device
from laptime.model.questions import QUESTIONS
from laptime.questions.scale.options import ScaleAsk
from laptime.questions.sweep.options import SweepAsk
from laptime.questions.train.options import FullAsk
from laptime.questions.tune.options import AIMS, Aim, LanePrices, TuneAsk
from laptime.questions.verdict.options import VerdictAsk

DEFAULT_WORKLOAD = "cifar-cnn"


@dataclass(frozen=True, slots=True)
class TypePrice:
    """What an hour of a node of one type costs, or of a device, in any currency."""

    of: str
    per_hour: float

    def __str__(self) -> str:
        return f"{self.of}={self.per_hour:g}"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a race; every field can be set on the command line.

    `others` are further trainings of your own: each lane is raced once with each training. Each lane is raced once
    for every one of `batches`, where any are named; those of whole trainings are in `full`. `data` is a folder or
    an archive of real data. Where there is none, `items` is how many items laptime makes; 0 makes as many as were
    published. `full` asks for whole trainings instead of heats, `every` for all installed frameworks instead of
    named lanes. `sensors` names the sensors that may be read (None: all). `sensors_hz` is how often a second (None:
    ten times, in whole trainings once). `price_per_kwh` and `rate_per_hour`, in any currency, turn a lap into
    money. With `profile`, each lane is profiled after its heats, outside the timing. With `alone`, heats run one
    after another, where else those of a round take turns. `label` is a name by which the record is found: `@label`.
    `command` is what `laptime watch` starts. In a race it is a script's own arguments, or without `what` a whole
    command; each lane is then raced as it is and once with each of `variants`, and a heat ends after `steps` timed
    steps. `on` is a word of `LAUNCHERS`: the heats run on that cluster. With `each`, the label or the resource of its
    nodes, each lane races on each type of them; `prices` are theirs. In a tuning, `prices` are those of devices.
    """

    what: str = DEFAULT_WORKLOAD
    lanes: tuple[str, ...] = ()
    heats: int | None = None
    budget_s: float = 60.0
    margin: float = 0.05
    seed: int = 0
    pretrained: bool = False
    patience_s: float = 600.0
    watchdog_s: float = 60.0
    data: str | None = None
    items: int | None = None
    full: FullAsk | None = None
    infer: bool = False
    every: bool = False
    sensors: tuple[str, ...] | None = None
    sensors_hz: float | None = None
    price_per_kwh: float | None = None
    rate_per_hour: float | None = None
    profile: bool = False
    alone: bool = False
    batches: tuple[int, ...] = ()
    others: tuple[str, ...] = ()
    label: str | None = None
    command: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    steps: int | None = None
    scale: ScaleAsk | None = None  # each lane on several devices
    on: str | None = None
    each: str | None = None
    prices: tuple[TypePrice, ...] = ()
    tune: TuneAsk | None = None  # the best settings of each lane
    sweep: SweepAsk | None = None  # each lane over batches, or over another axis
    verdict: VerdictAsk | None = None  # a candidate, the other training, against its base

    @property
    def question(self) -> str:
        """The question that it means, unless it is asked another one, such as why."""
        meant = (row for row in QUESTIONS if row.asks and not row.is_older)  # a race may be asked for profiles, too
        return next((row.name for row in meant if getattr(self, row.asks)), "race")

    @property
    def changes_data(self) -> bool:
        """Whether lanes may have other batches, or other workers, than the data as it was written."""
        parts = (getattr(self, row.asks) for row in QUESTIONS if row.has_options)
        return bool(self.batches) or any(part is not None and part.changes_data for part in parts)

    @property
    def aim(self) -> Aim:
        """What a tuning minimises."""
        return AIMS[(self.tune or TuneAsk()).aim]

    def prices_of(self, device: Device) -> LanePrices:
        """Return what a device costs: the price of its own name, else that of its kind, else that of the machine."""
        named = {price.of: price.per_hour for price in self.prices}
        per_hour = named.get(device.name, named.get(device.kind, self.rate_per_hour))
        return LanePrices(per_hour, self.price_per_kwh)


# Where a workload's items are on disk: the parent finds or makes them, the child reads them.

DataLayout = Literal["archive", "folders", "plates"]
SetState = Literal["whole", "half-written", "other version"]
DataPart = Literal["train", "test"]


@dataclass(frozen=True, slots=True)
class DataSource:
    """One set of items on disk, checked.

    `layout` is CIFAR-10's own Python archive, one folder per class, or plates named by their text. `classes` are in the
    order of the label numbers. Where the folder itself has no `train` and `test`, `split_seed` decides which item goes
    where. `digest` is made of names and sizes, so another folder, or a changed one, has another digest.
    """

    folder: str
    layout: DataLayout
    made: bool
    train_items: int
    test_items: int
    classes: tuple[str, ...]
    digest: str
    split_seed: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MadeSet:
    """A set of items that laptime made."""

    name: str
    folder: str
    workload: str
    train_items: int
    test_items: int
    bytes: int
    state: SetState


@dataclass(frozen=True, slots=True)
class NewSet(MadeSet):
    """A set that was asked for: how long it took, and whether it was there already."""

    seconds: float
    was_there: bool
