"""The measured lane that a forecast begins with: its step, the operators of that step, its loader, its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from laptime.machine.hardware import known_devices, match_label
from laptime.model.errors import RecordError, UsageError
from laptime.model.hardware import (
    DeviceKey,
    DevicePeaks,
    KnownDevice,
    Launching,
    Range,
    ScriptLoading,
    StepOperator,
    StepWork,
    key_of,
)
from laptime.model.machine import Machine, Processor
from laptime.model.precisions import PRECISIONS
from laptime.model.process import AS_WRITTEN, NO_TRAINING, Settings, is_exactly
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, Record
from laptime.model.rows import is_lane
from laptime.model.workload import AT_WIDTH, FLOAT_BYTES
from laptime.questions.bounds import Recall
from laptime.questions.forecast.memory import (
    CardNeed,
    need_as_measured,
    need_of_built_in,
    need_of_step,
    space_of_libraries,
)
from laptime.questions.forecast.reduce import NEW_NETWORK_SPREAD, ProcessorRate, rate_of, times_as_long
from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.shapes import list_operators

FORECAST_SCRIPT = "laptime forecast SCRIPT.py -- ARGUMENTS runs the script for a minute, and predicts it"
IN_NINETY_FIVE = 1.96  # standard deviations on each side of a step's interval
FITTED_TRAININGS = (
    "cifar-cnn",
    "cifar-mlp",
    "scenes-cnn",
    "pets-densenet",
)  # measured on a card: bench/forecast_measured.py
CAPTURED = ("graph", "compiled_graph")
OTHERS_STEPS = 1_000  # what is predicted of a training whose lap has no known length
LOADER_SPREAD = 0.25  # of a loader on another processor, as a logarithm
SHARED_SPREAD = 0.4  # of one that was timed while the training took cores: a guess, with those it may be faster
LEAST_LOADING_S = 1e-7  # of a step that waits for no batch
BUSY_WAIT = 0.05  # of a step: whose worker processes are waited for less than that keep up
LOADER_NOT_TIMED = Missing("it was not timed alone")
READS_NO_FILES = Missing("this training reads no files")
NO_LOADER_TIMED = Missing("no data loader was seen in the script, and what makes its batches was not timed")
WORKERS_KEEP_UP = Missing("its worker processes keep up here, and were not timed alone")
HELD_BATCHES = Missing("its batches are held in memory")
WITHOUT_LOADER = ("cached", "resident", "one")  # batches that no loader makes
NO_OPERATORS = Missing("its operators were not counted")
NOT_FOLLOWED = Missing("what its step holds was not counted")
ARM = {"aarch64", "arm64"}
NO_PROCESSOR = Missing("a processor is predicted from a lane that ran on one")
NO_PEAKS = Missing("what the measured processor can do at most is not known: laptime devices --measure")
"""Returns what a device was measured to do at most."""


def nothing_kept(_key: DeviceKey) -> DevicePeaks | Missing:
    return NO_PEAKS


@dataclass(frozen=True, slots=True)
class MeasuredLoader:
    """How many items a second the loader of a lane makes: on one core, if it is laptime's own, which takes all but one.

    With `is_in_step` a step makes its batch itself, and computes nothing meanwhile: both times add up.
    """

    items_per_s: float
    is_in_step: bool = False
    spread: float = LOADER_SPREAD


@dataclass(frozen=True, slots=True)
class MeasuredLane:
    """The lane that a forecast begins with. `execution` is who launches its operators.

    `operators` are those of a step in the arithmetic of the lane. `loader` is how its batches are made. `per` names
    what `steps` steps are, of which the whole training has `laps`. `doubt` is the spread that every prediction has
    besides that of its device: no step of the network was fitted, or its steps differ. `processor` is what the lane's
    own one does in large products, from which other processors are predicted. `python_s` is what Python computes
    between the operators of a step, where that is more than usual, at the core's speed that `core_score` is: the
    fastest that was seen there. `need` is what a step needs of a card's memory.
    """

    lane: LaneResult
    what: str
    machine: Machine
    step_ms: float
    batch: int
    precision: str
    operators: tuple[StepOperator, ...]
    loader: MeasuredLoader | Missing
    need: CardNeed | Missing
    execution: Launching
    per: str
    steps: float
    laps: int
    doubt: float = 0.0
    python_s: float = 0.0
    core_score: float | None = None
    processor: ProcessorRate | Missing = NO_PROCESSOR
    notes: tuple[str, ...] = ()

    @property
    def knows_loader(self) -> bool:
        """Whether its loader was timed, or it has none."""
        return isinstance(self.loader, MeasuredLoader) or self.loader in {READS_NO_FILES, HELD_BATCHES}

    @property
    def place(self) -> str:
        """The processor or the card that was measured."""
        device = self.lane.device
        return self.machine.processor.name if device.kind == "cpu" else device.label

    @property
    def spread(self) -> float:
        """The spread of the measured step itself, as that of a prediction; none where one heat alone was run."""
        step = self.lane.step_ms
        if step is None or step.ends is None or step.ends[0] <= 0:
            return 0.0
        low, high = step.ends
        return math.log(high / low) / 2 / IN_NINETY_FIVE

    def memory_on(self, device: KnownDevice) -> Range | None:
        """Return the memory that is needed there: of a processor, what the process held here."""
        if device.kind != "cpu":
            return None if isinstance(self.need, Missing) else self.need.on(device)
        held = self.lane.peak_memory_bytes
        return None if isinstance(held, Missing) else Range(held, held, held)


IN_FLOAT64 = Missing("its weights are float64: what cards reach in float64 is not in laptime's tables")


def find_lane(record: Record, name: str | None) -> LaneResult:
    """Return the lane that is meant: by its name, or else the last that trains, which is the best one of a race.

    The lanes of a `why` after its first are experiments, some of them without the loader.
    """
    training = training_lanes(record)
    if name is None and record.question == "why" and training[:1] == [*record.lanes[:1]]:
        return training[0]
    meant = training if name is None else [lane for lane in training if is_exactly(lane.name, name)]
    meant = meant or [lane for lane in training if name is not None and is_lane(lane.name, name)]
    if record.question == "watch":
        raise UsageError(f"{record.id} is of a watch, which counts no operators", FORECAST_SCRIPT)
    if not meant:
        lanes = ", ".join(lane.name for lane in training) or "none"
        raise RecordError(f"{record.id} has no measured lane {name or 'that trains'}", f"it has: {lanes}")
    return meant[-1]


def training_lanes(record: Record) -> list[LaneResult]:
    """Return the lanes that trained on one device."""
    done = [lane for lane in record.lanes if lane.status == "ok" and lane.step_ms is not None]
    return [lane for lane in done if lane.settings.input not in NO_TRAINING and not lane.devices]


def measure_lane(record: Record, lane: LaneResult) -> MeasuredLane | Missing:
    """Return what is known of a lane, or why nothing can be predicted from it."""
    subject = lane.training or record.workload.name
    if any(result.heat.census is not None and "float64" in result.heat.census.types for result in lane.heats):
        return IN_FLOAT64
    if is_built_in(subject):
        return _measure_built_in(record, lane, subject)
    for heat in (result.heat for result in lane.heats):  # of a script: it was counted inside
        if heat.work is not None:
            return _measure_own(record, lane, subject, heat.work)
        if heat.uncounted is not None:
            return Missing(heat.uncounted)
    others = {other.subject.name: other.reference for other in record.others}
    reference = others.get(subject, record.reference)
    if reference is None or reference.work is None or not reference.work.operators:
        uncounted = None if reference is None else reference.uncounted
        return NO_OPERATORS if uncounted is None else Missing(uncounted)
    return _measure_own(record, lane, subject, reference.work)


def is_built_in(subject: str) -> bool:
    return subject.partition(AT_WIDTH)[0] in CATALOGUE


def _measure_built_in(record: Record, lane: LaneResult, subject: str) -> MeasuredLane:
    assert lane.step_ms is not None
    workload = find_workload(subject)
    batch = lane.settings.batch or workload.batch
    precision = _precision_of(lane.settings)
    operators = list_operators(workload, batch, precision)
    return MeasuredLane(
        lane=lane,
        what=workload.name,
        machine=record.machine,
        core_score=core_score_of(record.machine.processor),
        step_ms=lane.step_ms.median,
        batch=batch,
        precision=precision,
        operators=operators,
        loader=_loader_of(record, lane) if workload.reads_files else READS_NO_FILES,
        need=need_of_built_in(
            workload, batch, _narrower(precision), space_of_libraries(operators, _execution_of(lane))
        ),
        execution=_execution_of(lane),
        per="lap",
        steps=workload.steps_per_lap * workload.batch / batch,
        laps=workload.laps,
        doubt=0.0 if workload.name in FITTED_TRAININGS else NEW_NETWORK_SPREAD,
    )


def _measure_own(record: Record, lane: LaneResult, subject: str, work: StepWork) -> MeasuredLane:
    """Return what is known of a user's own training: what its step calls was counted, and its lap may have a length."""
    assert lane.step_ms is not None
    is_narrow = work.value_bytes < FLOAT_BYTES  # its own code computes in 16 bits
    precision = "bf16" if is_narrow else _precision_of(lane.settings)
    has_lap = lane.lap_s is not None
    larger = lane.items_per_step / work.items if lane.items_per_step and work.items else lane.settings.joined or 1
    narrower = 1.0 if is_narrow else _narrower(precision)
    need = _need_of(lane, work, larger, narrower)
    notes: tuple[str, ...] = ("one step was counted, as its operators were called",)
    if isinstance(need, Missing):
        notes = (*notes, f"what it needs of a card's memory is not known: {need.missing}")
    if work.varies:
        notes = (
            *notes,
            f"two steps differ by {100 * work.varies:.0f} % in what they compute: their batches have other shapes",
        )
    python_s = _python_of(lane, work)
    if python_s:
        notes = (*notes, f"Python computes {1e3 * python_s:.3g} ms of each step between its operators")
    meanwhile = core_score_of(record.machine.processor) if work.core_score is None else work.core_score
    fastest = max(filter(None, (core_score_of(record.machine.processor), meanwhile)), default=None)
    return MeasuredLane(
        lane=lane,
        what=subject,
        machine=record.machine,
        core_score=fastest,
        step_ms=lane.step_ms.median,
        batch=lane.items_per_step or 1,
        precision=precision,
        operators=scale_operators(work.operators, larger, narrower),
        loader=_loader_of_script(record, lane, work.loading) if _is_script(lane) else _loader_of(record, lane),
        need=need,
        execution=_execution_of(lane),
        per="lap" if has_lap else f"{OTHERS_STEPS:,} steps",
        steps=1e3 * lane.lap_s.median / lane.step_ms.median if lane.lap_s is not None else OTHERS_STEPS,
        laps=1,
        doubt=math.hypot(NEW_NETWORK_SPREAD, math.log1p(work.varies)),
        python_s=python_s * times_as_long(meanwhile, fastest),
        notes=notes,
    )


