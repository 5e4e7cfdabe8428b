"""laptime from Python: `python examples/library.py`, or for a fast look: `python examples/library.py --heats 1`.

The heats are processes that import this file, so what must run only once is under `if __name__ == "__main__":`.
"""

import argparse

import torch
from torch import nn

import laptime


def training() -> laptime.Training:
    """A small classifier on made data: 32 batches of 64 rows with 100 columns, 5 classes."""
    model = nn.Sequential(nn.Linear(100, 256), nn.ReLU(), nn.Linear(256, 5))
    rows = torch.randn(32, 64, 100)
    return laptime.Training(
        model=model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        data=list(zip(rows, rows[..., :5].argmax(-1), strict=True)),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", default="1m")
    parser.add_argument("--heats", type=int)
    asked = parser.parse_args()

    result = laptime.race(training, ["cpu", "cpu/threads=1"], budget=asked.budget, heats=asked.heats, progress=True)
    print(result)
    for lane in result.lanes:
        print(f"{lane.name}: {lane.status}, {lane.step_ms} ms a step, {lane.items_per_s} items a second")
    print(f"{result.ratio.lane} is {float(result.ratio):.2f}x as fast ({result.ratio.low} to {result.ratio.high})")
