"""Starting weights for every framework: numpy draws them from a seed, in one layout that every back end loads."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from laptime.model.workload import Workload
from laptime.workloads.shapes import WeightSpec, list_weights

WeightArray = npt.NDArray[np.float32]


def make_weights(workload: Workload, seed: int) -> list[WeightArray]:
    """Draw the starting weights: Glorot uniform kernels, zero biases, unit scales (Keras's defaults)."""
    rng = np.random.default_rng([seed, 0x1A9])
    return [_draw(spec, rng) for spec in list_weights(workload)]


def _draw(spec: WeightSpec, rng: np.random.Generator) -> WeightArray:
    if spec.start == "zeros":
        return np.zeros(spec.shape, np.float32)
    if spec.start == "ones":
        return np.ones(spec.shape, np.float32)
    places = math.prod(spec.shape[:-2])
    fans = places * (spec.shape[-2] + spec.shape[-1])
    limit = np.float32(math.sqrt(6 / fans))
    return (rng.random(spec.shape, np.float32) * np.float32(2) - np.float32(1)) * limit
