"""What a full training says before it begins: the machine, the frameworks, the devices, the data and the layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laptime.model.dataset import DataSource
from laptime.model.machine import Device, Framework, Machine
from laptime.model.missing import Missing
from laptime.model.workload import Workload
from laptime.report.figures import whole_size
from laptime.report.layers import NARROWEST, LayerRow, classes_words, fact_lines, layer_lines
from laptime.report.layout import wrap

NAMES = {
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "hip": "HIP",
    "miopen": "MIOpen",
    "nccl": "NCCL",
    "rccl": "RCCL",
    "onednn": "oneDNN",
}
# What is told of a device, in this order; its other details are for programs.
DETAILS = {
    "capability": "compute capability {}",
    "memory": "{}",
    "driver": "driver {}",
    "multiprocessors": "{} multiprocessors",
    "threads": "{} threads",
    "vector": "{}",
}
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
    """Give the block for the frameworks that are to run; without `data` the counts are the published ones.

    `version` is laptime's own, `rows` are the workload's layers.
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
        ("processor", _processor_words(machine)),
        ("memory", _memory_words(machine)),
    ]


def _processor_words(machine: Machine) -> str:
    chip = machine.processor
    quota = "" if isinstance(chip.quota_cores, Missing) else f" (quota {chip.quota_cores:g})"
    cores = f"{chip.cores_usable} of {chip.cores_visible} cores usable{quota}"
    return ", ".join([chip.name, chip.architecture, cores, *([" ".join(chip.features)] if chip.features else [])])


def _memory_words(machine: Machine) -> str:
    limit = machine.memory_limit_bytes
    if isinstance(limit, Missing) or limit >= machine.memory_bytes:
        return whole_size(machine.memory_bytes)
    return f"{whole_size(machine.memory_bytes)}, of which {whole_size(limit)} may be used"


def _framework(name: str, framework: Framework | None) -> list[Fact]:
    """Tell a framework's versions, then its devices below it."""
    if framework is None:
        return [(name, "not installed")]
    if framework.problem:
        return [(name, f"{framework.version}, cannot run: {framework.problem}")]
    versions = framework.versions or {name: framework.version}
    told = [value if key == name else f"{NAMES.get(key, key)} {value}" for key, value in versions.items()]
    return [(name, ", ".join(told)), *((f"  {each.name}", _device_words(each)) for each in framework.devices)]


def _device_words(device: Device) -> str:
    if not device.usable:
        label = "" if device.label in {"", "-"} else f"{device.label}, "
        return f"{label}not usable: {device.reason or 'no reason given'}"
    memory = {} if isinstance(device.memory_bytes, Missing) else {"memory": whole_size(device.memory_bytes)}
    known = {**device.details, **memory}
    return ", ".join([device.label, *(words.format(known[key]) for key, words in DETAILS.items() if known.get(key))])


def _data_words(workload: Workload, data: DataSource | None) -> str:
    """Count items and classes, and say who counted."""
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