def _execution_of(lane: LaneResult) -> Launching:
    """Return who launches operators: PyTorch as written, or in a script, one by one; all others whole steps."""
    is_plain = _is_script(lane) or (lane.name.startswith("torch/") and lane.settings.preset == AS_WRITTEN)
    return "eager" if is_plain and lane.settings.execution == "eager" else "graph"


def _is_script(lane: LaneResult) -> bool:
    """Whether a lane is of a script that nobody changed: its operators were counted inside of it."""
    return any(result.heat.work is not None for result in lane.heats)


def _need_of(lane: LaneResult, work: StepWork, larger: float, narrower: float) -> CardNeed | Missing:
    """Return what a step needs of a card: as it was measured on one, else as its tensors were counted."""
    if lane.device.kind == "cuda":
        held = lane.device_memory_bytes
        return held if isinstance(held, Missing) else need_as_measured(held)
    return (
        NOT_FOLLOWED
        if work.memory is None
        else need_of_step(
            work.memory,
            larger,
            space_of_libraries(work.operators, _execution_of(lane)),
            is_narrow=narrower < 1,
        )
    )


def _narrower(precision: str) -> float:
    """Return the bytes of a value, as a share of those in float32."""
    return PRECISIONS[precision].bytes / FLOAT_BYTES


