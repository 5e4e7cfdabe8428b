"""Lists of saved records, workloads and made data; the page of a workload, and that of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from laptime.model.ask import DataSource, MadeSet
from laptime.model.machine import Device, Framework, Machine
from laptime.model.options import repeat_options
from laptime.model.plan import Pace, Plan, PlannedLane
from laptime.model.protocol import PROOF_ITEMS, FullPlan, InferPlan, Protocol
from laptime.model.quantities import Missing, percent, size
from laptime.model.questions import find_question
from laptime.model.record import Record
from laptime.model.visible import as_command
from laptime.model.workload import LayerRow, PublishedResult, Sgd, Workload
from laptime.show.pages.layout import Column, flow, padded, table_or_sentences, wrap
from laptime.show.pages.page import NARROWEST
from laptime.show.pages.rows import table_page
from laptime.show.pages.words import (
    about,
    duration,
    lap,
    memory_words,
    processor_words,
    published_lap,
    subject_words,
    whole_size,
)

ANSWERS_PROOF = f"proof: the answers to {PROOF_ITEMS} items, against float64"


def render_workloads(workloads: Iterable[Workload], width: int) -> str:
    """List the built-in workloads."""
    columns: list[Column[Workload]] = [
        Column("workload", lambda workload: workload.name),
        Column("parameters", lambda workload: f"{workload.parameters:,}", right=True),
        Column("batch", lambda workload: f"{workload.batch:,}", right=True),
        Column("steps a lap", lambda workload: f"{workload.steps_per_lap:,}", right=True),
        Column("laps", lambda workload: f"{workload.laps:,}", right=True),
        Column("what it is", lambda workload: workload.title, least=20),
    ]
    return table_page(columns, tuple(workloads), width)


def render_sets(rows: Sequence[MadeSet], width: int) -> str:
    """List sets of made data in the given order."""
    if not rows:
        return "No data made yet; laptime data make WHAT makes some.\n"
    columns: list[Column[MadeSet]] = [
        Column("data", lambda made: made.name),
        Column("train", lambda made: f"{made.train_items:,}", right=True),
        Column("test", lambda made: f"{made.test_items:,}", right=True),
        Column("size", lambda made: size(made.bytes), right=True),
        Column("state", lambda made: made.state),
        Column("folder", lambda made: made.folder, least=20),
    ]
    return table_page(columns, rows, width)


def render_made(row: MadeSet, seconds: float, *, was_there: bool) -> str:
    """Return one line on what was made, or that it was there already."""
    end = "was there already" if was_there else f"made in {about(seconds)}"
    return f"{row.name}: {_contents(row)}, in {row.folder}, {end}\n"


def render_removed(row: MadeSet) -> str:
    return f"{row.name}: removed {_contents(row)}, from {row.folder}\n"


def _contents(row: MadeSet) -> str:
    return f"{row.train_items:,} train and {row.test_items:,} test items, {size(row.bytes)}"


def render_plan(planned: Plan | FullPlan | InferPlan, width: int) -> str:
    """Return what would run: every lane with all its settings, then what each does, the proof and the notes."""
    plan = planned if isinstance(planned, Plan) else planned.plan
    lines = wrap(subject_words(*plan.subjects), width, "  ")
    for lane in plan.lanes:
        lines += ["", *_planned_lane(lane, width)]
    sentences = [*_what_each_does(planned), *plan.notes]
    lines += ["", *(line for sentence in sentences for line in wrap(sentence, width, "  "))]
    return "\n".join(lines) + "\n"


def _what_each_does(planned: Plan | FullPlan | InferPlan) -> list[str]:
    match planned:
        case FullPlan(plan=plan, protocol=protocol, order=order):
            return [*_trainings(plan, protocol), f"order: {order}", _proof(plan)]
        case InferPlan(plan=plan, pace=pace):
            sizes = ", ".join(map(str, pace.batches))
            calls = f"single calls for {lap(pace.measure_s)} ({pace.calls_min:,} to {pace.calls_max:,} of them)"
            heats = f"heats: {pace.heats} of each lane, interleaved"
            answers = [heats, f"each heat: {calls}, then batches of {sizes} for as long each"]
            return [*answers, ANSWERS_PROOF, f"budget: {duration(plan.ask.budget_s)}"]
        case Plan():
            return [_heats(planned), _windows(planned.pace), _proof(planned), _budget(planned)]


def _trainings(plan: Plan, protocol: Protocol) -> list[str]:
    items = plan.subject.items
    steps = "" if protocol.steps_per_lap is None else f" of {protocol.steps_per_lap:,} steps"
    lines = [f"each lane: {protocol.laps:,} lap{'s' * (protocol.laps != 1)}{steps}, a checkpoint after each"]
    if protocol.validation_items:
        lines += [f"validation after each lap: the first {protocol.validation_items:,} test {items}, or all there are"]
    if protocol.evaluation_items:
        lines += [f"a test at the end: {protocol.evaluation_items:,} {items}, or as many as there are"]
    if protocol.seeds > 1:
        lines += [f"seeds: {protocol.seeds}, from {plan.ask.seed} on"]
    return lines


def _planned_lane(lane: PlannedLane, width: int) -> list[str]:
    known = (
        (field.name, getattr(lane.settings, field.name)) for field in fields(lane.settings) if field.name != "extra"
    )
    values = (*known, *lane.settings.extra.items())
    settings = [f"{name}={'not set' if value is None else value}" for name, value in values]
    lines = wrap(f"{lane.name}  {lane.framework} on {lane.device.label}", width, "  ")
    lines += wrap("  " + " ".join(settings), width, "    ")
    if lane.environment:
        pairs = " ".join(f"{key}={value}" for key, value in sorted(lane.environment.items()))
        lines += wrap(f"  environment: {pairs}", width, "    ")
    return lines + [line for note in lane.notes for line in wrap(f"  {note}", width, "    ")]


def _heats(plan: Plan) -> str:
    pace = plan.pace
    how = "in turns" if pace.takes_turns else "one after another"
    why = f" ({plan.alone})" if plan.alone is not None else ""
    if pace.heats_min == pace.heats_max or not pace.adaptive:
        return f"heats: {pace.heats_max} of each lane, {how}{why}"
    ends = f"until every ratio is well within {percent(plan.ask.margin)}"
    return f"heats: {pace.heats_min} to {pace.heats_max} of each lane, {how}{why}, {ends} or the budget is used"


def _windows(pace: Pace) -> str:
    windows = f"at least {pace.windows_min} windows of {lap(pace.window_s)}"
    return f"each heat: {lap(pace.measure_s)} of timing, {windows}, at most {pace.reruns_max} run again"


def _proof(plan: Plan) -> str:
    proof = plan.proof
    rate = f"{proof.learning_rate_scale:g} of the learning rate"
    single = proof.single_step_scale
    more = f", two single steps at {single:g} times it" if single is not None else ""
    batches = f"batch {proof.batch}" if plan.subject.is_built_in else "its own batches"
    return f"proof: {proof.steps} steps of {batches} at {rate}{more}, against float64"


def _budget(plan: Plan) -> str:
    """Return the budget and the least time that timing takes. Start-up and proof are not known in advance."""
    heats = plan.pace.heats_min * len(plan.lanes)
    least = f"{heats} heats are {duration(heats * plan.pace.measure_s)} of timing at least"
    return f"budget: {duration(plan.ask.budget_s)}; {least}, start-up, building and proof come on top"


# The command that asks the same question again, from what a record says was asked.


def repeat_words(record: Record) -> str:
    """Return the command, with the lanes that ran and every option that is not the default; or what was watched."""
    ask, command = record.ask, find_question(record.question).command
    named = [word for word in (ask.what, *ask.others, *ask.lanes) if word] if command != "watch" else []
    behind = ("--", *ask.command) if ask.command else ()
    return as_command(["laptime", command, *named, *repeat_options(command, ask), *behind])


# A workload's page (layers, training, published results), and the environment block of a full training.

PLACEMENTS = {"before": "added before the bias correction", "after": "added after the bias correction"}
LIBRARY_NAMES = {"cuda": "CUDA", "cudnn": "cuDNN", "hip": "HIP", "miopen": "MIOpen", "nccl": "NCCL", "rccl": "RCCL"}
LIBRARY_NAMES |= {"onednn": "oneDNN"}
# The details of a device that are shown, in this order. Its other details are for programs.
DEVICE_DETAILS = {
    "capability": "compute capability {}",
    "memory": "{}",
    "driver": "driver {}",
    "multiprocessors": "{} multiprocessors",
    "threads": "{} threads",
    "vector": "{}",
}


def render_workload(workload: Workload, rows: Sequence[LayerRow], width: int) -> str:
    """Return a workload's page, at most `width` cells wide."""
    width = max(width, NARROWEST)
    lines = wrap(f"{workload.name}  {workload.title}", width, "  ")
    lines += ["", *layer_lines(workload, rows, width), "", *fact_lines(_protocol(workload), width)]
    lines += [line for result in workload.published.results for line in _result_lines(result, width)]
    return "\n".join(lines) + "\n"


