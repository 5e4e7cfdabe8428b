"""A workload's page (layers, training, published results), and the environment block of a full training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laptime.model.ask import DataSource
from laptime.model.machine import Device, Framework, Machine
from laptime.model.missing import Missing
from laptime.model.workload import Adam, LayerRow, PublishedResult, Sgd, Workload
from laptime.pages.layout import Column, flow, padded, table_or_sentences, wrap
from laptime.pages.page import NARROWEST
from laptime.pages.words import duration, memory_words, processor_words, published_lap, whole_size

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
    told = list(facts)
    wide = max((len(name) for name, _ in told), default=0) + 2
    return [line for name, says in told for line in wrap(f"{padded(name, wide)}{says}", width, " " * wide)]


def shape_words(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def classes_words(classes: Sequence[str]) -> str:
    """Return the number and names of the classes. Single characters are written without commas."""
    names = ("" if all(len(each) == 1 for each in classes) else ", ").join(classes)
    return f"{len(classes)} classes: {names}"


def _protocol(workload: Workload) -> list[tuple[str, str]]:
    items = workload.items
    counts = f"{workload.train_items:,} {items} for training, {workload.test_items:,} for testing"
    return [
        ("loss", workload.loss.replace("_crossentropy", " and cross-entropy, on the last layer's outputs")),
        ("optimizer", _optimizer_words(workload.optimizer)),
        ("batch", f"{workload.batch:,} {items}"),
        ("a lap", f"{workload.steps_per_lap:,} steps; {workload.laps:,} laps"),
        ("data", f"{counts}; {classes_words(workload.classes)}"),
        ("published", f"{workload.published.claim} ({workload.published.source})"),
    ]


def _optimizer_words(optimizer: Adam | Sgd) -> str:
    rate, decay = f"learning rate {optimizer.learning_rate:g}", f"weight decay {optimizer.weight_decay:g}"
    if isinstance(optimizer, Sgd):
        return f"SGD, {rate}, {decay}"
    betas = f"beta1 {optimizer.beta1:g}, beta2 {optimizer.beta2:g}"
    small = f"{optimizer.epsilon:g}".replace("e-0", "e-")
    epsilon = f"epsilon {small} ({PLACEMENTS[optimizer.epsilon_placement]})"
    return f"Adam, {rate}, {betas}, {epsilon}, {decay}"


def _result_lines(result: PublishedResult, width: int) -> list[str]:
    """Return everything that was reported for one device."""
    return flow([*_times(result), *_learning(result), *_load(result)], width, f"  {result.device}: ", "    ")


def _times(result: PublishedResult) -> list[str]:
    told = []
    if len(result.lap_s) == 1:
        told.append(f"a lap {published_lap(result.lap_s[0])}")
    elif result.lap_s:
        told.append(f"laps {_listed(result.lap_s)} s")
    told += [f"step {_listed(result.step_ms)} ms"] if result.step_ms else []
    told += [f"{duration(result.total_s)} in all"] if result.total_s is not None else []
    return told + ([f"one item inferred in {result.infer_one_s:g} s"] if result.infer_one_s is not None else [])


def _learning(result: PublishedResult) -> list[str]:
    figures = {"loss": result.loss, "accuracy": result.accuracy, "validation accuracy": result.val_accuracy}
    return [f"{name} {_listed(values)}" for name, values in figures.items() if values]


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
    told = [words.format(_listed(values)) for words, values in figures.items() if values]
    return told + ([result.note] if result.note else [])


def _listed(values: Sequence[float]) -> str:
    """Return the figures, all with as many decimals as the longest has, as authors print them."""
    digits = max(len(f"{each:g}".partition(".")[2]) for each in values)
    return ", ".join(f"{each:,.{digits}f}" for each in values)


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
    facts = [("laptime", version), *_computer(machine)]
    facts += [fact for name in dict.fromkeys(frameworks) for fact in _framework(name, machine.framework(name))]
    facts.append((workload.items, _data_words(workload, data)))
    lines = [*fact_lines(facts, width), *_notes(data, width), ""]
    lines += [*wrap(f"{workload.name}  {workload.parameters:,} parameters", width, "  ")]
    return "\n".join([*lines, *layer_lines(workload, rows, width)]) + "\n"


def _computer(machine: Machine) -> list[Fact]:
    container = f", container {machine.container}" if machine.container else ""
    return [
        ("Python", machine.python),
        ("system", f"{machine.system}{container}"),
        ("processor", processor_words(machine)),
        ("memory", memory_words(machine)),
    ]


def _framework(name: str, framework: Framework | None) -> list[Fact]:
    """Return a framework's versions, then its devices below it."""
    if framework is None:
        return [(name, "not installed")]
    if framework.problem:
        return [(name, f"{framework.version}, cannot run: {framework.problem}")]
    versions = framework.versions or {name: framework.version}
    told = [value if key == name else f"{LIBRARY_NAMES.get(key, key)} {value}" for key, value in versions.items()]
    return [(name, ", ".join(told)), *((f"  {each.name}", _device_words(each)) for each in framework.devices)]


def _device_words(device: Device) -> str:
    if not device.usable:
        label = "" if device.label in {"", "-"} else f"{device.label}, "
        return f"{label}not usable: {device.reason or 'no reason given'}"
    memory = {} if isinstance(device.memory_bytes, Missing) else {"memory": whole_size(device.memory_bytes)}
    known = {**device.details, **memory}
    return ", ".join(
        [device.label, *(words.format(known[key]) for key, words in DEVICE_DETAILS.items() if known.get(key))]
    )


def _data_words(workload: Workload, data: DataSource | None) -> str:
    """Return the numbers of items and classes, and where they come from."""
    published = f"{workload.train_items:,} for training, {workload.test_items:,} for testing"
    if data is None:
        return f"{published}; {classes_words(workload.classes)} (as published; not counted here)"
    counted = f"{data.train_items:,} for training, {data.test_items:,} for testing"
    split = "" if data.split_seed is None else f", split by seed {data.split_seed}"
    source = f"{'made by laptime' if data.made else 'counted'} in {data.folder}{split}"
    also = "" if counted == published else f"; published: {published}"
    return f"{counted}; {classes_words(data.classes)} ({source}{also})"


def _notes(data: DataSource | None, width: int) -> list[str]:
    return [line for note in (data.notes if data else ()) for line in wrap(f"  {note}", width, "    ")]
