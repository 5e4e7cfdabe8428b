"""A cached PyDataset in Keras's own `fit`, on each engine. Started by `test_keras_contract.py`, one engine a process.

Worker processes of Keras's own are tried in a program: `tests/remedies/test_remedies_keras.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from rooms_here import HERE

import laptime

if not HERE[0].startswith("keras"):
    pytest.skip("test_keras_contract.py runs it", allow_module_level=True)

from laptime.engine.backends import open_backend

BATCHES = 6
WORKERS = {"keras-jax": {"workers": 2}}


def test_fit_decodes_each_batch_once():
    """Four epochs, shuffled; on JAX by threads."""
    open_backend(HERE[0])
    import keras

    decoded = []

    class Batches(keras.utils.PyDataset):
        ends = 0

        def __len__(self):
            return BATCHES

        def __getitem__(self, index):
            decoded.append(index)
            rows = np.random.default_rng(index).standard_normal((8, 4)).astype("float32")
            return rows, rows[:, 0] > 0

        def on_epoch_end(self):
            self.ends += 1

    batches = Batches(**WORKERS.get(HERE[0], {}))
    dataset = laptime.cached(batches, "1 MB")
    assert isinstance(dataset, keras.utils.PyDataset)
    assert (dataset.workers, dataset.use_multiprocessing) == (batches.workers, batches.use_multiprocessing)
    layer = keras.layers.Dense(1, activation="sigmoid", kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((4,)), layer])
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss="binary_crossentropy")
    losses = model.fit(dataset, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    kept = dataset.kept
    assert (kept.items, kept.misses, kept.not_kept) == (BATCHES, BATCHES, 0)
    assert kept.hits >= 3 * BATCHES
    assert batches.ends >= 4  # some engines walk through the data once before
    assert sorted(decoded) == list(range(BATCHES))
