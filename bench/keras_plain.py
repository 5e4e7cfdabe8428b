"""Three of the published trainings in Keras on TensorFlow as their authors wrote them, timed by themselves.

    .venv-bench/bin/python bench/keras_plain.py cifar-cnn [--seconds 5]

Needs nothing of laptime; `bench/rivals.py` runs it in an interpreter that has Keras. Layers, optimizer, loss, metric
and batch are the authors'; the arrays are in memory, which two of the three had so and the third would be glad of.
Prints one line of JSON: milliseconds a step over one epoch of `model.fit`, after a first fit that compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from keras import layers

WARM_STEPS = 8
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Written:
    """One training as its authors wrote it."""

    shape: tuple[int, int, int]
    classes: int
    layers: list[Any]
    batch: int
    compiled: dict[str, Any]
    one_hot: bool


@dataclass
class EpochClock(keras.callbacks.Callback):
    """Times epochs from their beginning to their end, as the progress bar does; what fit does before is left out."""

    took_s: list[float] = field(default_factory=list)
    began_s: float = 0.0

    def __post_init__(self) -> None:
        super().__init__()

    def on_epoch_begin(self, _epoch: int, _logs: Any = None) -> None:
        self.began_s = time.perf_counter()

    def on_epoch_end(self, _epoch: int, _logs: Any = None) -> None:
        self.took_s.append(time.perf_counter() - self.began_s)


def cifar_mlp() -> Written:
    return Written(
        shape=(32, 32, 3),
        classes=10,
        layers=[
            layers.Flatten(),
            layers.Dense(3000, activation="relu"),
            layers.Dense(1000, activation="relu"),
            layers.Dense(10, activation="sigmoid"),
        ],
        batch=32,
        compiled={"optimizer": "SGD", "loss": "categorical_crossentropy", "metrics": ["accuracy"]},
        one_hot=True,
    )


def cifar_cnn() -> Written:
    def pair(filters: int) -> list[Any]:
        return [layers.Conv2D(filters, (3, 3), padding="same") for _ in range(2)]

    def pool() -> Any:
        return layers.MaxPooling2D((2, 2), padding="same")

    return Written(
        shape=(32, 32, 3),
        classes=10,
        layers=[
            *(*pair(32), pool(), *pair(64), pool(), *pair(128)),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(128, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ],
        batch=100,
        compiled={"optimizer": "adam", "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]},
        one_hot=False,
    )


def scenes_cnn() -> Written:
    return Written(
        shape=(150, 150, 3),
        classes=8,
        layers=[
            layers.Conv2D(32, (3, 3), activation="relu"),
            layers.MaxPooling2D(2, 2),
            layers.Conv2D(64, (3, 3), activation="relu"),
            layers.MaxPooling2D(2, 2),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(64, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(8, activation="softmax"),
        ],
        batch=32,
        compiled={"optimizer": "adam", "loss": "categorical_crossentropy", "metrics": ["categorical_accuracy"]},
        one_hot=True,
    )


TRAININGS = {"cifar-mlp": cifar_mlp, "cifar-cnn": cifar_cnn, "scenes-cnn": scenes_cnn}


def make_arrays(written: Written, steps: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    images = random.random((steps * written.batch, *written.shape), np.float32)
    labels = random.integers(0, written.classes, len(images))
    return images, keras.utils.to_categorical(labels, written.classes) if written.one_hot else labels


def time_fit(name: str, seconds: float) -> dict[str, Any]:
    """Fit twice over a few steps, which compiles and shows how long a step is; then once over as many as wanted."""
    keras.utils.set_random_seed(0)
    written = TRAININGS[name]()
    model = keras.Sequential([keras.Input(written.shape), *written.layers])
    model.compile(**written.compiled)
    warm = EpochClock()
    few = make_arrays(written, WARM_STEPS)
    model.fit(*few, batch_size=written.batch, epochs=2, verbose=0, callbacks=[warm])
    room = MOST_BYTES // (few[0].nbytes // WARM_STEPS)
    steps = max(WARM_STEPS, min(room, round(seconds * WARM_STEPS / warm.took_s[-1])))
    clock = EpochClock()
    model.fit(*make_arrays(written, steps), batch_size=written.batch, epochs=1, verbose=0, callbacks=[clock])
    return {
        "workload": name,
        "step_ms": clock.took_s[-1] * 1e3 / steps,
        "steps": steps,
        "first_epoch_s": warm.took_s[0],
        "parameters": model.count_params(),
        "optimizer": type(model.optimizer).__name__,
        "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=list(TRAININGS))
    parser.add_argument("--seconds", type=float, default=5.0, help="about how long the timed fit lasts")
    given = parser.parse_args()
    print(json.dumps(time_fit(given.workload, given.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
