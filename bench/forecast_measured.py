"""Steps that were measured: by others (training.csv), in our own results, and in the published experiments."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forecast_networks import build
from forecast_transformers import FORWARD_ALONE, NETWORKS, UNFUSED, VALUE_BYTES, count_transformer
from laptime.machine.hardware import known_devices, match_label
from laptime.model.hardware import KnownDevice, StepOperator
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.shapes import OperatorList, list_operators

TRAINING = Path(__file__).parent / "forecasts" / "training.csv"
RESULTS = Path(__file__).parent / "results"
PRECISIONS = {"amp": "fp16"}
COMPILED = ("TensorFlow", "MKL-DNN", "neon")  # frameworks whose executor launches the operators of a graph
# What others may not have done in a step: of these sources, the time is of forward and backward alone.
FIRST_GRADIENT = ("cnn-benchmarks", "u39kun")
# A card whose reduced precision is as slow as its float32.
# float32 of an A100 with TensorFlow 2.3 was partly TF32: VGG16 computes 34 TFLOP/s, where float32 has 19.5.
LEFT_OUT = {("NVIDIA B200-192GB", "amp"), ("NVIDIA A100-SXM4-40GB", "fp32")}


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured step: on which device, in which precision, how it was launched, and its operators."""

    source: str
    network: str
    device: KnownDevice
    precision: str
    execution: str
    step_ms: float
    operators: tuple[StepOperator, ...]

    @property
    def convolves(self) -> bool:
        return any(operator.kind in {"conv", "medium", "narrow", "pointwise"} for operator in self.operators)


def all_measured() -> list[Measured]:
    return [*of_others(), *our_own(), *our_transformers(), *of_published()]


def of_others() -> Iterator[Measured]:
    """Return the lines of training.csv whose device and network are known."""
    with TRAINING.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            device = _device_of(row["device"])
            if device is None or device.kind == "cpu" or not row["batch"]:
                continue
            if (row["device"], row["precision"]) in LEFT_OUT:
                continue
            batch, operators = int(row["batch"]), _operators_of(row)
            if not operators:
                continue
            step_ms = float(row["step_ms"]) if row["step_ms"] else 1e3 * batch / float(row["images_per_s"])
            yield Measured(
                source=_source_of(row),
                network=row["network"],
                device=device,
                precision=PRECISIONS.get(row["precision"], row["precision"]),
                execution="executor" if any(each in row["framework"] for each in COMPILED) else "eager",
                step_ms=step_ms,
                operators=operators,
            )


def _operators_of(row: dict[str, str]) -> tuple[StepOperator, ...]:
    """Return the operators of a line's step; none if its network is not here."""
    batch, network, update = int(row["batch"]), row["network"], _update_of(row["optimizer"])
    if network in NETWORKS:
        rows = int(row["image_size"].removeprefix("seq"))
        return count_transformer(network, batch, rows, row["precision"], update)
    first = any(each in row["source"] for each in FIRST_GRADIENT)
    found = OperatorList(batch, VALUE_BYTES[row["precision"]], first_needs_gradient=first)
    if build(network, found) is None:
        return ()
    found.update(update)
    return tuple(found.found)


def _device_of(label: str) -> KnownDevice | None:
    """Return the device that a line names, with or without what it adds in brackets."""
    return match_label(label, known_devices()) or match_label(re.sub(r" \(.*\)$", "", label), known_devices())


def _update_of(optimizer: str) -> str:
    words = optimizer.lower()
    if words == FORWARD_ALONE:
        return FORWARD_ALONE
    if words.startswith("none"):
        return "none"
    if "unfused" in words:
        return UNFUSED
    return "adam" if "adam" in words else "momentum" if "momentum" in words else "sgd"


def _source_of(row: dict[str, str]) -> str:
    framework = re.sub(r"(\d+\.\d+)[^ ]*", r"\1", row["framework"].split(" (")[0])
    return f"{row['source'].split('/')[0]}: {framework}"


