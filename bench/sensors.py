"""What the instruments cost: a training with sensors read ten times a second against the same without; their record.

    python bench/sensors.py                      twenty pairs of three seconds (some two minutes)
    python bench/sensors.py --pairs 4            a short try
    python bench/sensors.py --hz 50              oftener than usual

One process trains, with steps of some 10 ms on every core, and notes when each ended. Its parent reads the sensors of a
processor lane, as a race does, for three seconds, then sleeps for three, in the order A B, B A. The figure is the mean
step with sensors over the mean step without. Then an hour of readings is put together of those taken here and of a
recorded minute of an NVIDIA H200, over and over, and written as a record writes them.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import cycle, islice, pairwise

import msgspec

from common import ROOT, Figure, WorkerError, figure_of, finish, parser_for
from laptime.engine.run.instruments import SensorSelection, make_series
from laptime.model.machine import Device
from laptime.model.process import Series, Timeline, Track
from laptime.model.stats import paired_ratio
from replay_sensor import load_recording

MOST_COST, MOST_BYTES = 1.01, 5_000_000
ALPHA = 0.05
HOUR_S = 3600
CPU = Device("cpu", "cpu", "the processor", usable=True)
RECORDINGS = sorted((ROOT / "tests" / "recordings").glob("h200-nvml*.json.gz"))
TRAINING = """
import json, os, sys, threading, time
import torch
torch.set_num_threads(len(os.sched_getaffinity(0)))
torch.manual_seed(0)
layers = [torch.nn.Linear(1024, 1024), torch.nn.ReLU()] * 2
network = torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10))
optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
rows, labels = torch.randn(WIDTH, 1024), torch.randint(10, (WIDTH,))
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
ends = []
while not over.is_set():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(rows), labels).backward()
    optimizer.step()
    ends.append(time.monotonic_ns())
print(json.dumps(ends))
"""


def train(pairs: int, seconds: float, hz: float, rows: int) -> tuple[list[int], list[tuple[bool, int, int]], Timeline]:
    """Let one process train while sensors are read, and not read, in turns; give its steps, the turns, and readings."""
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINING.replace("WIDTH", str(rows))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    sampler = SensorSelection(None, hz).sampler_for("a lane", CPU)
    assert sampler is not None
    turns: list[tuple[bool, int, int]] = []
    line = Timeline()
    time.sleep(6)  # it imports, and warms up
    for pair in range(pairs):
        for reads in (True, False) if pair % 2 == 0 else (False, True):
            began_ns = time.monotonic_ns()
            if reads:
                sampler.begin(process.pid)
                time.sleep(seconds)
                turns.append((True, began_ns, time.monotonic_ns()))
                line = sampler.end()
            else:
                time.sleep(seconds)
                turns.append((False, began_ns, time.monotonic_ns()))
    said, _ = process.communicate("", timeout=30)
    if process.returncode:
        raise WorkerError("the training did not run")
    return json.loads(said), turns, line


def mean_step_ms(ends: list[int], began_ns: int, ended_ns: int) -> float:
    inside = [end for end in ends if began_ns <= end <= ended_ns]
    return statistics.fmean(after - before for before, after in pairwise(inside)) / 1e6


def an_hour_of(line: Timeline, hz: float) -> Timeline:
    """Repeat what was read until it is an hour's worth, and add a card's recorded minute."""
    tracks = [repeat(track, round(1e6 / hz)) for track in line.tracks]
    for path in RECORDINGS:
        recording = load_recording(path)
        times = round(HOUR_S / max(recording.period_s, 1 / hz))
        series = tuple(
            make_series(channel, list(islice(cycle(figures), times)))
            for channel, figures in zip(recording.channels, recording.figures, strict=True)
        )
        apart = (round(1e6 * HOUR_S / times),) * (times - 1)
        tracks.append(Track(recording.name, 0, apart, series, recording.absent))
    return Timeline(tuple(tracks), line.absent)


def repeat(track: Track, apart_us: int) -> Track:
    """Go on with the same changes again and again: counters grow on, gauges go up and down."""
    count = round(1e6 * HOUR_S / statistics.fmean(track.apart_us or (apart_us,)))
    series = tuple(
        Series(each.channel, each.step, (each.changes[0], *islice(cycle(each.changes[1:] or (0,)), count - 1)))
        for each in track.series
    )
    jitter = cycle(track.apart_us or (apart_us,))
    return Track(track.sensor, track.first_ns, tuple(islice(jitter, count - 1)), series, track.absent)


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--rows", type=int, default=256, help="of a batch: how long a step is")
    given: argparse.Namespace = parser.parse_args()
    ends, turns, line = train(given.pairs, given.seconds, given.hz, given.rows)
    steps = {reads: [mean_step_ms(ends, began, ended) for which, began, ended in turns if which is reads]
             for reads in (True, False)}  # fmt: skip
    ratio = paired_ratio(steps[False], steps[True], ALPHA)
    packed = len(msgspec.json.encode(an_hour_of(line, given.hz)))
    figures = [
        figure_of(f"a step with sensors at {given.hz:g} Hz over one without", ratio, most=MOST_COST),
        Figure("a step without sensors, median", statistics.median(steps[False]), "ms"),
        *(Figure(f"a reading of {track.sensor}", track.read_us / 1e3, "ms") for track in line.tracks),
        Figure("an hour of readings, with a card's, in the record", packed, "bytes", most=MOST_BYTES),
    ]
    details = {"with_ms": steps[True], "without_ms": steps[False], "cores": len(os.sched_getaffinity(0))}
    return finish("sensors", figures, given.out, details=details, versions={})


if __name__ == "__main__":
    sys.exit(main())
