"""A Keras model of your own for laptime: `laptime race examples/keras_training.py:training keras-tf keras-jax`.

The function returns a compiled model and the data that `fit` would get, as your script has them.
"""

import keras
import numpy as np


def training() -> tuple[keras.Model, tuple[np.ndarray, np.ndarray]]:
    """A small classifier on made data: 8,192 rows with 100 columns, 5 classes, batches of 32 as `fit` cuts them."""
    model = keras.Sequential(
        [
            keras.Input((100,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dropout(0.1),
            keras.layers.Dense(5),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    rows = np.random.default_rng(1).standard_normal((8192, 100), dtype=np.float32)
    return model, (rows, rows[:, :5].argmax(-1))
