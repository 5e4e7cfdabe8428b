"""Refuse settings that a lane cannot have, with a message, before anything runs: one function per setting."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT, FrameworkRow, all_frameworks, install_command
from laptime.model.hardware import Conv, Dropout
from laptime.model.machine import Device, Machine
from laptime.model.plan import OwnTraining, PlannedLane, Subject
from laptime.model.process import AS_WRITTEN, FROM_FILES, KEPT_INPUTS, NO_TRAINING, Settings
from laptime.model.workload import Workload

A_LINE = "FILE:LINE"  # in a list of values: the name of a file and a line of it
PLAIN_VALUES = ("fp32", "eager", "framework")  # what every device can do
RETURNED_BY_TRAINING = {
    "torch": ("a PyTorch model", "torch lanes, such as torch/cpu"),
    "keras": ("a Keras model", "Keras lanes, such as keras-torch/cpu"),
}
WHY_NOT = {
    "tf32": "it is a mode of NVIDIA GPUs from Ampere (compute capability 8.0) on",
    "graph": "CUDA graphs need a CUDA device",
    "compile": "torch.compile needs a compiler on this machine (g++ for the processor, triton for CUDA)",
    "compiled_graph": "CUDA graphs need a CUDA device, and torch.compile needs triton there",
    "fp16": "its arithmetic is not to be had there",
    "bf16": "its arithmetic is not to be had there (NVIDIA GPUs have it from Ampere on)",
}


def refuse_framework(lane: LaneFacts) -> None:
    """Refuse a built-in workload on a framework that only runs a user's own steps."""
    if lane.row.refusal is not None and lane.workload is not None:
        why, instead = lane.row.refusal
        raise UsageError(
            f"{lane.framework}: {lane.workload.name} {why}; its lanes run steps of your own",
            f"laptime race {lane.workload.name} {instead}, or a function that returns laptime.Training(step=...)",
        )


def refuse_kind(row: FrameworkRow, own: OwnTraining, name: str) -> None:
    """Refuse a user's training on a framework that cannot run what its function returns."""
    can_run = row.runs_steps if own.kind == "step" else row.family == own.kind
    if own.kind == "other" or can_run:
        return
    if own.kind in RETURNED_BY_TRAINING:
        returns, instead = RETURNED_BY_TRAINING[own.kind]
    else:
        returns = "a step function"
        able = [other for other in all_frameworks().values() if other.runs_steps]
        take_any = [f"{other.name}/cpu" for other in able if other.is_opaque]
        take_theirs = [f"{other.name}/cpu" for other in able if not other.is_opaque]
        instead = ", or on ".join([*take_any, f"{' or '.join(take_theirs)} if it is theirs"])
    raise UsageError(f"{row.name} cannot run {name}: its function returns {returns}", f"race it on {instead}")


def refuse_training(lane: LaneFacts) -> None:
    """Refuse a user's training on a lane that cannot run it."""
    own = lane.subject.own
    name = lane.subject.name
    if own is None:
        return
    refuse_kind(lane.row, own, name)
    if lane.row.is_opaque and not lane.on_processor and not own.has_fence:
        raise UsageError(
            f"{lane.framework}/{lane.device.name}: {name} gives no fence, and a step may still be running there when "
            "it returns",
            "give fence=, a function of the state that waits for the device",
        )


def refuse_feature(field: str, settings: Settings, lane: LaneFacts) -> None:
    """Refuse a precision, execution, layout or optimizer that this device does not have."""
    value = settings.value_of(field)
    device = lane.device
    if value in PLAIN_VALUES:
        return
    if lane.row.is_opaque or (lane.subject.gives_step and value != "tf32"):
        raise UsageError(f"{value}: a step of your own has the {field} that its code gives it", "set it there")
    if value not in device.features:
        why = device.details.get(f"no {value}", WHY_NOT.get(value, "the framework does not offer it there"))
        where = device.name if lane.framework == SCRIPT else f"{lane.framework}/{device.name}"
        raise UsageError(f"{value} cannot be had on {where}: {why}", f"it can do: {', '.join(device.features)}")


