# ruff: noqa: PYI021  an editor shows what a stub says
"""Made from the tables of questions and options by `make signatures`: what type checkers read of `functions.py`."""

from collections.abc import Mapping, Sequence

from laptime.library.asking import DurationLike, ItemsLike, LaneNames, OneTraining, PathLike, ShareLike, Trainings, What
from laptime.library.calls import Recorded
from laptime.library.results import PlanResult, Result
from laptime.questions.forecast.call import ForecastResult
from laptime.questions.race.call import RaceResult
from laptime.questions.scale.call import ScaleResult
from laptime.questions.scale.options import ScaleAsk
from laptime.questions.sweep.call import SweepResult
from laptime.questions.sweep.options import SweepAsk
from laptime.questions.train.options import FullAsk
from laptime.questions.tune.call import TuneResult
from laptime.questions.tune.options import AimWord, TuneAsk
from laptime.questions.verdict.call import VerdictResult
from laptime.questions.verdict.options import VerdictAsk
from laptime.questions.watch.call import WatchResult
from laptime.questions.why.call import WhyResult

__all__ = [
    "FullAsk",
    "RaceResult",
    "Result",
    "ScaleAsk",
    "ScaleResult",
    "SweepAsk",
    "SweepResult",
    "TuneAsk",
    "TuneResult",
    "VerdictAsk",
    "VerdictResult",
    "WatchResult",
    "WhyResult",
    "infer",
    "profile",
    "race",
    "scale",
    "sweep",
    "train",
    "tune",
    "verdict",
    "watch",
    "why",
]

def race(
    what: What | Trainings = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    budget: DurationLike | None = None,
    margin: ShareLike | None = None,
    heats: int | None = None,
    alone: bool = False,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    price: float | None = None,
    rate: float | None = None,
    batch: int | Sequence[int] | None = None,
    profile: bool = False,
    arguments: Sequence[str] | None = None,
    on: str | None = None,
    each: str | None = None,
    prices: Mapping[str, float] | None = None,
    steps: int | None = None,
    against: Recorded | None = None,
    trust: str | None = None,
    fail_above: ShareLike | None = None,
    progress: bool | None = None,
) -> RaceResult:
    """Race the lanes: which is faster, by how much, and did they learn the same?

    `what` is a function that returns a `laptime.Training`, the name of a built-in workload, "file.py:function", or
    an `Ask`; a list of functions or files races these against each other. `lanes` are named as on the command line:
    ["cpu", "cuda/best"]. With no lane, every usable device races, as written and at its best; with `every`, every
    installed framework.

    The race ends within `budget` ("1m", or seconds), when every ratio is known to `margin` ("5%", or 0.05), or
    after `heats`. `data` is a folder of real data, `items` how many are made where there is none. `patience` is for
    starting and compiling, `watchdog` for a heat that sends nothing. `sensors` are those to read, `sensor_rate` how
    often a second. Each lane races once for every `batch`. `price` (of a kWh) and `rate` (of the machine per hour)
    add costs. `label` names the record: `laptime.load("@label")`. `progress` shows a live table in a notebook, where it
    is the default, and one line elsewhere.

    "train.py" may also be a script that knows nothing of laptime: `arguments` are its own, and each of its runs is
    stopped after `steps` timed steps, or when enough is known.

    `on` names a cluster: "ray", "ray://host:10001" or "slurm". Each heat then runs on a node of it. `each` is a label
    of a Ray cluster's nodes: each lane races on each type of them. `prices` are per hour: {"small": 0.1, "big": 1.2}.

    `against` (a result, an id, a file, "@label") runs that race again as it was, and compares: `.comparison`. Next to
    it only `label`, `trust`, `fail_above` and `progress` can be given. A record that you did not make here is run again
    only if `trust` is its id: it starts what it names. With `fail_above` ("5%", or 0.05) the lanes that take
    more than that longer for certain are in `.comparison.failing`; without `against`, the further trainings of a list
    are compared with its first.
    """

def why(
    what: What = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    budget: DurationLike | None = None,
    alone: bool = False,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    arguments: Sequence[str] | None = None,
    progress: bool | None = None,
) -> WhyResult:
    """Find what limits a lane, and what each remedy gains: `.verdict`, `.remedies`. For the arguments see `race`.

    With no lane it is the card if there is one, else the processor, as written.
    """

def watch(
    command: Sequence[str],
    *,
    label: str | None = None,
    sensors: str | Sequence[str] | None = None,
    progress: bool | None = None,
) -> WatchResult:
    """Run a command as it is, and return where the time of its training went: `watch(["python", "train.py"])`.

    Its input and output are those of this process, and `.exit_code` is its own. `laptime.watching()` watches this
    process in place of a command.
    """

def tune(
    what: What = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    aim: AimWord | None = None,
    allow: str | Sequence[str] | None = None,
    frameworks: str | Sequence[str] | None = None,
    laps: int | None = None,
    budget: DurationLike | None = None,
    alone: bool = False,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    price: float | None = None,
    rate: float | None = None,
    prices: Mapping[str, float] | None = None,
    arguments: Sequence[str] | None = None,
    progress: bool | None = None,
) -> TuneResult:
    """Search for the best settings of each lane, and race the winner again on fresh heats.

    `allow` names what may change besides: "precision", "batch", "learning". `frameworks` are those to tune on, or
    "all". With `laps` the lane and its winner are then trained whole, and `.tuned[0].learned` has their loss and
    accuracy. `aim` is what to minimise: "time", "energy" or "money"; `prices` are those of an hour, by device.
    `.verdict` is a sentence, `.tuned` has each lane's winner and what each setting is worth; of code of your own, a
    script too, `.tuned[0].changes` are diffs. For the other arguments see `race`.
    """

