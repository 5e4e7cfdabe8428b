"""Take steps of trainings outside of laptime: `plain_steps.py STEPS FILE:FUNCTION...` prints a line of JSON for each.

A line has the losses, how far all weights moved, the running statistics, and the seconds by a clock of the training's
own process and by one of another. Each training is in a fork of its own, as PyTorch takes seconds to import.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def load(file: Path) -> Any:
    """Import a file with its folder on the path, as laptime does."""
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def take(training: Any, steps: int) -> dict[str, Any]:
    """Return the losses of some steps, the length of the weights' movement, and the sum of all statistics."""
    torch.manual_seed(0)
    is_step = training.step is not None
    network = training.state.network if is_step else training.model
    step = by_step(training) if is_step else by_model(training)
    before = [weight.detach().clone() for weight in network.parameters()]
    batches = itertools.chain.from_iterable(iter(training.data) for _ in itertools.count())
    losses = [float(step(batch)) for batch in itertools.islice(batches, steps)]
    moves = [float((now - was).detach().norm()) for now, was in zip(network.parameters(), before, strict=True)]
    kept = sum(float(each.sum()) for name, each in network.named_buffers() if "running" in name)
    return {"losses": losses, "moved": math.hypot(*moves), "kept": kept}


def by_step(training: Any) -> Callable[[Any], Any]:
    state = [training.state]

    def step(batch: Any) -> Any:
        state[0], loss = training.step(state[0], batch)
        return loss

    return step


def by_model(training: Any) -> Callable[[Any], Any]:
    model, optimizer = training.model, training.optimizer(training.model.parameters())
    asks = inspect.signature(type(optimizer).step).parameters["closure"].default is inspect.Parameter.empty

    def compute(batch: Any) -> Any:
        optimizer.zero_grad()
        rows, labels = batch
        loss = model(rows, labels) if training.loss is None else training.loss(model(rows), labels)
        loss.backward()
        return loss.detach()

    def step(batch: Any) -> Any:
        if asks:
            return optimizer.step(lambda: compute(batch))
        loss = compute(batch)
        optimizer.step()
        return loss

    return step


def run(place: str, steps: int) -> dict[str, Any]:
    file, _, function = place.rpartition(":")
    training = getattr(load(Path(file)), function)()
    began_s = time.perf_counter()
    told = take(training, steps)
    return {**told, "own_s": time.perf_counter() - began_s}


def run_in_fork(place: str, steps: int) -> dict[str, Any]:
    """Run a training in a fork, whose clocks and whose laptime it may change."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.dup2(2, 1)
        try:
            told = json.dumps(run(place, steps))
        except BaseException as error:  # noqa: BLE001  whatever an exhibit raises is what is wrong with it
            told = json.dumps({"error": f"{type(error).__name__}: {error}"})
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    began_s = time.perf_counter()
    with os.fdopen(reading, "rb") as told_by_child:
        said = told_by_child.read()
    os.waitpid(child, 0)
    return {**json.loads(said), "seen_s": time.perf_counter() - began_s}


def main() -> None:
    steps, *places = sys.argv[1:]
    importlib.import_module("torch._dynamo")  # making the first optimizer imports it in any case
    torch.set_num_threads(1)
    for place in places:
        sys.stdout.write(json.dumps(run_in_fork(place, int(steps))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
