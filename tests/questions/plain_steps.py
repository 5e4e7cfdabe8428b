"""Take steps of a training outside of laptime: `plain_steps.py FILE FUNCTION STEPS` prints what they did, as JSON.

The losses, how far all weights moved, and the seconds by a clock of this process.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import sys
import time
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


def take(training: Any, steps: int) -> tuple[list[float], float]:
    """Return the losses of some steps, and the length of the weights' movement."""
    torch.manual_seed(0)
    if training.step is not None:
        network, step = training.state.network, by_step(training)
    else:
        network, step = training.model, by_model(training)
    before = [weight.detach().clone() for weight in network.parameters()]
    batches = itertools.chain.from_iterable(iter(training.data) for _ in itertools.count())
    losses = [float(step(batch)) for batch in itertools.islice(batches, steps)]
    moves = [float((now - was).detach().norm()) for now, was in zip(network.parameters(), before, strict=True)]
    return losses, math.hypot(*moves)


def by_step(training: Any) -> Any:
    def step(batch: Any) -> Any:
        training_state[0], loss = training.step(training_state[0], batch)
        return loss

    training_state = [training.state]
    return step


def by_model(training: Any) -> Any:
    model = training.model
    optimizer = training.optimizer(model.parameters())

    def compute(batch: Any) -> Any:
        optimizer.zero_grad()
        rows, labels = batch
        loss = model(rows, labels) if training.loss is None else training.loss(model(rows), labels)
        loss.backward()
        return loss.detach()

    def step(batch: Any) -> Any:
        if "closure" in optimizer_words(optimizer):
            return optimizer.step(lambda: compute(batch))
        loss = compute(batch)
        optimizer.step()
        return loss

    return step


def optimizer_words(optimizer: Any) -> set[str]:
    """Return the words that the optimizer's own step asks for."""
    import inspect

    words = inspect.signature(type(optimizer).step).parameters.values()
    return {each.name for each in words if each.default is each.empty}


def main() -> None:
    file, function, steps = sys.argv[1:]
    torch.set_num_threads(1)
    training = getattr(load(Path(file)), function)()
    began_s = time.perf_counter()
    losses, moved = take(training, int(steps))
    told = {"losses": losses, "moved": moved, "seconds": time.perf_counter() - began_s}
    sys.stdout.write(f"\n{json.dumps(told)}\n")


if __name__ == "__main__":
    main()
