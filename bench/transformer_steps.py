"""On a GPU: how long a step of two transformers takes, without laptime, so that a forecast can be held against it.

    python bench/transformer_steps.py [--out FILE.json]

The trainings are those of bench/transformers_torch.py, on one batch that is on the card: in float32, TF32 and bf16,
launched one by one and captured as a graph. A step is timed by two events of the card; its figure is the middle one of
60, with the fastest and the slowest. What fails is a row that says why.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch

import laptime
from common import Figure, finish, parser_for
from transformers_torch import characters, encoder

PRECISIONS, EXECUTIONS = ("fp32", "tf32", "bf16"), ("eager", "graph")
WARM_UP, TIMED = 15, 60


def main() -> int:
    given = parser_for(__doc__).parse_args()
    figures, rows = [], []
    for make in (characters, encoder):
        for precision in PRECISIONS:
            for execution in EXECUTIONS:
                name = f"{make.__name__}: {precision}, {execution}"
                try:
                    steps_ms = time_steps(make(), precision, execution)
                except Exception as error:  # noqa: BLE001  one that fails must not cost the others
                    rows.append({"name": name, "problem": f"{type(error).__name__}: {error}"})
                    figures.append(Figure(name, None, "ms"))
                else:
                    rows.append({"name": name, "steps_ms": [round(each, 4) for each in steps_ms]})
                    figures.append(Figure(name, statistics.median(steps_ms), "ms", min(steps_ms), max(steps_ms)))
                torch.cuda.empty_cache()
    card = torch.cuda.get_device_name(0)
    versions = {"torch": str(torch.__version__), "card": card}
    return finish("transformer_steps", figures, given.out, details={"steps": rows}, versions=versions)


def time_steps(training: laptime.Training, precision: str, execution: str) -> list[float]:
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    step = make_step(training, precision, captured=execution == "graph")
    for _ in range(WARM_UP):
        step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(TIMED + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]


def make_step(training: laptime.Training, precision: str, *, captured: bool) -> Callable[[], Any]:
    model = training.model.cuda()
    given, labels = (each.cuda() for each in training.data[0])
    rate = training.optimizer.param_groups[0]["lr"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, capturable=captured)
    casts = torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16", cache_enabled=not captured)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with casts:
            loss = training.loss(model(given), labels)
        loss.backward()
        optimizer.step()

    return capture(step) if captured else step


def capture(step: Callable[[], object]) -> Callable[[], Any]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


if __name__ == "__main__":
    sys.exit(main())