def verdict(
    base: OneTraining,
    candidate: OneTraining,
    lane: str = "",
    *,
    gain: ShareLike | None = None,
    session: str | None = None,
    gate: bool = False,
    learning: bool = False,
    seeds: int | None = None,
    laps: int | None = None,
    budget: DurationLike | None = None,
    alone: bool = False,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    arguments: Sequence[str] | None = None,
) -> VerdictResult:
    """Say whether `candidate` is faster than `base` by `gain`, and still the same training: `.word`, `.why`, `.needs`.

    Both are functions, or named as on the command line: "git:main:train.py:training". With `gate`, the question is
    whether it is slower. With `learning`, the work may differ, and the loss reached per second is judged, from several
    seeds. All verdicts of a `session` share one error, and fresh rounds confirm a KEEP. With no lane it is the card if
    there is one, else the processor. For the others see `race`.
    """

def sweep(
    what: What = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    batch: str | Sequence[int] | None = None,
    threads: str | Sequence[int] | None = None,
    workers: str | Sequence[int] | None = None,
    items: ItemsLike | str | Sequence[int] | None = None,
    lr: str | Sequence[float] | None = None,
    width: str | Sequence[float] | None = None,
    budget: DurationLike | None = None,
    alone: bool = False,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    price: float | None = None,
    rate: float | None = None,
    progress: bool | None = None,
) -> SweepResult:
    """Race the lanes at each value of one axis or two: `"1..1024"` doubles, `[8, 16, 24]` is a list.

    One number of `items` is for all cells, several are an axis. `.verdict` is a sentence, `.curves`, `.crossovers` and
    `.cells` have the figures. For other arguments see `race`.
    """

def scale(
    what: What = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    devices: int | Sequence[int] | None = None,
    weak: bool = False,
    strong: bool = False,
    both: bool = False,
    budget: DurationLike | None = None,
    margin: ShareLike | None = None,
    heats: int | None = None,
    alone: bool = False,
    on: str | None = None,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    price: float | None = None,
    rate: float | None = None,
    progress: bool | None = None,
) -> ScaleResult:
    """Race one training on 1, 2, 4 `devices`: what they bring, and where the time of a step goes.

    Each device has the batch as written (`weak`, the default), or all share it out (`strong`), or `both` are raced.
    `.verdict` is a sentence, `.curves` has the figures. For the other arguments see `race`.
    """

def train(
    what: What = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    laps: int | None = None,
    steps_per_lap: int | None = None,
    seeds: int | None = None,
    until_accuracy: ShareLike | None = None,
    lr: float | Sequence[float] | None = None,
    batch: int | Sequence[int] | None = None,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    price: float | None = None,
    rate: float | None = None,
    progress: bool | None = None,
) -> Result:
    """Train each lane whole, one after another: laps, validation, a test. The record is saved after every lap.

    `laps` and `steps_per_lap` replace what was published. Each lane is trained from `seeds` seeds, and once for every
    pair of `lr` and `batch`. `until_accuracy` (0.7 or "70%") says when that was reached. For the rest see `race`.
    """

def infer(
    what: What = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    budget: DurationLike | None = None,
    heats: int | None = None,
    alone: bool = False,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    price: float | None = None,
    rate: float | None = None,
    progress: bool | None = None,
) -> Result:
    """Time answers, not training: how long one takes, and how many there are a second in batches. See `race`."""

def profile(
    what: What = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    progress: bool | None = None,
) -> Result:
    """Run some steps of each lane under its framework's profiler: operators, kernels, and a saved trace. See `race`."""

def plan(
    what: What | Trainings = "cifar-cnn",
    lanes: LaneNames = (),
    *,
    every: bool = False,
    data: PathLike | None = None,
    items: ItemsLike | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    patience: DurationLike | None = None,
    label: str | None = None,
    budget: DurationLike | None = None,
    margin: ShareLike | None = None,
    heats: int | None = None,
    alone: bool = False,
    sensors: str | Sequence[str] | None = None,
    sensor_rate: float | None = None,
    watchdog: DurationLike | None = None,
    price: float | None = None,
    rate: float | None = None,
    batch: int | Sequence[int] | None = None,
    profile: bool = False,
    arguments: Sequence[str] | None = None,
    on: str | None = None,
    each: str | None = None,
    prices: Mapping[str, float] | None = None,
    steps: int | None = None,
) -> PlanResult:
    """Return what `race` would run with these arguments. Give an `Ask` to see a whole training or inference."""

def forecast(
    result: Recorded = "latest",
    lane: str | None = None,
    *,
    on: str | Sequence[str] | None = None,
    every: bool = False,
    rate: float | None = None,
    device_file: PathLike | None = None,
) -> ForecastResult:
    """Predict what the training of a race would take on devices that are not here: `on="t4,a100-40gb"`.

    `result` is a race, or what `laptime.load` finds. `lane` is by default its last one. `every` is all devices.
    `rate` is what an hour of the measured machine costs.
    """