def refuse_switch(name: str, value: str, settings: Settings, lane: LaneFacts) -> None:
    """Refuse a switch that this framework does not have on this device."""
    if settings.value_of(name) == value and name not in lane.device.features:
        where = f"{lane.framework}/{lane.device.name}"
        raise UsageError(f"{name}={value}: there is no such switch on {where}", "leave it out")


def refuse_pinning(settings: Settings, lane: LaneFacts) -> None:
    """Refuse to pin the threads of several processes: each would pin its own to the same cores."""
    refuse_switch("pinning", "cores", settings, lane)
    if settings.value_of("pinning") == "cores" and lane.devices:
        raise UsageError(f"pinning=cores: each process of {lane.group} is kept to its own cores", "leave it out")


def refuse_optimizer(settings: Settings, lane: LaneFacts) -> None:
    refuse_feature("optimizer", settings, lane)
    if settings.precision == "fp16" and settings.is_captured and settings.optimizer != "fused":
        raise UsageError(
            f"fp16+{settings.execution}: without a fused optimizer the loss scaler waits for the device in each step",
            f"add fused, or leave {settings.execution} out",
        )


def refuse_threads(settings: Settings, lane: LaneFacts) -> None:
    """Refuse more threads than cores. XLA's pool has one thread per usable core, so refuse any other number there."""
    threads = settings.threads
    processor = lane.machine.processor
    if threads is None:
        return
    if lane.row.engine.sizes_own_threads and lane.on_processor and threads != processor.cores_usable:
        raise UsageError(
            f"threads={threads}: XLA takes as many threads as it may use cores, here {processor.cores_usable}",
            "leave threads out, or start laptime on fewer cores: taskset -c 0 laptime ...",
        )
    if threads > processor.cores_visible:
        cores = processor.cores_visible
        raise UsageError(f"threads={threads}: this machine has {cores} cores", f"1 to {cores}")


def refuse_malloc(settings: Settings, lane: LaneFacts) -> None:
    if settings.malloc == "keep" and "malloc" not in lane.device.features:
        says = f"malloc=keep is a setting of glibc, which {lane.machine.system} does not use"
        raise UsageError(says, "leave it out")


def refuse_input(settings: Settings, lane: LaneFacts) -> None:
    kind = settings.input
    workload = lane.workload
    if kind == "copy" and lane.on_processor:
        raise UsageError(
            "input=copy: on a processor batches are where they are used, and nothing is copied",
            "leave the lane out, or name input=only: the loader alone",
        )
    if kind in {"copy", "resident"} and lane.row.is_opaque:
        raise UsageError(
            f"input={kind}: laptime cannot place the batches of a framework that it does not know",
            "name input=only"
            if kind == "copy"
            else "let the data lie on the device that LAPTIME_DEVICE names, or name input=cached",
        )
    if kind == "fast" and workload is None:
        raise UsageError(
            "input=fast: laptime cannot replace the loader of a training of your own",
            "leave it out, or name input=cached",
        )
    if kind in FROM_FILES and workload is not None and workload.reads_files and not lane.subject.reads_images:
        raise UsageError(
            f"input={kind}: {workload.name} reads image files, and Pillow is not installed",
            f"{install_command('images')}, or name input=cached: decoded images made in memory",
        )
    if kind == "fast" and workload is not None and not workload.reads_files and lane.row.family == "keras":
        raise UsageError(
            f"input=fast: {workload.name}'s arrays lie in memory, and Keras's fit cuts them itself",
            "leave it out, or name input=cached: without shuffling",
        )


