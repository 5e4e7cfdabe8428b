"""Keras's own ImageDataGenerator on a folder of scenes, with the published transforms, and nothing trained.

    .venv-bench/bin/python bench/keras_input.py FOLDER [--batches 40]

Needs nothing of laptime; `bench/input.py` runs it in an interpreter that has Keras, SciPy and Pillow. Prints one line
of JSON: images a second, taken one batch after another from the iterator in one thread.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import scipy
from keras.src.legacy.preprocessing.image import ImageDataGenerator

BATCH, SIDE, WARM_BATCHES = 32, 150, 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--batches", type=int, default=40)
    given = parser.parse_args()
    generator = ImageDataGenerator(
        rescale=1 / 255, shear_range=0.2, zoom_range=0.2, rotation_range=20, horizontal_flip=True
    )
    with contextlib.redirect_stdout(sys.stderr):  # it counts aloud
        batches = generator.flow_from_directory(given.folder, target_size=(SIDE, SIDE), batch_size=BATCH, seed=0)
    for _ in range(WARM_BATCHES):
        next(batches)
    begun = time.perf_counter()
    seen = sum(len(next(batches)[0]) for _ in range(given.batches))
    took_s = time.perf_counter() - begun
    versions = {"keras": keras.__version__, "scipy": scipy.__version__}
    print(json.dumps({"images_s": seen / took_s, "versions": versions}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
