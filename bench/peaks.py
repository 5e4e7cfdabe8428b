"""What this machine's processor can do at most, measured with PyTorch on all the threads that it takes by itself.

    python bench/peaks.py                   some 15 seconds
    python bench/peaks.py --seconds 0.5     a short try

A product of two square matrices of 2048 counts 2 x 2048^3 operations, in float32 and bfloat16; a copy of an array of
512 MB counts the bytes that are read and those that are written. The best of many repetitions stands: a disturbance
can only make one slower.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from common import Figure, finish, parser_for

SIDE = 2048
COPIED_BYTES = 512_000_000
LEAST_TIMES = 3


def best_s(action: Callable[[], object], seconds: float) -> float:
    """Give the shortest time of an action that is repeated for so long."""
    action()
    took: list[float] = []
    until = time.perf_counter() + seconds
    while len(took) < LEAST_TIMES or time.perf_counter() < until:
        began = time.perf_counter()
        action()
        took.append(time.perf_counter() - began)
    return min(took)


def product_gflops(precision: str, seconds: float) -> float:
    """Give the peak of a matrix product, in GFLOP/s."""
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    left, right = (torch.randn(SIDE, SIDE).to(kind) for _ in range(2))
    into = torch.empty(SIDE, SIDE, dtype=kind)
    return 2 * SIDE**3 / best_s(lambda: torch.mm(left, right, out=into), seconds) / 1e9


def copy_gb_per_s(seconds: float) -> float:
    """Give the rate of a copy too large for any cache, in GB/s, bytes read plus bytes written."""
    source = torch.ones(COPIED_BYTES // 4)
    into = torch.zeros_like(source)
    return 2 * COPIED_BYTES / best_s(lambda: into.copy_(source), seconds) / 1e9


def measure_peaks(seconds: float) -> dict[str, float]:
    return {
        "fp32": product_gflops("fp32", seconds),
        "bf16": product_gflops("bf16", seconds),
        "copy": copy_gb_per_s(seconds),
    }


def figures_of(peaks: dict[str, float]) -> list[Figure]:
    return [
        Figure("product of 2048-cubes, float32", peaks["fp32"], "GFLOP/s"),
        Figure("product of 2048-cubes, bfloat16", peaks["bf16"], "GFLOP/s"),
        Figure("copy of 512 MB, read plus written", peaks["copy"], "GB/s"),
    ]


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each of the three")
    given = parser.parse_args()
    details = {"threads": torch.get_num_threads(), "vector": torch.backends.cpu.get_cpu_capability()}
    return finish("peaks", figures_of(measure_peaks(given.seconds)), given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
