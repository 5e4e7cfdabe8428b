"""What denormal numbers cost on this processor: nothing, or hundreds of times what others take."""

from __future__ import annotations

import time

import numpy as np

MATRIX_SIDE = 64
PRODUCTS_TIMED = 5
DENORMAL_NUMBER = 1e-40
USUAL_NUMBER = 0.25


def time_denormals() -> float:
    """Return how many times as long a product of matrices takes whose numbers are denormal; a few milliseconds."""
    return max(1.0, _product_ns(DENORMAL_NUMBER) / _product_ns(USUAL_NUMBER))


def _product_ns(number: float) -> int:
    numbers = np.full((MATRIX_SIDE, MATRIX_SIDE), number, np.float32)
    halves = np.full((MATRIX_SIDE, MATRIX_SIDE), 0.5, np.float32)
    took_ns = []
    for _ in range(PRODUCTS_TIMED):
        began_ns = time.perf_counter_ns()
        numbers @ halves
        took_ns.append(time.perf_counter_ns() - began_ns)
    return max(min(took_ns), 1)
