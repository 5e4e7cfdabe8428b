"""What a step takes of a card's memory, as a range, and whether a card has room for it.

Tensors are counted, or follow from shapes. To them come the workspaces of libraries, the blocks that PyTorch's
allocator keeps, and what CUDA and its libraries take for themselves. An allocator that finds no room gives back what
it keeps. So the low end is of tensors alone: with less, no step can be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from laptime.model.hardware import (
    CONVOLUTIONS,
    Fits,
    HeldMemory,
    KnownDevice,
    Launching,
    Range,
    StepMemory,
    StepOperator,
)
from laptime.model.workload import FLOAT_BYTES, Adam, Workload
from laptime.trainings.workloads.shapes import AVERAGES, count_parameters, count_step_memory

MIB = 1 << 20
CARD_FULL = 0.95  # of a card's memory
CAST = 0.5  # of the bytes of weights in float32: where a step computes in 16 bits, they are there once more
# Of cuBLAS, as PyTorch takes it from its allocator: one for the passes forward, and one for those backward.
WORKSPACES = 2
WORKSPACE_BYTES = round(8.125 * MIB)
LARGE_WORKSPACE_BYTES = 32 * MIB
LARGE_WORKSPACES = frozenset({"Hopper", "Blackwell"})
# What CUDA and its libraries take for themselves: an MI250 and an A10G (published), and an H100 with all libraries.
CONTEXT = Range(700e6, 450e6, 900e6)
# What else libraries and graphs take: what heats of the built-in trainings held on an H100, more than their tensors.
NOTHING = Range(0, 0, 0)
OF_CONVOLUTIONS = Range(50e6, 0, 250e6)
OF_GRAPHS = Range(400e6, 0, 1_100e6)
KEPT_SHARE = 0.13  # of a step's tensors, where their sequence is not known: published pairs have 0.11 to 0.15
TENSORS_SPREAD = 0.06  # of a step's tensors: it holds 86 % of published peaks (bench/forecast_memory.py)


@dataclass(frozen=True, slots=True)
class CardNeed:
    """What a step needs of a card: tensors at its fullest moment, what an allocator keeps more, and workspaces.

    `is_whole` where it was measured on a card: workspaces are in it.
    """

    held: HeldMemory
    kept_bytes: float
    workspace: Range
    is_whole: bool = False

    def on(self, device: KnownDevice) -> Range:
        """Return what a driver would show to be in use on a device."""
        one = LARGE_WORKSPACE_BYTES if device.architecture in LARGE_WORKSPACES else WORKSPACE_BYTES
        return self.read(0.0 if self.is_whole else WORKSPACES * one, CONTEXT)

    def read(self, workspaces: float, context: Range, spread: float = TENSORS_SPREAD) -> Range:
        """Return the range, with what the workspaces of cuBLAS and CUDA itself take."""
        tensors = self.held.total_bytes + workspaces
        return Range(
            middle=tensors + self.workspace.middle + self.kept_bytes + context.middle,
            low=tensors / (1 + spread) + self.workspace.low + context.low,
            high=(tensors + self.kept_bytes) * (1 + spread) + self.workspace.high + context.high,
        )


def need_of_step(memory: StepMemory, larger: float, workspace: Range, *, is_narrow: bool = False) -> CardNeed:
    """Return the need of a counted step with a batch `larger` times as large, in 16 bits or as it was counted.

    Only what its passes make grows with the batch. In 16 bits, weights stay in float32, and are cast in each step.
    """
    passes = memory.narrow if is_narrow else memory.passes
    casts = CAST * passes.weights_bytes if is_narrow else 0.0
    passes = replace(passes, made_bytes=round(passes.made_bytes * larger + casts))
    fullest = max(passes, memory.update, key=lambda held: held.total_bytes)
    counted = max(memory.passes.total_bytes, memory.update.total_bytes, 1)
    return CardNeed(fullest, memory.kept_bytes * fullest.total_bytes / counted, workspace)


def need_of_built_in(workload: Workload, batch: int, narrower: float, workspace: Range) -> CardNeed:
    """Return the need of a step of a built-in training, by the shapes of its layers."""
    weights = FLOAT_BYTES * count_parameters(workload)
    moments = AVERAGES * weights if isinstance(workload.optimizer, Adam) else 0
    made = max(0, count_step_memory(workload, batch, "cuda") - 2 * weights - moments)
    casts = CAST * weights if narrower < 1 else 0.0
    held = HeldMemory(weights, moments, weights, 0, round(made * narrower + casts))
    return CardNeed(held, KEPT_SHARE * held.total_bytes, workspace)


def need_as_measured(device_bytes: int) -> CardNeed:
    """Return the need of a step that was measured on a card."""
    return CardNeed(HeldMemory(0, 0, 0, 0, device_bytes), KEPT_SHARE * device_bytes, NOTHING, is_whole=True)


def space_of_libraries(operators: Sequence[StepOperator], execution: Launching) -> Range:
    """Return what libraries take while such operators run, and a graph for all of them."""
    if execution == "graph":
        return OF_GRAPHS
    return OF_CONVOLUTIONS if any(operator.kind in CONVOLUTIONS for operator in operators) else NOTHING


def fits_in(needed: Range | None, device: KnownDevice) -> Fits:
    """Return whether a device has room. Where that is not known, it is taken to fit."""
    if device.memory_gb is None or needed is None:
        return "fits"
    room = CARD_FULL * device.memory_gb * 1e9
    return "fits" if needed.high <= room else "may not fit" if needed.low <= room else "does not fit"
