"""How all that a Keras training draws from is seeded, without the seconds that an unused TensorFlow takes to import."""

from __future__ import annotations

import sys

import keras
from keras.src.utils import module_utils


def seed_all(seed: int) -> None:
    """Seed Python, NumPy and the engine, as `keras.utils.set_random_seed` does, and TensorFlow if it is imported.

    Keras's function imports TensorFlow on every engine. A user's code may import it later, so only a workload of the
    catalogue is built after this.
    """
    if "tensorflow" in sys.modules:
        keras.utils.set_random_seed(seed)
        return
    module_utils.tensorflow._available = False  # noqa: SLF001  Keras has no other way to leave it out
    try:
        keras.utils.set_random_seed(seed)
    finally:
        module_utils.tensorflow._available = None  # noqa: SLF001  as it was: nobody has tried to import it
