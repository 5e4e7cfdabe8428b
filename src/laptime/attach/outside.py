"""What a lane sets in a script from outside: seeds, how products are computed, whether tiny numbers count as 0.

Environment variables set all else (`laptime.planner.plan`). Each is set when the script imports what it
belongs to, before the script's own code can use it, so that the script's own settings win.
"""

from __future__ import annotations

import os
from functools import wraps

from . import kinds
from .agent import Agent

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

WORKERS_PLACE = 4  # of `num_workers` among the arguments after the set
OF_WORKERS = ("persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context", "worker_init_fn")


def wanted() -> dict:
    """Return what is to be set, by name."""
    words = os.environ.get(kinds.SET, "")
    return dict(each.partition("=")[::2] for each in words.split(",") if each)


def set_python() -> None:
    """Seed Python's own random numbers, from which Keras draws its seeds."""
    seed = wanted().get("seed")
    if seed is not None:
        import random

        random.seed(int(seed))


def set_numpy(_agent: Agent, module: Any) -> None:
    seed = wanted().get("seed")
    if seed is not None:
        module.seed(int(seed))


def set_torch(agent: Agent, module: Any) -> None:
    told = wanted()
    if "seed" in told:
        module.manual_seed(int(told["seed"]))
    if "matmul" in told:
        module.set_float32_matmul_precision(told["matmul"])
        agent.tell(has_set="matmul")
    if "denormals" in told and module.set_flush_denormal(True):
        agent.tell(has_set="denormals")


def set_loaders(agent: Agent, module: Any) -> None:
    """Let data loaders have other workers. Several workers would give each item of an iterable set several times."""
    workers = wanted().get("workers")
    if workers is None:
        return
    make = module.DataLoader.__init__

    @wraps(make)
    def __init__(self, dataset, *given, **named):
        if isinstance(dataset, module.IterableDataset) or len(given) > WORKERS_PLACE:
            return make(self, dataset, *given, **named)
        named["num_workers"] = int(workers)
        if named["num_workers"]:
            named.setdefault("persistent_workers", True)
        else:
            for name in OF_WORKERS:
                named.pop(name, None)
        agent.tell(has_set="workers")
        return make(self, dataset, *given, **named)

    module.DataLoader.__init__ = __init__


def set_tensorflow(_agent: Agent, module: Any) -> None:
    seed = wanted().get("seed")
    if seed is not None:
        module.random.set_seed(int(seed))
