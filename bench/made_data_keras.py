"""Train a built-in network in Keras and count its denormal numbers, for `bench/made_data.py`: a JSON line at each mark.

    python bench/made_data_keras.py keras-tf cifar-mlp 100 500 1000 2000

The training is that of a lane as written, driven through Keras's own `fit`, on the items that a lane keeps in memory.
At each of these numbers of steps one more step is taken, and counted is the share of denormal numbers in each tensor of
weights, of the optimizer's moments and of running statistics. On PyTorch gradients, and what flows between layers in
both directions, are seen too; on TensorFlow and JAX they exist only inside a compiled step. `tiny` is the largest share
of numbers between 0 and 1e-30: there an engine that flushes denormals would show that they are near.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from laptime.engine.backends import open_backend
from laptime.engine.backends.base import Backend
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.trainings.workloads import find_workload

LEAST_NORMAL_BITS, SIZE_BITS = 0x00800000, 0x7FFFFFFF  # of a float32
TINY = 1e-30
SHOWN = 8
Shares = dict[str, tuple[float, float]]


def main() -> int:
    said = os.dup(1)  # Keras's progress bar goes to nobody, as in a heat
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    framework, name, *marks = sys.argv[1:]
    backend = open_backend(framework)
    learner: Any = open_learner(backend, framework, name)
    done, began = 0, time.monotonic()
    for mark in map(int, marks):
        learner.run(mark - done)
        learner.fence()
        score = learner.score()
        learner.reset_score()
        done = mark + 1  # the census takes a step
        found = {"loss": score.loss, "accuracy": score.accuracy, **take_census(learner, framework)}
        line = {"step": mark, **found, "took_s": time.monotonic() - began, "versions": backend.versions()}
        os.write(said, json.dumps(line).encode() + b"\n")
    learner.close()
    return 0


def open_learner(backend: Backend, framework: str, name: str) -> Any:
    workload = find_workload(name)
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{framework}/cpu", framework, cpu, Settings())
    subject = Subject(
        workload.name, "", workload.parameters, workload.batch, workload.steps_per_lap, workload.laps, workload.items
    )
    pace = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
    learner = backend.build(HeatOrder(subject, lane, 0, workload.proof, pace, 0)).learn()
    learner.begin(0, None)
    return learner


def take_census(learner: Any, framework: str) -> dict[str, Any]:
    """Take a step, and count in all that can be read of it and after it."""
    seen: Shares = {}
    model, one_thread = learner._model, learner._one_thread  # noqa: SLF001  the parts that a learner is made of
    with watched(model, seen) if framework == "keras-torch" else contextlib.nullcontext():
        learner.run(1)
        learner.fence()
    learner.reset_score()  # ends the call of `fit`, so that the model has its weights again
    one_thread(lambda: count_held(model, seen))
    worst = sorted(((share, name) for name, (share, _) in seen.items() if share), reverse=True)[:SHOWN]
    return {
        "tensors": len(seen),
        "worst": {name: share for share, name in worst},
        "most": max(share for share, _ in seen.values()),
        "tiny": max(share for _, share in seen.values()),
    }


def count_held(model: Any, seen: Shares) -> None:
    """Count in the variables of a model and its optimizer, and in the gradients that PyTorch leaves at them."""
    held = [*model.trainable_variables, *model.non_trainable_variables, *model.optimizer.variables]
    for variable in held:
        values = variable.numpy()
        if values.dtype == np.float32 and values.size > 1:
            seen[variable.path] = shares_of(values)
        gradient = getattr(variable.value, "grad", None)
        if gradient is not None:
            seen[f"gradient of {variable.path}"] = shares_of(gradient.numpy())


@contextlib.contextmanager
def watched(model: Any, seen: Shares) -> Iterator[None]:
    """Count in what each layer returns, and in the gradient that comes back to it.

    Keras calls a layer's `call` past the hooks of PyTorch's modules, so it is replaced for a while.
    """

    def watch(layer: Any) -> None:
        call = layer.call

        def counted(*inputs: Any, **words: Any) -> Any:
            outputs = call(*inputs, **words)
            seen[f"output of {layer.name}"] = shares_of(outputs.detach().numpy())
            if outputs.requires_grad:
                outputs.register_hook(lambda gradient: note(layer.name, gradient))
            return outputs

        vars(layer)["call"] = counted

    def note(name: str, gradient: Any) -> None:
        seen[f"gradient behind {name}"] = shares_of(gradient.numpy())

    for layer in model.layers:
        watch(layer)
    try:
        yield
    finally:
        for layer in model.layers:
            del vars(layer)["call"]


def shares_of(values: Any) -> tuple[float, float]:
    """Return the share of denormal numbers, counted by their bits, and that of numbers between 0 and the tiny one."""
    bits = np.ascontiguousarray(values).view(np.uint32) & SIZE_BITS
    tiny_bits = np.float32(TINY).view(np.uint32)
    return float(((bits > 0) & (bits < LEAST_NORMAL_BITS)).mean()), float(((bits > 0) & (bits < tiny_bits)).mean())


if __name__ == "__main__":
    sys.exit(main())
