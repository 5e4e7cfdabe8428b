"""A training in NumPy alone for laptime: `laptime race examples/numpy_training.py:training python/cpu python/cpu/best`.

A python lane calls the step as it is. The step takes the state and a batch and returns the new state and the loss;
laptime makes a fresh process for each heat, calls the function in it, and does the rest. Each run begins from a copy of
the state, so that a step may change what it is given. Arrays are made like those that come in, so that the same code
runs in float64 too: that is how laptime proves it.
"""

import numpy as np

import laptime

WIDTHS = (100, 512, 5)
RATE = 0.05


def training() -> laptime.Training:
    """Return a small classifier on made data: 64 batches of 128 rows with 100 columns, 5 classes."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((64, 128, 100), np.float32)
    labels = rows[..., :5].argmax(-1)
    return laptime.Training(step=step, state=first_weights(rng), data=list(zip(rows, labels, strict=True)))


def first_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    inputs, hidden, classes = WIDTHS
    return {
        "wide": rng.standard_normal((inputs, hidden), np.float32) / np.float32(inputs**0.5),
        "wide_bias": np.zeros(hidden, np.float32),
        "last": rng.standard_normal((hidden, classes), np.float32) / np.float32(hidden**0.5),
        "last_bias": np.zeros(classes, np.float32),
    }


def step(weights: dict[str, np.ndarray], batch: tuple[np.ndarray, np.ndarray]) -> tuple[dict[str, np.ndarray], float]:
    rows, labels = batch
    each = np.arange(len(labels))
    hidden = np.maximum(rows @ weights["wide"] + weights["wide_bias"], 0)
    scores = hidden @ weights["last"] + weights["last_bias"]
    scores -= scores.max(1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    slope = np.exp(logs)
    slope[each, labels] -= 1
    slope /= len(labels)
    behind = (slope @ weights["last"].T) * (hidden > 0)
    slopes = {"wide": rows.T @ behind, "wide_bias": behind.sum(0), "last": hidden.T @ slope, "last_bias": slope.sum(0)}
    for name, slope_of_it in slopes.items():
        weights[name] -= RATE * slope_of_it
    return weights, -logs[each, labels].mean()
