"""The trainings of bench/scale.py: what several processes lose is planted in them, and so is known.

Run with `torchrun`, this file is the bare script next to which laptime is held: it trains `plain` in turns, or without
arguments prints what the exchange of `few_weights` takes.
"""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

import laptime

STEP_S = 0.02  # what a step sleeps: a device that computes, without a core
SLOWER = 0.2
ITEM_S = 0.0004
STEPS_AT_ONCE = 12
LOCK = Path(tempfile.gettempdir()) / "laptime-bench-scale.lock"
CONV = (nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


class Sleeping(nn.Module):
    """A device that computes for a while; that of rank 1 may be slower."""

    def __init__(self, width: int, slower: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 10))
        self.slower = slower

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        time.sleep(STEP_S * (1 + self.slower * (rank() == 1)))
        out: torch.Tensor = self.body(inputs)
        return out


class SharedDisk(Dataset[tuple[torch.Tensor, int]]):
    """Items that one process alone can read at a time."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with LOCK.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            time.sleep(ITEM_S)
        return torch.full((256,), index % 7 / 7), index % 10


def made(model: nn.Module, data: object) -> laptime.Training:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return laptime.Training(model=model, loss=nn.CrossEntropyLoss(), optimizer=optimizer, data=data)


def ready(*shape: int, batch: int = 32) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(batch, *shape), torch.randint(0, 10, (batch,))) for _ in range(8)]


def convolutions() -> nn.Module:
    return nn.Sequential(*CONV, nn.MaxPool2d(4), nn.Flatten(), nn.Linear(2048, 10))


def plain() -> laptime.Training:
    torch.manual_seed(0)
    return made(convolutions(), ready(3, 32, 32))


def slow_rank() -> laptime.Training:
    torch.manual_seed(0)
    return made(Sleeping(256, SLOWER), ready(256))


def nothing() -> laptime.Training:
    torch.manual_seed(0)
    return made(Sleeping(256), ready(256))


def shared_disk() -> laptime.Training:
    torch.manual_seed(0)
    return made(Sleeping(256), DataLoader(SharedDisk(), 32))


def few_weights() -> laptime.Training:
    torch.manual_seed(0)
    return made(Sleeping(16), ready(256))


def many_weights() -> laptime.Training:
    torch.manual_seed(0)
    return made(Sleeping(2048), ready(256))


def main() -> None:
    """Train `plain` as a user would: a turn for each line that is read, and the milliseconds of its step written."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    network = nn.parallel.DistributedDataParallel(convolutions())
    optimizer, loss = torch.optim.SGD(network.parameters(), lr=0.01), nn.CrossEntropyLoss()
    batches = ready(3, 32, 32)

    def steps(count: int) -> float:
        began = time.perf_counter()
        for step in range(count):
            inputs, targets = batches[step % 8]
            optimizer.zero_grad()
            loss(network(inputs), targets).backward()
            optimizer.step()
        return (time.perf_counter() - began) / count

    count = torch.tensor([5])
    steps(5)
    asked = Path(sys.argv[1]).open() if dist.get_rank() == 0 else None  # noqa: SIM115
    told = Path(sys.argv[2]).open("w") if dist.get_rank() == 0 else None  # noqa: SIM115
    step_s = steps(5)
    while True:
        if asked is not None:
            if not asked.readline():
                os._exit(0)
            count[0] = max(3, round(float(sys.argv[3]) / step_s))
        dist.broadcast(count, 0)
        steps(2)  # caches are cold after a pause
        step_s = steps(int(count))
        if told is not None:
            print(1e3 * step_s, file=told, flush=True)


def tell_exchange() -> None:
    """Write how many milliseconds of a step of `few_weights` is its exchange: a step with it, less one without."""
    dist.init_process_group("gloo")
    network = nn.parallel.DistributedDataParallel(Sleeping(16))
    optimizer, loss = torch.optim.SGD(network.parameters(), lr=0.01), nn.CrossEntropyLoss()
    batches = ready(256)
    took_ms: dict[bool, list[float]] = {True: [], False: []}
    for number in range(8):
        exchanges = number % 2 == 0
        dist.barrier()
        began = time.perf_counter()
        for step in range(STEPS_AT_ONCE):  # as in a training, nothing else keeps the processes together
            inputs, targets = batches[step % 8]
            optimizer.zero_grad()
            with contextlib.nullcontext() if exchanges else network.no_sync():
                loss(network(inputs), targets).backward()
            optimizer.step()
        if number >= 2:
            took_ms[exchanges].append(1e3 * (time.perf_counter() - began) / STEPS_AT_ONCE)
    if dist.get_rank() == 0:
        print(statistics.median(took_ms[True]) - statistics.median(took_ms[False]))


def lost_to_disk_ms() -> float:
    """Return how much longer a batch takes to load where two processes load one at the same time."""
    disk = SharedDisk()
    together = multiprocessing.get_context("fork").Barrier(2)
    both_ms = []

    def load_ms() -> float:
        began = time.perf_counter()
        for item in range(32):
            disk[item]
        return 1e3 * (time.perf_counter() - began)

    alone_ms = [load_ms() for _ in range(STEPS_AT_ONCE)]
    if not (pid := os.fork()):
        for _ in range(STEPS_AT_ONCE):
            together.wait()
            load_ms()
            together.wait()
        os._exit(0)
    for _ in range(STEPS_AT_ONCE):
        together.wait()
        began = time.perf_counter()
        load_ms()
        together.wait()
        both_ms.append(1e3 * (time.perf_counter() - began))
    os.waitpid(pid, 0)
    return statistics.median(both_ms) - statistics.median(alone_ms)


if __name__ == "__main__":
    main() if len(sys.argv) > 1 else tell_exchange()
