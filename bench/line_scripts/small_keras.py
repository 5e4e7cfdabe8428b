"""What the scripts with Keras share: a small network, and its data. KERAS_BACKEND says which engine trains."""

from __future__ import annotations

import keras
import numpy as np

if keras.backend.backend() == "torch":
    import torch

    torch.set_num_threads(1)
keras.utils.set_random_seed(0)


def compiled(width: int = 128) -> keras.Model:
    layers = [keras.layers.Input((64,)), keras.layers.Dense(width, "relu"), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def points(count: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.standard_normal((count, 64)).astype("float32"), draw.integers(0, 10, count)
