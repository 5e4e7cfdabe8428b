"""What a heat returns: raw samples, before any analysis."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from laptime.model.hardware import StepWork
from laptime.model.machine import DeviceKind
from laptime.model.process import Channel, Exchange, ProcessRun, RankReport, RankTimes
from laptime.model.quantities import Missing
from laptime.model.script import ScriptProcess
from laptime.model.symptoms import DenormalCensus, StepSymptoms

NOT_NOTED = Missing("it was not noted")
# So begin the flags of windows that nothing but their times shows to be disturbed.
MACHINE_SLOW = "the machine was slow"
SLOW_SPELL = f"{MACHINE_SLOW} for all lanes"


@dataclass(frozen=True, slots=True)
class Noise:
    """What happened on this machine while a window was open. Processor time is in cores: seconds per second.

    `other_cores` is what other processes took of the cores, or of the quota, that this process may use. `throttled_ms`
    is how long the container's quota held this process back. `own_cores` is what the heat's own processes took.
    `waited_cores` is how many of its threads were ready to run but had no core, where the cores are shared with other
    containers. `io_wait_cores` is how many of our cores only waited for a disk. `halted` says why nothing of the heat
    ran for a while; the time of such a window means nothing.
    """

    other_cores: float | Missing
    load_1m: float | Missing
    throttled_ms: float | Missing
    own_cores: float | Missing = NOT_NOTED
    waited_cores: float | Missing = NOT_NOTED
    io_wait_cores: float | Missing = NOT_NOTED
    halted: str | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Some steps, with a fence before the first and after the last and none between. Times are of the monotonic clock.

    `step_ns` holds the time of each step: by the host clock on a processor, by device events on an accelerator. A
    window of thousands of steps only keeps the first ones. `flag` names the disturbance, if there was one. Where heats
    take turns, windows of the same `turn` were run directly after each other. `ranks` is what each process took, where
    several train together; `step_ns` is then that of the first. `first_step` is the number of its first step in
    the training, whose very first step is 1. `updates` is how often a step of it changed the weights, and `rate` the
    learning rate at its end, both as multiples of the training's first step; None where they are not seen. `seen` is
    the batch of its last step. `turn_ns` is how long the turn took by the clock of laptime's own process, which the
    training cannot write to: from when its heat went on until it reported the window. `judged_ns` is how long the
    window took by that clock, where a verdict needs it: what a turn costs besides is known from the base.
    """

    start_ns: int
    end_ns: int
    steps: int
    step_ns: tuple[int, ...] = ()
    noise: Noise | None = None
    flag: str | None = None
    turn: int | None = None
    ranks: RankTimes | None = None
    first_step: int | None = None
    updates: float | None = None
    rate: float | None = None
    seen: SeenBatch | None = None
    turn_ns: int | None = None
    judged_ns: int | None = None

    @property
    def took_ns(self) -> int:
        """How long its steps took: by the clock of laptime's own process, where that judges."""
        return self.end_ns - self.start_ns if self.judged_ns is None else self.judged_ns


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """A batch that was trained on while the clock ran: its items, a digest of some numbers, and how many it has."""

    items: int
    digest: str
    numbers: int | None = None


@dataclass(frozen=True, slots=True)
class Updates:
    """How often a training has changed its weights in place, summed over their arrays, and the sum of its rates."""

    count: float
    rate: float