def refuse_workers(settings: Settings, lane: LaneFacts) -> None:
    """Refuse loader processes where there is nothing to load."""
    workers = settings.workers
    kind = settings.input
    workload = lane.workload
    own = lane.subject.own
    if workers is None or kind == "fast":
        return
    if workload is not None and lane.row.runs_own_code and not workload.reads_files:
        raise UsageError(
            f"workers={workers}: the arrays of {workload.name} lie in memory, and are read by nobody",
            "leave workers out",
        )
    if workload is None and lane.row.takes_steps_only:
        raise UsageError(
            f"workers={workers}: the data of a step of your own are iterated as they are", "give them workers there"
        )
    if own is not None and not own.takes_workers:
        raise UsageError(
            f"workers={workers}: the data of {lane.subject.name} are {own.data}, which worker processes cannot load",
            "give a DataLoader or a PyDataset whose items have numbers, or leave workers out",
        )
    if kind in KEPT_INPUTS:
        raise UsageError(
            f"workers={workers} with input={kind}: batches that are kept need no loader",
            "leave input out, or leave workers out",
        )


def refuse_prefetch(settings: Settings, lane: LaneFacts) -> None:
    """Refuse to set what worker processes prepare where no DataLoader of the user's own has any."""
    prefetch = settings.value_of("prefetch")
    own = lane.subject.own
    if prefetch is None:
        return
    if lane.framework == SCRIPT:
        _refuse_without_workers(f"prefetch={prefetch}", settings)
        return
    if lane.workload is not None or not lane.row.changes_own_steps or (own is not None and not own.takes_workers):
        raise UsageError(
            f"prefetch={prefetch}: it is what each worker of a DataLoader of your own prepares, and there is none",
            "leave it out",
        )
    if own is not None and not own.has_workers and not settings.workers:
        raise UsageError(f"prefetch={prefetch}: its DataLoader has no workers", "add some: workers=2")
    if settings.input in KEPT_INPUTS:
        raise UsageError(f"prefetch={prefetch} with input={settings.input}: nothing is loaded", "leave one of them out")


def refuse_persistent(settings: Settings, lane: LaneFacts) -> None:
    if settings.value_of("persistent") == "on":
        _refuse_elsewhere("persistent=on", "the workers of your DataLoader stay as you made them", lane)
        _refuse_without_workers("persistent=on", settings)


def _refuse_without_workers(word: str, settings: Settings) -> None:
    """Refuse what belongs to workers on a lane that names none; how many a script has itself is known once it runs."""
    if settings.workers == 0:
        raise UsageError(f"{word} with workers=0: there is no worker", "leave one of them out")


def refuse_processes(settings: Settings, lane: LaneFacts) -> None:
    if settings.value_of("processes") == "on":
        _refuse_elsewhere("processes=on", "your PyDataset loads as you made it", lane)
        _refuse_without_workers("processes=on", settings)


def refuse_pinned(settings: Settings, lane: LaneFacts) -> None:
    if settings.value_of("pinned") != "on":
        return
    _refuse_elsewhere("pinned=on", "the batches of your DataLoader are as you made them", lane)
    if lane.on_processor:
        raise UsageError("pinned=on: pinned memory is for copies to a card", "leave it out")


def refuse_changed_line(name: str) -> Callable[[Settings, LaneFacts], None]:
    def refuse(settings: Settings, lane: LaneFacts) -> None:
        if (where := settings.value_of(name)) is not None:
            _refuse_elsewhere(f"{name}={where}", "laptime does not change your code", lane)

    return refuse


def _refuse_elsewhere(word: str, why: str, lane: LaneFacts) -> None:
    if lane.framework != SCRIPT:
        raise UsageError(f"{word} is a setting of unmodified scripts; {why}", "set it there")


def refuse_rate(settings: Settings, lane: LaneFacts) -> None:
    if lane.workload is None and settings.learning_rate is not None:
        raise UsageError("lr=X: a training of your own brings its optimizer with it", "set the rate there")