def layer_lines(workload: Workload, rows: Sequence[LayerRow], width: int) -> list[str]:
    """Return the layers as a table from the input to the total, or as sentences if no table fits."""
    shown = [
        ("input", shape_words(workload.image_shape), ""),
        *((row.layer, shape_words(row.output_shape), f"{row.parameters:,}") for row in rows),
        ("total", "", f"{sum(row.parameters for row in rows):,}"),
    ]
    columns: list[Column[tuple[str, str, str]]] = [
        Column("layer", lambda row: row[0], least=16),
        Column("output shape", lambda row: row[1]),
        Column("parameters", lambda row: row[2], right=True),
    ]
    return table_or_sentences(columns, shown, width)


def fact_lines(facts: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Return two columns: names, and what is said of each. An empty name continues the one before."""
    pairs = list(facts)
    wide = max((len(name) for name, _ in pairs), default=0) + 2
    return [line for name, says in pairs for line in wrap(f"{padded(name, wide)}{says}", width, " " * wide)]


def shape_words(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def classes_words(classes: Sequence[str]) -> str:
    """Return the number and names of the classes. Single characters are written without commas."""
    names = ("" if all(len(name) == 1 for name in classes) else ", ").join(classes)
    return f"{len(classes)} classes: {names}"


def _protocol(workload: Workload) -> list[tuple[str, str]]:
    items = workload.items
    counts = f"{workload.train_items:,} {items} for training, {workload.test_items:,} for testing"
    optimizer = workload.optimizer
    rate, decay = f"learning rate {optimizer.learning_rate:g}", f"weight decay {optimizer.weight_decay:g}"
    if isinstance(optimizer, Sgd):
        optimizer_words = f"SGD, {rate}, {decay}"
    else:
        betas = f"beta1 {optimizer.beta1:g}, beta2 {optimizer.beta2:g}"
        small = f"{optimizer.epsilon:g}".replace("e-0", "e-")
        epsilon = f"epsilon {small} ({PLACEMENTS[optimizer.epsilon_placement]})"
        optimizer_words = f"Adam, {rate}, {betas}, {epsilon}, {decay}"
    return [
        ("loss", workload.loss.replace("_crossentropy", " and cross-entropy, on the last layer's outputs")),
        ("optimizer", optimizer_words),
        ("batch", f"{workload.batch:,} {items}"),
        ("a lap", f"{workload.steps_per_lap:,} steps; {workload.laps:,} laps"),
        ("data", f"{counts}; {classes_words(workload.classes)}"),
        ("published", f"{workload.published.claim} ({workload.published.source})"),
    ]


def _result_lines(result: PublishedResult, width: int) -> list[str]:
    """Return everything that was reported for one device."""
    parts = []
    if len(result.lap_s) == 1:
        parts.append(f"a lap {published_lap(result.lap_s[0])}")
    elif result.lap_s:
        parts.append(f"laps {_listed(result.lap_s)} s")
    parts += [f"step {_listed(result.step_ms)} ms"] if result.step_ms else []
    parts += [f"{duration(result.total_s)} in all"] if result.total_s is not None else []
    times = parts + ([f"one item inferred in {result.infer_one_s:g} s"] if result.infer_one_s is not None else [])
    figures = {"loss": result.loss, "accuracy": result.accuracy, "validation accuracy": result.val_accuracy}
    learning = [f"{name} {_listed(values)}" for name, values in figures.items() if values]
    return flow([*times, *learning, *_load(result)], width, f"  {result.device}: ", "    ")


def _load(result: PublishedResult) -> list[str]:
    """Return how busy the machine was. Two figures belong to two devices, or are the ends of a range."""
    figures = {
        "{} % busy": result.busy_percent,
        "{} GB of memory": result.memory_gb,
        "{} W": result.power_w,
        "{} °C": result.temperature_c,
        "{} processes": () if result.processes is None else (result.processes,),
        "{} threads": () if result.threads is None else (result.threads,),
    }
    parts = [words.format(_listed(values)) for words, values in figures.items() if values]
    return parts + ([result.note] if result.note else [])


def _listed(values: Sequence[float]) -> str:
    """Return the figures, all with as many decimals as the longest has, as authors print them."""
    digits = max(len(f"{value:g}".partition(".")[2]) for value in values)
    return ", ".join(f"{value:,.{digits}f}" for value in values)


Fact = tuple[str, str]


def render_environment(
    machine: Machine,
    frameworks: Iterable[str],
    workload: Workload,
    rows: Sequence[LayerRow],
    data: DataSource | None,
    *,
    width: int,
    version: str,
) -> str:
    """Return the environment block for the frameworks that will run. Without `data`, the published counts are shown.

    `version` is laptime's own; `rows` are the workload's layers.
    """
    width = max(width, NARROWEST)
    container = f", container {machine.container}" if machine.container else ""
    computer = [
        ("Python", machine.python),
        ("system", f"{machine.system}{container}"),
        ("processor", processor_words(machine)),
        ("memory", memory_words(machine)),
    ]
    facts = [("laptime", version), *computer]
    facts += [fact for name in dict.fromkeys(frameworks) for fact in _framework(name, machine.framework(name))]
    # The numbers of items and classes, and where they come from
    published = f"{workload.train_items:,} for training, {workload.test_items:,} for testing"
    if data is None:
        data_words = f"{published}; {classes_words(workload.classes)} (as published; not counted here)"
    else:
        counted = f"{data.train_items:,} for training, {data.test_items:,} for testing"
        split = "" if data.split_seed is None else f", split by seed {data.split_seed}"
        source = f"{'made by laptime' if data.made else 'counted'} in {data.folder}{split}"
        also = "" if counted == published else f"; published: {published}"
        data_words = f"{counted}; {classes_words(data.classes)} ({source}{also})"
    facts.append((workload.items, data_words))
    notes = [line for note in (data.notes if data else ()) for line in wrap(f"  {note}", width, "    ")]
    lines = [*fact_lines(facts, width), *notes, ""]
    lines += [*wrap(f"{workload.name}  {workload.parameters:,} parameters", width, "  ")]
    return "\n".join([*lines, *layer_lines(workload, rows, width)]) + "\n"


def _framework(name: str, framework: Framework | None) -> list[Fact]:
    """Return a framework's versions, then its devices below it."""
    if framework is None:
        return [(name, "not installed")]
    if framework.problem:
        return [(name, f"{framework.version}, cannot run: {framework.problem}")]
    versions = framework.versions or {name: framework.version}
    shown = [value if key == name else f"{LIBRARY_NAMES.get(key, key)} {value}" for key, value in versions.items()]
    return [(name, ", ".join(shown)), *((f"  {device.name}", _device_words(device)) for device in framework.devices)]


def _device_words(device: Device) -> str:
    if not device.usable:
        label = "" if device.label in {"", "-"} else f"{device.label}, "
        return f"{label}not usable: {device.reason or 'no reason given'}"
    memory = {} if isinstance(device.memory_bytes, Missing) else {"memory": whole_size(device.memory_bytes)}
    known = {**device.details, **memory}
    return ", ".join(
        [device.label, *(words.format(known[key]) for key, words in DEVICE_DETAILS.items() if known.get(key))]
    )
