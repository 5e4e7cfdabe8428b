"""Copies of one script that take turns: one as it is, one watched, one under another tool.

Each copy trains a block of steps when it is asked to, and waits otherwise. What else a tool runs is stopped while the
copy of it waits, so no copy pays for another one's tool. A block of each, one after another, is a round. What a tool
costs is the median, over all rounds, of its block's time over that of the script as it is.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import psutil

Command = tuple[Sequence[str], Mapping[str, str]]
"""A command line, and what its environment has besides."""
TURNS = """
import json, os, sys, time
work, count, asked, told, tool = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
if tool == "traceml":
    import traceml_ai as traceml
    traceml.init(mode="auto")
import torch
from contextlib import nullcontext
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Linear(32, 8); opt = torch.optim.SGD(model.parameters(), lr=0.01)
feed = DataLoader(TensorDataset(torch.randn(8 * count, 32)), batch_size=8)
a = torch.ones(64, 64) / 64
def step(x):
    b = a
    for _ in range(work): b = b @ a
    model(x).sum().backward(); opt.step(); opt.zero_grad()
now = time.thread_time_ns
def block():
    wall, cpu = time.monotonic_ns(), [now()]
    if tool == "traceml":
        for (x,) in feed:
            with traceml.trace_step(model): step(x)
            cpu.append(now())
    else:
        for (x,) in feed:
            step(x)
            cpu.append(now())
    each = sorted(b - a for a, b in zip(cpu, cpu[1:]))
    return each[count // 2] / 1e6, (cpu[-1] - cpu[0]) / 1e6 / count, (time.monotonic_ns() - wall) / 1e6 / count
asked, told = open(asked), open(told, "w")
print(json.dumps(os.getpid()), file=told, flush=True)
for line in asked: print(json.dumps(block()), file=told, flush=True)
"""

# Of a block, in milliseconds: its middle and its mean step by the processor's clock, and its mean step by the wall's.
PRODUCTS = 400
CLOCKS = ("middle", "mean", "wall")


@dataclass
class Copy:
    """A copy of the script that runs, and what its tool runs besides."""

    process: subprocess.Popen[bytes]
    asks: TextIO
    tells: TextIO
    pid: int
    times: dict[str, list[float]] = field(default_factory=lambda: {clock: [] for clock in CLOCKS})

    def block(self, *, is_kept: bool) -> None:
        """Let it train a block of steps."""
        self._signal(signal.SIGCONT)
        print(file=self.asks, flush=True)
        for clock, value_ms in zip(CLOCKS, json.loads(self.tells.readline()), strict=True):
            if is_kept:
                self.times[clock].append(value_ms)
        self._signal(signal.SIGSTOP)

    def end(self) -> None:
        self._signal(signal.SIGCONT)
        self.asks.close()
        self.process.wait()
        self.tells.close()

    def _signal(self, number: int) -> None:
        """Stop or continue all that the tool runs, but for the script."""
        first = psutil.Process(self.process.pid)
        for each in (first, *first.children(recursive=True)):
            if each.pid != self.pid:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, number)


def take_turns(
    commands: Mapping[str, Command], place: Path, words: Sequence[str], *, rounds: int, starts: int
) -> dict[str, dict[str, list[float]]]:
    """Run a block of each command again and again, in an order of chance; return the times of each.

    All are started again `starts` times: two processes of the same script differ by a percent.
    """
    times: dict[str, dict[str, list[float]]] = {name: {clock: [] for clock in CLOCKS} for name in commands}
    for _ in range(starts):
        copies = {name: start(name, command, place, words) for name, command in commands.items()}
        for number in range(rounds + 1):
            for name in random.sample(list(copies), len(copies)):
                copies[name].block(is_kept=number > 0)  # the first has what a tool sets up
        for name, copy in copies.items():
            copy.end()
            for clock in CLOCKS:
                times[name][clock] += copy.times[clock]
    return times


def start(name: str, command: Command, place: Path, words: Sequence[str]) -> Copy:
    """Start a copy. `{words}` in a command becomes what the script is called with."""
    asked, told = place / f"{name}.asked", place / f"{name}.told"
    for each in (asked, told):
        each.unlink(missing_ok=True)
        os.mkfifo(each)
    given = [*words, str(asked), str(told), name]
    line = [part for word in command[0] for part in (given if word == "{words}" else [word])]
    environment = {**os.environ, **command[1]}
    process = subprocess.Popen(line, env=environment, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    asks, tells = asked.open("w"), told.open()  # each waits for the script to open the other end
    return Copy(process, asks, tells, json.loads(tells.readline()))


def time_product(command: Command, place: Path) -> float:
    """Return how long one of the products takes that a step is made of, in milliseconds."""
    copy = start("not", command, place, [str(PRODUCTS), "100"])
    for number in range(3):
        copy.block(is_kept=number > 0)
    copy.end()
    return min(copy.times["middle"]) / PRODUCTS


def compare(times: Mapping[str, Mapping[str, list[float]]], base: str) -> dict[str, dict[str, Any]]:
    """Return for each other command the quartiles of its times over those of `base`, and what it adds to a step."""
    found: dict[str, dict[str, Any]] = {}
    for name, mine in times.items():
        if name == base:
            continue
        found[name] = {"step_ms": statistics.median(times[base]["middle"]), "rounds": len(mine["middle"])}
        for clock in CLOCKS:
            pairs = list(zip(mine[clock], times[base][clock], strict=True))
            found[name][clock] = statistics.quantiles((one / other for one, other in pairs), n=4)
            found[name][f"{clock}_added_us"] = statistics.quantiles(((one - other) * 1e3 for one, other in pairs), n=4)
    return found