def refuse_items(settings: Settings, lane: LaneFacts) -> None:
    """Refuse a number of items where laptime makes none, and one with which a class would have no item."""
    items = settings.value_of("items")
    workload = lane.workload
    if items is None:
        return
    if workload is None:
        raise UsageError(f"items={items}: a training of your own brings its data with it", "leave items out")
    if lane.subject.data_is_given:
        raise UsageError(f"items={items} is how many are made, and --data brings its own", "leave one of them out")
    if int(items) < workload.least_items:
        says = f"items={items}: {workload.name} has items of {workload.least_items} classes"
        raise UsageError(says, f"{workload.least_items} or more")


def refuse_augment(settings: Settings, lane: LaneFacts) -> None:
    """Refuse to say where images are turned if laptime's loader does not turn them."""
    where = settings.value_of("augment")
    workload = lane.workload
    if where is None:
        return
    if workload is None or not workload.turned:
        what = lane.subject.name if workload is None else workload.name
        raise UsageError(f"augment={where}: laptime turns no images of {what}", "leave it out")
    if "augment" not in lane.device.features:
        raise UsageError(f"augment={where}: {lane.framework} turns images on the host", "leave it out")
    if settings.input != "fast" and (settings.input != "only" or settings.preset == AS_WRITTEN):
        raise UsageError(f"augment={where}: only our loader can do it in either place", "add input=fast")


def refuse_steps_at_once(settings: Settings, lane: LaneFacts) -> None:
    at_once = settings.steps_per_execution
    if lane.framework == SCRIPT:
        return  # whether it trains by Keras's fit, and on which engine, is known once it runs
    if at_once is not None and lane.row.family != "keras":
        raise UsageError(
            f"steps_per_execution={at_once}: that is a word of Keras's, and not of {lane.framework}'s",
            "race it in a Keras lane, or name graph or compile here",
        )
    if at_once not in {None, 1} and lane.row.engine.name == "torch":
        raise UsageError(f"steps_per_execution={at_once}: on PyTorch Keras takes one step at a time", "leave it out")


def refuse_denormals(settings: Settings, lane: LaneFacts) -> None:
    if settings.denormals != "flush":
        return
    framework = lane.framework
    if not lane.on_processor:
        where = f"{framework}/{lane.device.name}"
        raise UsageError(f"denormals=flush is a switch of processors, and {where} is none", "leave it out")
    if lane.row.engine.denormals == "always flushed":
        raise UsageError(f"denormals=flush: {framework} already treats denormal numbers as 0", "leave it out")
    if lane.row.engine.denormals != "switch":
        raise UsageError("denormals=flush: a step of your own computes as its code says", "set it there")


def refuse_numbers(settings: Settings, lane: LaneFacts) -> None:
    numbers = settings.value_of("numbers")
    if numbers is None:
        return
    if lane.workload is not None:
        raise UsageError(f"numbers={numbers}: {lane.workload.name} computes in float32 at most", "leave it out")
    if lane.row.family != "torch" and lane.framework != SCRIPT:
        raise UsageError(f"numbers={numbers}: {lane.framework} trains in the numbers of its code", "set them there")


def refuse_matmul(settings: Settings, lane: LaneFacts) -> None:
    if settings.value_of("matmul") is not None and lane.framework != SCRIPT:
        raise UsageError("matmul is a setting of unmodified scripts", "name tf32 or bf16 here")


def refuse_reads(settings: Settings, lane: LaneFacts) -> None:
    if settings.reads != "deferred" or not lane.row.runs_own_code:
        return
    if not lane.row.changes_own_steps:
        raise UsageError(
            f"reads=deferred: only PyTorch's own lanes can be told stale values, and not {lane.framework}",
            "leave it out, or take the reads out of its code and race two functions",
        )
    if lane.workload is not None:
        says = f"reads=deferred: a step of {lane.workload.name} reads nothing from its device"
        raise UsageError(says, "leave it out")
    if settings.input in NO_TRAINING:
        raise UsageError(
            f"reads=deferred with input={settings.input}: nothing is computed that could be read",
            "leave one of the two out",
        )
    if settings.execution != "eager":
        raise UsageError(
            f"reads=deferred with {settings.execution}: what is compiled or captured reads in its own way",
            "race it eager",
        )