@dataclass(frozen=True, slots=True)
class Movement:
    """How the weights moved: `shrink` and `moves` are those of a `ProofRun`."""

    shrink: float
    moves: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ProofRun:
    """What one lane did in the proof: each step's loss, and a fingerprint of how the weights moved.

    `start` is the length of all weights before the first step. `shrink` is the movement's share along the weights
    themselves, in units of their squared length; `moves` holds the length of each array's movement. `single` is how the
    weights moved in one step from the start at a large rate, and `decay` how they moved in one without gradients, where
    these two steps were taken. `scales` is then what the gradients were multiplied by; it depends on each optimizer's
    epsilon. `batches` is the digest of the batches, where they come from a user's own data. A run with a `problem`
    proves nothing. `own_way` says how the framework is known to differ from others in such a training. Of a script,
    `start` is the length after its first step, and `moves` are the changes of the arrays' lengths until its last one;
    where it takes several steps in a call, `after` has the number of the step behind which each loss was read.
    """

    precision: str
    losses: tuple[float, ...]
    start: float
    shrink: float
    moves: tuple[float, ...]
    seconds: float = 0.0
    single: Movement | None = None
    decay: Movement | None = None
    scales: tuple[float, ...] = ()
    batches: str | None = None
    problem: str | None = None
    own_way: str | None = None
    after: tuple[int, ...] = ()

    @property
    def by_step(self) -> dict[int, float]:
        """Each loss by the number of its step."""
        return dict(zip(self.after or range(1, len(self.losses) + 1), self.losses, strict=False))


@dataclass(frozen=True, slots=True)
class LateStep:
    """What the training that was timed does after its windows, put back to its start: a step of the proof once more.

    `moves` are the lengths by which its arrays moved.
    """

    precision: str
    loss: float
    moves: tuple[float, ...]


REPLAY_TOLERANCE = 1e-3  # of how far a turn moves all weights
REPLAY_MARGIN = 8.0  # times what rounding alone does


@dataclass(frozen=True, slots=True)
class ReplayPart:
    """How far one kind of a training's numbers came out from where a replay of its turn leads.

    `of` is weights, buffers, or what the optimizer keeps. `apart` is the distance, and `rounding` what rounding alone
    makes of it, both as parts of how far the turn moved them. `array` is the distance of the worst single array, in
    units of what is allowed.
    """

    of: str
    apart: float
    rounding: float
    array: float

    @property
    def allowed(self) -> float:
        return max(REPLAY_TOLERANCE, REPLAY_MARGIN * self.rounding)

    @property
    def is_same(self) -> bool:
        return self.apart <= self.allowed and self.array <= 1.0


@dataclass(frozen=True, slots=True)
class ReplayChance:
    """Where a turn of a training that draws random numbers ended, among replays of it with other draws.

    `far` is the distance of each end from the middle of all others, and `along` how far it is beyond that middle in the
    way's direction. Those of the training itself come last. `of` is weights or buffers.
    """

    of: str
    far: tuple[float, ...]
    along: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TurnTakenAgain:
    """A timed turn of a training, taken again by another's code: that of the base, from where the turn began.

    The turn was chosen after it was timed. `steps` is how many it has. `repeats` is how far the base's own turn comes
    out from itself, where a part is not the same at first sight. `is_shown` says that the state which the training
    showed is the one that it had reported a digest of, and `is_joined` that the turn began where the one before had
    ended. `chance` is there where the base draws random numbers, and the training may have drawn others. `times` is how
    many times as fast as the base the training was in it.
    """

    steps: int
    repeats: float | None
    is_shown: bool
    is_joined: bool
    parts: tuple[ReplayPart, ...]
    chance: tuple[ReplayChance, ...] = ()
    times: float | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """The float64 run that every lane is compared with, and a float32 twin that shows the effect of rounding alone.

    `over_batch` says that its network computes over a batch (a batch norm), so that cutting one changes the work. The
    batches of this reference were cut into `shares`. `work` is what a step of a user's own training computes and moves;
    `uncounted` says why it is missing there. `rates` are the dropout rates and the momenta of its modules, which the
    proof's steps do not show: they drop nothing, and use no running statistics.
    """

    key: str
    exact: ProofRun
    twin: ProofRun
    depth: int
    weights: int
    problem: str | None = None
    over_batch: bool = False
    shares: int = 1
    work: StepWork | None = None
    uncounted: str | None = None
    rates: tuple[tuple[str, float], ...] = ()


AS_THE_SCRIPT = "as the script"  # the precision of a script's own losses, where nobody else ran them


@dataclass(frozen=True, slots=True)
class FirstLosses:
    """The first losses of a script on one lane, heat by heat: what the losses of other lanes are compared with."""

    lane: str
    device_kind: str
    heats: tuple[ProofRun, ...]