def _python_of(lane: LaneResult, work: StepWork) -> float:
    """Return how long Python computes between the operators of a lane's step.

    It was timed on the processor, where freeing large tensors counts with it. A step on a card shows the most that it
    can be, and a captured step runs none of it.
    """
    if lane.settings.execution in CAPTURED:
        return 0.0
    if lane.device.kind == "cpu" or lane.step_ms is None:
        return work.python_s
    return min(work.python_s, lane.step_ms.median / 1e3)


def find_processor(
    record: Record, lane: LaneResult, recall: Recall, devices: Sequence[KnownDevice] = ()
) -> ProcessorRate | Missing:
    """Return what the processor of a lane does in large products, with the threads of the lane.

    As it was measured at the time of the race, or since; else as its name is known, among the devices or in the table.
    """
    if lane.device.kind != "cpu":
        return NO_PROCESSOR
    processor = record.machine.processor
    precision = _precision_of(lane.settings)
    cores = min(lane.settings.threads or processor.cores_usable, processor.cores_usable)
    kept = recall(key_of(lane.device, lane.name.partition("/")[0], processor))
    peaks = lane.roofline.peaks if lane.roofline is not None else kept
    if not isinstance(peaks, Missing) and precision in peaks.peaks:
        share = cores / processor.cores_usable
        return ProcessorRate(peaks.peaks[precision].best_per_s * share, cores, processor.architecture in ARM)
    known = match_label(processor.name, (*devices, *known_devices()))
    return NO_PEAKS if known is None else rate_of(known, precision, cores)


