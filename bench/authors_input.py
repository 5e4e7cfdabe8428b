"""The authors' own software reading their images, with nothing trained.

    .venv-bench/bin/python bench/authors_input.py scenes FOLDER [--batches 40]
    .venv-bench/bin/python bench/authors_input.py plates FOLDER [--batches 40]

Needs nothing of laptime; `bench/input.py` runs it in an interpreter that has Keras, SciPy, Pillow and scikit-image.
`scenes` is Keras's ImageDataGenerator with the published transforms, `plates` the reading of the example in Keras's
documentation of Sequence: `resize(imread(file), (64, 128))`. Prints one line of JSON: images per second of processor
time, taken one batch after another in one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

BATCH, WARM_BATCHES = 32, 4


def scenes(folder: str) -> Iterator[Any]:
    from keras.src.legacy.preprocessing.image import ImageDataGenerator

    generator = ImageDataGenerator(
        rescale=1 / 255, shear_range=0.2, zoom_range=0.2, rotation_range=20, horizontal_flip=True
    )
    with contextlib.redirect_stdout(sys.stderr):  # it counts aloud
        batches = generator.flow_from_directory(folder, target_size=(150, 150), batch_size=BATCH, seed=0)
    while True:
        yield next(batches)[0]


def plates(folder: str) -> Iterator[Any]:
    from skimage.io import imread
    from skimage.transform import resize

    files = sorted(map(str, Path(folder).rglob("*.jpg")))
    while True:
        for begin in range(0, len(files) - BATCH + 1, BATCH):
            yield np.array([resize(imread(file), (64, 128)) for file in files[begin : begin + BATCH]])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scenes", "plates"])
    parser.add_argument("folder")
    parser.add_argument("--batches", type=int, default=40)
    given = parser.parse_args()
    batches = {"scenes": scenes, "plates": plates}[given.what](given.folder)
    for _ in range(WARM_BATCHES):
        next(batches)
    begun = time.process_time()
    seen = sum(len(next(batches)) for _ in range(given.batches))
    print(json.dumps({"images_s": seen / (time.process_time() - begun)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
