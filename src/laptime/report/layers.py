"""One workload whole: what goes in and comes out, layer by layer, how it is trained, and what was published of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from laptime.model.workload import Adam, PublishedResult, Sgd, Workload
from laptime.report.figures import duration, published_lap
from laptime.report.layout import Cell, Column, Row, flow, lay_out, padded, wrap

NARROWEST = 40
PLACEMENTS = {"before": "added before the bias correction", "after": "added after the bias correction"}


class LayerRow(Protocol):
    """What the table shows of one layer; the workloads have such rows, and this room does not know the workloads."""

    @property
    def layer(self) -> str: ...
    @property
    def output_shape(self) -> tuple[int, ...]: ...
    @property
    def parameters(self) -> int: ...


def render_workload(workload: Workload, rows: Sequence[LayerRow], width: int) -> str:
    """Give all that is known of a workload, at most `width` places wide."""
    width = max(width, NARROWEST)
    lines = wrap(f"{workload.name}  {workload.title}", width, "  ")
    lines += ["", *layer_lines(workload, rows, width), "", *fact_lines(_protocol(workload), width)]
    lines += [line for result in workload.published.results for line in _result_lines(result, width)]
    return "\n".join(lines) + "\n"


def layer_lines(workload: Workload, rows: Sequence[LayerRow], width: int) -> list[str]:
    """Set the layers as a table from the input to the total, or as sentences where no table fits."""
    columns = [Column("layer", least=16), Column("output shape"), Column("parameters", right=True)]
    cells = [
        ("input", shape_words(workload.image_shape), ""),
        *((row.layer, shape_words(row.output_shape), f"{row.parameters:,}") for row in rows),
        ("total", "", f"{sum(row.parameters for row in rows):,}"),
    ]
    table = lay_out(columns, [Row(tuple(map(Cell, each))) for each in cells], width, color=False)
    return table or [line for each in cells for line in wrap(", ".join(filter(None, each)), width, "  ")]


def fact_lines(facts: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Set names in one column and what is said of each beside it; a name that is empty goes on with the last."""
    told = list(facts)
    wide = max((len(name) for name, _ in told), default=0) + 2
    return [line for name, says in told for line in wrap(f"{padded(name, wide)}{says}", width, " " * wide)]


def shape_words(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def classes_words(classes: Sequence[str]) -> str:
    """Count and name the classes; single characters need nothing between them."""
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
    """Tell all that was reported for one device."""
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
    """Tell how busy the machine was; two figures are of two devices, or the ends of a range."""
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
    """Give every figure with as many digits behind the point as the longest has, as authors print them."""
    digits = max(len(f"{each:g}".partition(".")[2]) for each in values)
    return ", ".join(f"{each:,.{digits}f}" for each in values)