def why_not_for(command: str, lane: PlannedLane, subject: Subject) -> tuple[str, str] | None:
    """Return why `train` or `infer` cannot run a lane, and a hint: it runs single steps only, or trains nothing."""
    row = lane.row
    kind = lane.settings.input
    takes_step = row.takes_steps_only or subject.gives_step
    if takes_step and command == "train":
        says = "is of a step function, which is timed, and not trained whole, in this version"
        return says, "laptime race takes it"
    if takes_step:
        return "takes steps of your own, and a step gives no answers", "leave its lanes out"
    if command == "infer" and subject.file is not None and row.family == "keras":
        says = "cannot be asked; of trainings of your own only torch lanes answer so far"
        return says, "leave the Keras lanes out"
    if kind in NO_TRAINING:
        does = "loads" if kind == "only" else "copies"
        says = f"trains nothing, it only {does}" if command == "train" else f"only {does}, and answers nothing"
        return says, f"leave input={kind} out"
    return None


# What is known of one setting of a lane: how it is written, read, listed, chosen and refused.

LARGEST_COUNT = 1_000_000


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. A lane writes it as `name=value`, or as the value alone if it `stands_alone`.

    `listed` are the values as lists of settings show them, or a placeholder if it is a number (`kind`). `accepts`
    checks a value (default: a listed value, or a count); `takes` describes the allowed values. `fields` names the
    fields of Settings that it sets (default: the field of its name), and `read` returns their values. If there is no
    such field, the value is in `Settings.extra`; see `value_of(name)`.

    `tunes` returns the values that `laptime tune` tries on a lane.

    `applied` names, by framework, the kinds of devices on which it is applied (default: everywhere): by its
    `environment`, by code of the back end that reads its value, or by the back end's function of its name (`@switch`).
    There a device has its name among its features. A script that nobody changes can have the values of `outside`, too;
    N is any number, and 2x any multiple. `rewrite` is the word of a change of code (`questions/rewrites.py`) that sets
    it in the script; {value} is the value, {device} the kind of device.

    `best` returns the value that the preset `best` sets on a lane, and `fastest` that of `fastest` if it differs
    (None: as written). `refuse` raises UsageError if the setting is not possible. `refused_for` maps a command (train,
    infer) to what is wrong with the setting there, and a hint. `environment` returns variables of the lane's process.
    `code` does the same in a training of your own, where no experiment of `why` has it; {value} is the value. In a
    script that trains by Keras's `fit`, it is `in_keras`, where there is one.
    """

    name: str
    listed: tuple[str, ...]
    about: str
    takes: str = ""
    stands_alone: bool = False
    kind: type[str | int | float] = str
    accepts: Callable[[str], bool] | None = None
    only_of: str = ""
    changes: Literal["", "arithmetic", "learning"] = ""
    fields: tuple[str, ...] = ()
    read: Callable[[str, LaneFacts], dict[str, Any]] | None = None
    tunes: Callable[[LaneFacts], tuple[str, ...]] = lambda _lane: ()
    best: Callable[[LaneFacts], Any] = lambda _lane: None
    fastest: Callable[[LaneFacts], Any] | None = None
    refuse: Callable[[Settings, LaneFacts], None] = lambda _settings, _lane: None
    refused_for: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    environment: Callable[[Settings, Device], dict[str, str]] = lambda _settings, _device: {}
    applied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outside: tuple[str, ...] = ()
    code: str = ""
    in_keras: str = ""
    rewrite: str = ""

    @property
    def main_field(self) -> str:
        """Return the field of Settings that it sets, or the first if it sets two."""
        return self.fields[0] if self.fields else self.name

    def can_be(self, value: str) -> bool:
        if self.accepts:
            return self.accepts(value)
        return value in self.listed if self.kind is str else is_count(value)

    def can_be_outside(self, value: str) -> bool:
        """Whether a script that nobody changes can have this value."""
        is_one_of_many = ("N" in self.outside and value.isdecimal()) or A_LINE in self.outside
        return value in self.outside or is_one_of_many or ("2x" in self.outside and is_count(value.removesuffix("x")))

    def values_of(self, settings: Settings) -> tuple[Any, ...]:
        return tuple(map(settings.value_of, self.fields or (self.name,)))

    def fill(self, text: str, lane: LaneFacts) -> dict[str, Any]:
        """Return the values that a written value sets, by field."""
        return self.read(text, lane) if self.read else {self.main_field: self.kind(text)}

    def written(self, value: str) -> str:
        return value if self.stands_alone else f"{self.name}={value}"

    def list_values(self, values: tuple[str, ...]) -> str:
        """Return values as lists of settings show them: `a, b`, `name=a|b` or `name=N, name=4x`."""
        if self.stands_alone or self.kind is not str:
            return ", ".join(map(self.written, values))
        return self.written("|".join(values))


def is_count(value: str) -> bool:
    return re.fullmatch("[1-9][0-9]{0,6}", value) is not None and int(value) <= LARGEST_COUNT


def switch(name: str, value: str, usual: str, about: str, takes: str, **more: Any) -> Setting:
    """Return a setting with one value besides the usual one, which only some devices have."""
    more = {"refuse": partial(refuse_switch, name, value), **more}
    accepts = {value, usual}.__contains__
    return Setting(name, (value,), about, takes=f"{value} ({takes}) or {usual}", accepts=accepts, **more)


def first_of(tries: Callable[[LaneFacts], tuple[str, ...]]) -> Callable[[LaneFacts], str | None]:
    """Return the choice of a preset that takes what is tried first."""
    return lambda lane: next(iter(tries(lane)), None)


# What the settings of a lane depend on: where it runs, and what it trains.


@dataclass(frozen=True, slots=True)
class SubjectFacts:
    """What settings depend on in the subject. `own` is what a user's function returned, if it was called.

    `data_is_given` is true where real data is named, and none are made.
    """

    workload: Workload | None
    reads_images: bool = True
    own: OwnTraining | None = None
    name: str = ""
    gives_step: bool = False
    data_is_given: bool = False

    @property
    def may_convolve(self) -> bool:
        return self.workload is None or any(isinstance(layer, Conv) for layer in self.workload.layers)

    @property
    def may_drop(self) -> bool:
        return self.workload is None or any(isinstance(layer, Dropout) for layer in self.workload.layers)

    @property
    def reads_files(self) -> bool:
        return self.workload is not None and self.workload.reads_files


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """Everything that a lane's settings depend on: where it runs, and what it trains."""

    row: FrameworkRow
    device: Device
    machine: Machine
    subject: SubjectFacts
    devices: tuple[Device, ...] = ()  # all, of a lane on several
    group: str = ""  # the name of these
    spread: tuple[int, ...] = ()  # how many of these are on each of several nodes

    @property
    def cores(self) -> int:
        """How many cores one process may use: on a processor, the processes of a group share those of a node out."""
        share = self.most_on_a_node if self.devices and self.on_processor and self.row.spreads == "ranks" else 1
        return self.machine.processor.cores_usable // share

    @property
    def free_cores(self) -> int:
        """How many of these no other process fills; a group shares out all of them."""
        return self.cores if self.devices else max(1, self.cores - self.machine.cores_taken)

    @property
    def most_on_a_node(self) -> int:
        """How many of its devices are on one node, at most."""
        return max(self.spread, default=len(self.devices))

    @property
    def framework(self) -> str:
        return self.row.name

    @property
    def workload(self) -> Workload | None:
        return self.subject.workload

    @property
    def on_processor(self) -> bool:
        return self.device.kind == "cpu"
