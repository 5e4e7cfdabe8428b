"""What one step computes and moves, counted operator by operator as PyTorch calls them, eagerly.

How each is counted is in `laptime.attach.operators`, since a script is counted alike. The operators are listed as
`laptime.trainings.workloads.shapes` lists those of a built-in training, so that a forecast reads both alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch.utils._pytree import tree_leaves

from laptime.attach.operators import counting
from laptime.engine.backends.torch.runners import time_between
from laptime.model.hardware import HeldMemory, StepMemory, StepWork
from laptime.model.workload import FLOAT_BYTES
from laptime.trainings.workloads.shapes import as_operators

HALF_BYTES = 2  # of a value of 16 bits
COUNTED_HOW = (
    "one eager step: torch.utils.flop_counter for products and convolutions, and the bytes of every operator's tensor "
    "arguments and results, views not counted"
)


def count_work(step: Callable[[Any], object], draw: Callable[[], Any]) -> StepWork:
    """Count a step after one that is not counted, in which an optimizer creates its state; and time its Python.

    Where the next batch has other shapes, a step on it is counted, too.
    """
    first = draw()
    second = draw()
    step(first)
    python_s, core_score = time_between(step, first)
    work = replace(_count(step, first), python_s=python_s, core_score=core_score)
    if shapes_of(first) == shapes_of(second):
        return work
    least, most = sorted((work.flops, _count(step, second).flops))
    return replace(work, varies=most / least - 1 if least else 0.0)


def shapes_of(batch: Any) -> list[Any]:
    return [getattr(leaf, "shape", None) for leaf in tree_leaves(batch)]


def _count(step: Callable[[Any], object], batch: Any) -> StepWork:
    with counting() as counted:
        step(batch)
    passes, update, narrow = (HeldMemory(*parts) for parts in counted.memory.parts().values())
    return StepWork(
        counted.flops,
        float(counted.bytes),
        COUNTED_HOW,
        as_operators(counted.found),
        value_bytes=HALF_BYTES if counted.narrow > counted.flops / 2 else FLOAT_BYTES,
        memory=StepMemory(passes, update, narrow, counted.memory.kept_bytes()),
    )
