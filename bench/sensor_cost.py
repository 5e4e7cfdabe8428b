"""What a reading of the host's sensor costs: at most 0.4 ms of processor time for a process of ten threads.

    python bench/sensor_cost.py                100 readings of each tree, ten a second (some 50 seconds)
    python bench/sensor_cost.py --readings 20  a short try

The tree that is watched sleeps. Next to it every core multiplies matrices, or none does. Readings are ten a second,
as in a heat, so each finds the caches full of other things: read without a pause they would cost a third. The mean
holds slow readings (once a second) and fast ones; the median is a fast one's. The processor's energy meters are
reported where the machine has them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from common import Figure, finish, parser_for
from laptime.machine.sensors.base import Sensor
from laptime.machine.sensors.host import HostSensor
from laptime.machine.sensors.rapl import RaplSensor
from laptime.model.stats import median

MOST_MS = 0.4
APART_S = 0.1
WATCHED = """
import os, sys, threading, time
processes, threads = map(int, sys.argv[1:])
threading.stack_size(1 << 16)
for _ in range(processes - 1):
    if not os.fork(): break
for _ in range(threads - 1): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("here", flush=True)
time.sleep(600)
"""
BURNER = "import numpy as np\na = np.ones((1500, 1500), 'f4')\nwhile True: a @ a\n"
TREES = {"1 process of 10 threads": (1, 10), "1 process of 1,000 threads": (1, 1000), "64 processes": (64, 1)}
FIRST = next(iter(TREES))


@contextlib.contextmanager
def running(*programs: tuple[str, ...]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start programs of Python, and end each with all that it started."""
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([sys.executable, "-c", *words], stdout=subprocess.PIPE, env=alone, start_new_session=True)
        for words in programs
    ]
    try:
        yield started
    finally:
        for child in started:
            os.killpg(child.pid, 9)
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


def cost_ms(sensor: Sensor, pid: int, readings: int) -> list[float]:
    """Read ten times a second, and give the processor time of each reading."""
    sensor.open(pid)
    took = []
    for _ in range(readings):
        time.sleep(APART_S)
        before_ns = time.thread_time_ns()
        sensor.read()
        took.append((time.thread_time_ns() - before_ns) / 1e6)
    sensor.close()
    return took


def measure(tree: str, load: str, readings: int) -> tuple[list[Figure], list[float]]:
    processes, threads = TREES[tree]
    cores = os.cpu_count() or 1
    burners = [(BURNER,)] * (cores if load == "busy" else 0)
    with running((WATCHED, str(processes), str(threads))) as [watched], running(*burners):
        assert watched.stdout is not None
        for _ in range(processes):
            watched.stdout.readline()
        time.sleep(1)
        took = cost_ms(HostSensor(), watched.pid, readings)
    name = f"{tree}, {load} cores"
    most = MOST_MS if tree == FIRST else None
    figures = [
        Figure(f"{name}: a reading", sum(took) / len(took), "ms", most=most),
        Figure(f"{name}: a fast one (median)", median(took), "ms"),
        Figure(f"{name}: the slowest", max(took), "ms"),
    ]
    return figures, took


def main() -> int:
    parser: argparse.ArgumentParser = parser_for(__doc__)
    parser.add_argument("--readings", type=int, default=100, metavar="N")
    given = parser.parse_args()
    figures: list[Figure] = []
    details: dict[str, list[float]] = {}
    for tree, load in ((FIRST, "busy"), (FIRST, "idle"), *((tree, "busy") for tree in list(TREES)[1:])):
        found, details[f"{tree}, {load} cores, ms"] = measure(tree, load, given.readings)
        figures += found
    rapl = RaplSensor()
    if rapl.probe() is None:
        took = cost_ms(rapl, os.getpid(), given.readings)
        figures.append(Figure("energy meters: a reading", sum(took) / len(took), "ms"))
    return finish("sensor_cost", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