LAYOUT = re.compile(r"(?P<what>[a-z-]+): (?P<precision>fp32|tf32|bf16), .* layout, (?P<execution>eager|graph)")


# Presets are graphs on batches that lie on the card. On the H200 those of cifar-cnn were also tried in two layouts.
PRESETS = {
    "h200": {
        ("cifar-mlp", "fp32"): "cifar-mlp: torch/cuda:0/best, a step in 1 heat",
        ("cifar-mlp", "bf16"): "cifar-mlp: torch/cuda:0/fastest, a step in 1 heat",
    },
    "h100-sxm": {
        ("cifar-mlp", "fp32"): "cifar-mlp: torch/cuda:0/best, a step in 3 heats (race)",
        ("cifar-mlp", "bf16"): "cifar-mlp: torch/cuda:0/fastest, a step in 3 heats (race)",
        ("cifar-cnn", "fp32"): "cifar-cnn: torch/cuda:0/best, a step in 2 heats (race)",
        ("cifar-cnn", "bf16"): "cifar-cnn: torch/cuda:0/fastest, a step in 2 heats (race)",
    },
}
OURS = {"h200": "2026-11-20-h200.json", "h100-sxm": "2026-11-25-h100.json"}


def our_own() -> Iterator[Measured]:
    """Return the steps on a card whose batches lie there, in the faster of two layouts."""
    for short, file in OURS.items():
        result = json.loads((RESULTS / file).read_text(encoding="utf-8"))
        (device,) = (each for each in known_devices() if each.short == short)
        best: dict[tuple[str, str, str], float] = {}
        values = {figure["name"]: figure["value"] for figure in result["figures"]}
        for figure in result["figures"]:
            if (found := LAYOUT.match(figure["name"])) is not None:
                key = found["what"], found["precision"], found["execution"]
                best[key] = min(best.get(key, figure["value"]), figure["value"])
        best |= {(what, precision, "graph"): values[lane] for (what, precision), lane in PRESETS[short].items()}
        for (what, precision, execution), step_ms in best.items():
            workload = find_workload(what)
            operators = list_operators(workload, workload.batch, precision)
            yield Measured("laptime: PyTorch 2.11", what, device, precision, execution, step_ms, operators)


TRANSFORMERS_RESULT = "2026-11-27-h100-transformer_steps.json"  # of bench/transformer_steps.py, on the H100
WORDS = {"characters": 256, "encoder": 128}
TRANSFORMERS_BATCH = 32
TRANSFORMER = re.compile(r"(?P<what>[a-z]+): (?P<precision>fp32|tf32|bf16), (?P<execution>eager|graph)")


def our_transformers() -> Iterator[Measured]:
    (device,) = (each for each in known_devices() if each.short == "h100-sxm")
    result = json.loads((RESULTS / TRANSFORMERS_RESULT).read_text(encoding="utf-8"))
    for figure in result["figures"]:
        found = TRANSFORMER.fullmatch(figure["name"])
        assert found is not None, figure
        what, precision, execution = found["what"], found["precision"], found["execution"]
        operators = count_transformer(what, TRANSFORMERS_BATCH, WORDS[what], precision, "adam")
        yield Measured("laptime: PyTorch 2.11", what, device, precision, execution, figure["value"], operators)


def of_published() -> Iterator[Measured]:
    """Return the devices of the second experiment that its authors named, and that computed at all."""
    workload = find_workload("cifar-cnn")
    operators = list_operators(workload, workload.batch)
    for result in workload.published.results:
        device = match_label(result.device, known_devices())
        if device is not None and device.kind == "cuda" and result.lap_s:
            step_ms = 1e3 * result.lap_s[0] / workload.steps_per_lap
            yield Measured(
                "second experiment: TensorFlow 1", "cifar-cnn", device, "fp32", "executor", step_ms, operators
            )