def core_score_of(processor: Processor) -> float | None:
    """Return how fast one core of a processor was, or as its name is known."""
    if processor.core_score is not None:
        return processor.core_score
    known = match_label(processor.name, known_devices())
    return None if known is None else known.core_score


def scale_operators(counted: Sequence[StepOperator], larger: float, narrower: float) -> tuple[StepOperator, ...]:
    """Return counted operators as they are with a batch `larger` times as large, and values that take a share of bytes.

    Weights and their update stay as they are.
    """
    return tuple(
        step_operator
        if step_operator.kind == "update"
        else replace(step_operator, flops=larger * step_operator.flops, bytes=larger * narrower * step_operator.bytes)
        for step_operator in counted
    )


def _precision_of(settings: Settings) -> str:
    return "bf16" if settings.preset == "fastest" else settings.precision


def _loader_of(record: Record, lane: LaneResult) -> MeasuredLoader | Missing:
    """Return what the loader of a lane makes alone; of laptime's own, on one core."""
    alone = (
        lane_result for lane_result in record.lanes if lane_result.status == "ok" and _is_loader_of(lane_result, lane)
    )
    rate = next((lane_result.items_per_s.median for lane_result in alone if lane_result.items_per_s is not None), None)
    if rate is None:
        return LOADER_NOT_TIMED
    cores = max(1, record.machine.processor.cores_usable)
    return MeasuredLoader(rate / cores if lane.settings.input == "fast" else rate)


def _loader_of_script(record: Record, lane: LaneResult, loading: ScriptLoading | None) -> MeasuredLoader | Missing:
    """Return what the loader of a script makes: as it was timed alone, else by how the script waited for it.

    A step that waits for worker processes takes as long as they do. How fast others are is not known.
    """
    assert lane.step_ms is not None
    if lane.settings.input in WITHOUT_LOADER:
        return HELD_BATCHES
    is_in_step = loading is not None and not loading.workers
    alone = _loader_of(record, lane)
    if isinstance(alone, MeasuredLoader):
        return replace(alone, is_in_step=is_in_step)
    if loading is None:
        return NO_LOADER_TIMED
    step_s = lane.step_ms.median / 1e3
    items = lane.items_per_step or 1
    if is_in_step:
        return MeasuredLoader(items / min(max(loading.wait_s, LEAST_LOADING_S), step_s), is_in_step=True)
    return (
        WORKERS_KEEP_UP if loading.wait_s < BUSY_WAIT * step_s else MeasuredLoader(items / step_s, spread=SHARED_SPREAD)
    )


def _is_loader_of(alone: LaneResult, lane: LaneResult) -> bool:
    """Whether it is the loader of a lane, alone: the authors' as written, else ours. Kept batches have none."""
    is_ours = alone.settings.preset != AS_WRITTEN
    reads = alone.settings.input == "only" and lane.settings.input == ("fast" if is_ours else "published")
    return reads and alone.training == lane.training


def refuse(record: Record, lane: LaneResult, why: Missing) -> UsageError:
    """Return the error for a lane from which nothing can be predicted."""
    says = f"nothing can be predicted from {lane.name} of {lane.training or record.workload.name}: {why.missing}"
    return UsageError(says, "operators are counted in races of PyTorch trainings; or rent the device for an hour")
