"""A training by Keras's `fit` whose data set waits for a disk, and which asks for no workers.

    laptime tune examples/keras_fit.py -- --epochs 99
    laptime tune examples/keras_fit.py --apply -- --epochs 99

It runs on the engine that `KERAS_BACKEND` names. How many workers are best on this machine? The answer is a diff of
this file. All of its batches are alike, so its losses prove that the work is the same with any number of workers.
"""

import argparse
import time

import keras
import numpy as np

BATCHES, BATCH, DISK_S = 64, 16, 0.02


class OnDisk(keras.utils.PyDataset):
    """Pictures of stripes: each batch takes as long as a read from a disk that is not fast."""

    def __init__(self, **more: int) -> None:
        super().__init__(**more)
        kinds = np.arange(BATCH) % 4
        self.pictures = np.float32(np.arange(256).reshape(1, 16, 16, 1) % (kinds.reshape(-1, 1, 1, 1) + 2))
        self.kinds = kinds

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        time.sleep(DISK_S)
        return self.pictures + np.float32(1e-3 * number / BATCHES), self.kinds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    epochs = parser.parse_args().epochs
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.layers.Input((16, 16, 1)),
            keras.layers.Conv2D(8, 5, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(4),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-4), loss=loss)
    data = OnDisk()
    model.fit(data, epochs=epochs, verbose=2)


if __name__ == "__main__":
    main()