@dataclass(frozen=True, slots=True)
class Appeal:
    """A second proof of a lane, from other weights and on other batches, compared with a reference of its own.

    Rounding may put one value on the other side of a rectifier, or let another pixel win a pooling. Such a chance event
    moves the weights differently, but does not happen twice. Different work does.
    """

    seed: int
    reference: Reference
    runs: tuple[ProofRun, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """The time to evaluate some test items, without training; the time of a whole validation is predicted from it.

    `ns` is for these `items`. `first_ns` is what the very first evaluation took on top. `read_ns` is the time to load
    this many items into memory, which happens once a training (0 where they are decoded each time).
    """

    items: int
    ns: int
    first_ns: int
    read_ns: int


@dataclass(frozen=True, slots=True)
class FreshSteps:
    """Steps on newly decoded items, where the loader then keeps them: steps are like this until all items were seen."""

    steps: int
    ns: int


@dataclass(frozen=True, slots=True)
class Heat:
    """One process that ran one lane once.

    `burst` is how many batches its loader may deliver at once, if it was seen to do so and then to make steps wait.
    Where several processes train together, `ranks` is what each reports, and `exchanges` what an all-reduce takes.
    `first_losses` are compared from heat to heat: one that repeats those of a proven heat has no `proofs` of its own.
    `late_step` is a step of the proof after the windows, by the training that was timed. `early_ns` are the times of
    the first steps, before any window. `changed` is what the training's code replaced of the clocks and fences that
    judge it, and of laptime. `work` is what one iteration of a script computes, counted in it after its windows;
    `uncounted` says why that is missing. `replays` are turns of it that the base of a verdict took again, and
    `unreplayed` says why none was; the heat has a `seed` of its own where nobody was to know it before. `script` is
    what was seen of a script whose steps have `signs`, and `between_ms` what it does between its iterations, such as
    validation, for each of them: no window has that time.
    """

    process: ProcessRun
    order: int
    round: int
    steps_per_lap: int | None = None
    first_step_ns: int | None = None
    proofs: tuple[ProofRun, ...] = ()
    windows: tuple[Window, ...] = ()
    losses: tuple[float, ...] = ()
    examination: Examination | None = None
    fresh: FreshSteps | None = None
    burst: int | None = None
    signs: StepSymptoms | None = None
    script: ScriptProcess | None = None
    census: DenormalCensus | None = None
    ranks: tuple[RankReport, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    first_losses: tuple[float, ...] = ()
    late_step: LateStep | None = None
    early_ns: tuple[int, ...] = ()
    changed: tuple[str, ...] = ()
    work: StepWork | None = None
    uncounted: str | None = None
    replays: tuple[TurnTakenAgain, ...] = ()
    unreplayed: str | None = None
    seed: int | None = None
    between_ms: float | None = None


# The sensors that a race can read: one row per sensor; installed packages may add rows.

ENTRY_POINTS = "laptime.sensors"
Meaning = Literal[
    "busy time", "cores", "busy", "active", "memory", "temperature", "power", "energy", "clock", "limit",
    "all memory", "other processes", "memory of others", "lowered clocks",
    "free memory", "swap", "group memory", "group cache", "held back", "new pages", "pages from disk",
]  # fmt: skip
# Why a card's driver "lowered clocks", as bits (nvml.h: nvmlClocksEventReasons): a limit of power, or heat.
POWER_BITS = 0x04 | 0x80
HEAT_BITS = 0x08 | 0x20 | 0x40
Owner = Literal["heat", "host", "cpu", "memory", "card"]
JOULES = {"uJ": 1e-6, "mJ": 1e-3, "J": 1.0}
WATTS = {"uW": 1e-6, "mW": 1e-3, "W": 1.0}
# What a channel means that no row names: readings are kept longer than the package of their sensor.
MEANS_BY_UNIT: dict[str, Meaning] = {
    "C": "temperature",
    "MHz": "clock",
    **dict.fromkeys(JOULES, "energy"),
    **dict.fromkeys(WATTS, "power"),
}


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """What the channels of a name mean, and whose figure they are: the heat's, the host's, or a kind of device's.

    `device` is how the names of these devices begin; a card has the name that its sensor gives it. A device's energy is
    a meter that counts, its power is sampled. Of several with one meaning, the first in the table is preferred.
    """

    name: str
    means: Meaning
    of: Owner = "card"
    device: str = ""


@dataclass(frozen=True, slots=True)
class SensorRow:
    """One sensor. `name` is its name in `--sensors`; `sensor` names its class, as "module:Class".

    `watches` are the kinds of devices whose lanes it sees; empty where it sees every lane. `of_device` names a
    function, as "module:function", that takes a lane's device and returns the sensors of that device alone, or why
    there is none. `powers` are the kinds of devices whose power or energy it reads; None where that is not known.
    `channels` say what its channels mean: rules, usage, figures and reports take them by their meaning.
    """

    name: str
    sensor: str
    watches: tuple[DeviceKind, ...] = ()
    of_device: str | None = None
    powers: tuple[DeviceKind, ...] | None = None
    channels: tuple[ChannelRow, ...] = ()


OF_CARDS = (
    ChannelRow("busy_percent", "busy"),
    ChannelRow("memory_used_bytes", "memory"),
    ChannelRow("memory_total_bytes", "all memory"),
    ChannelRow("temperature_c", "temperature"),
    ChannelRow("power_instant_mw", "power"),  # a mean over the last second still includes the time before the heat
    ChannelRow("power_average_mw", "power"),
    ChannelRow("energy_mj", "energy"),
)
SENSORS = (
    SensorRow(
        "host",
        "laptime.machine.sensors.host:HostSensor",
        powers=(),
        channels=(
            ChannelRow("busy_s", "busy time", "heat", "heat"),
            ChannelRow("resident_bytes", "memory", "heat", "heat"),
            ChannelRow("minor_faults", "new pages", "heat", "heat"),
            ChannelRow("major_faults", "pages from disk", "heat", "heat"),
            ChannelRow("busy_s", "busy time", "host", "host"),
            ChannelRow("cores_online", "cores", "host", "host"),
            ChannelRow("temperature_c", "temperature", "host", "host"),
            ChannelRow("frequency_mean_mhz", "clock", "host", "host"),
            ChannelRow("memory_available_bytes", "free memory", "host", "host"),
            ChannelRow("swap_used_bytes", "swap", "host", "host"),
            ChannelRow("cgroup_memory_bytes", "group memory", "host", "host"),
            ChannelRow("cgroup_cache_bytes", "group cache", "host", "host"),
            ChannelRow("cgroup_throttled_s", "held back", "host", "host"),
        ),
    ),
    SensorRow(
        "rapl",
        "laptime.machine.sensors.rapl:RaplSensor",
        powers=("cpu",),
        # A package's meter includes its cores.
        channels=(
            ChannelRow("energy_j", "energy", "cpu", "package-"),
            ChannelRow("energy_j", "energy", "memory", "dram-"),
        ),
    ),
    SensorRow(
        "nvml",
        "laptime.machine.sensors.nvml:NvmlSensor",
        ("cuda",),
        "laptime.machine.sensors.nvml:sensors_of",
        ("cuda",),
        channels=(
            *OF_CARDS,
            ChannelRow("sm_active_percent", "active"),
            ChannelRow("sm_clock_mhz", "clock"),
            ChannelRow("sm_clock_most_mhz", "limit"),
            ChannelRow("clock_reasons", "lowered clocks"),
            ChannelRow("foreign_processes", "other processes"),
            ChannelRow("foreign_memory_bytes", "memory of others"),
        ),
    ),
)


@cache
def all_sensors() -> dict[str, SensorRow]:
    """Return every row by its name: those of laptime, and those that installed packages add as entry points."""
    ours = {row.name: row for row in SENSORS}
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and a heat needs none of this

    added: list[SensorRow] = [point.load() for point in metadata.entry_points(group=ENTRY_POINTS)]
    return ours | {row.name: row for row in added if row.name not in ours}


@cache  # each rule asks it of each channel of each heat
def meaning_of(channel: Channel) -> Meaning | None:
    """Return what a channel means by its row, or else by its unit; None for one that nothing reads.

    A meter counts, in a unit of energy.
    """
    row = _row_of(channel)
    means = MEANS_BY_UNIT.get(channel.unit) if row is None else row.means
    is_no_meter = means == "energy" and (channel.kind != "counter" or channel.unit not in JOULES)
    return None if is_no_meter or (means == "power" and channel.unit not in WATTS) else means


def owner_of(device: str) -> Owner:
    """Return whose the figures of a device are, by its name in channels."""
    rows = (row for sensor in all_sensors().values() for row in sensor.channels if row.device)
    return next((row.of for row in rows if device.startswith(row.device)), "card")


def preference(channel: Channel) -> tuple[int, str]:
    """Return what sorts channels of one meaning: in the order of their rows, those without a row last, by name."""
    rows = [row for sensor in all_sensors().values() for row in sensor.channels]
    row = _row_of(channel)
    return len(rows) if row is None else rows.index(row), channel.name


def _row_of(channel: Channel) -> ChannelRow | None:
    owner = owner_of(channel.device)
    rows = (row for sensor in all_sensors().values() for row in sensor.channels)
    return next((row for row in rows if (row.name, row.of) == (channel.name, owner)), None)


def meters_of(owner: Owner) -> tuple[str, ...]:
    """Return the sensors that count the energy of such devices."""
    return tuple(
        name
        for name, sensor in all_sensors().items()
        if any((row.means, row.of) == ("energy", owner) for row in sensor.channels)
    )


# The resources that a lane used while it was timed: processor, memory, temperature, power, energy, money.


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy of a training: `counted` by the device's own meter, or `estimated` from samples of its power.

    `of` names the device: no figure includes the rest of the computer (memory, fans, power supply). Where there is no
    figure, `how` and all others say why. `j_whole` is for a whole training, from its first lap to the end of its test.
    """

    of: str
    how: str | Missing
    power_w: float | Missing
    j_per_lap: float | Missing
    j_per_1000_items: float | Missing
    items_per_j: float | Missing
    j_whole: float | Missing = field(default_factory=lambda: Missing("no training was whole"))

    @property
    def wh_per_lap(self) -> float | Missing:
        return self.j_per_lap if isinstance(self.j_per_lap, Missing) else self.j_per_lap / 3600

    @property
    def wh_whole(self) -> float | Missing:
        return self.j_whole if isinstance(self.j_whole, Missing) else self.j_whole / 3600


@dataclass(frozen=True, slots=True)
class CardUsage:
    """What one of a lane's several devices did while the lane was timed."""

    device: str
    busy_percent: float | Missing
    memory_most_bytes: float | Missing
    temperature_most_c: float | Missing
    power_w: float | Missing


@dataclass(frozen=True, slots=True)
class Usage:
    """Medians over the timed parts of heats or of a training; a field named "most" is the maximum of all readings.

    `processor_percent` is for the heat's own processes, of the cores that laptime may use; `others_percent` is what all
    other processes took of the machine. `device_percent` is the share of moments in which the device had work,
    `active_percent` how large a part of it worked on average, where the device reports it. Memory is that of the heat's
    processes; on the device, it is all the memory that the driver reports as used, including that of other processes.

    Of a lane on several devices, `cards` has each. Then `device_percent` and `active_percent` are means of them, energy
    is their sum, and the others are those of the device with the most.
    """

    processor_percent: float | Missing
    others_percent: float | Missing
    memory_most_bytes: float | Missing
    device_percent: float | Missing
    active_percent: float | Missing
    device_memory_most_bytes: float | Missing
    temperature_of: str
    temperature_most_c: float | Missing
    temperature_slope_c_per_min: float | Missing
    power_most_w: float | Missing
    energy: Energy
    cards: tuple[CardUsage, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerUsage:
    """The resources that answering used at one batch size; single calls have no `batch`."""

    batch: int | None
    usage: Usage
