"""A cached PyDataset in Keras's own `fit`, with a worker process of Keras's own.

Without one it is tried on each engine, where Keras is imported in any case: `tests/contracts/test_cached_contract.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

PROGRAM = """\
import sys
sys.path.insert(0, {tests!r})
import keras
import numpy as np
import laptime


class Batches(keras.utils.PyDataset):
    ends = 0

    def __len__(self):
        return 6

    def __getitem__(self, index):
        with open({ledger!r}, "a") as file:
            file.write(f"{{index}}\\n")
        rows = np.random.default_rng(index).standard_normal((8, 4)).astype("float32")
        return rows, rows[:, 0] > 0

    def on_epoch_end(self):
        self.ends += 1


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    batches = Batches(**{words!r})
    dataset = laptime.cached(batches, "1 MB")
    assert isinstance(dataset, keras.utils.PyDataset)
    assert (dataset.workers, dataset.use_multiprocessing) == (batches.workers, batches.use_multiprocessing)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss="binary_crossentropy")
    history = model.fit(dataset, epochs=4, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < losses[0], losses
    kept = dataset.kept
    assert (kept.items, kept.misses, kept.not_kept) == (6, 6, 0), kept
    assert kept.hits >= 18, kept
    print("ends", batches.ends)
"""
WORDS = {"workers": 1, "use_multiprocessing": True}
ENGINE = next((each for each in ("jax", "torch", "tensorflow") if util.find_spec(each)), None)


@pytest.mark.skipif(not (util.find_spec("keras") and ENGINE), reason="there is no Keras here")
def test_fit_decodes_each_batch_once(tmp_path):
    """Four epochs, shuffled."""
    place, ledger = tmp_path / "train.py", tmp_path / "ledger"
    place.write_text(PROGRAM.format(tests=str(Path(__file__).parent), ledger=str(ledger), words=WORDS))
    ended = subprocess.run(
        [sys.executable, str(place)],
        env={**os.environ, "KERAS_BACKEND": ENGINE, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert int(ended.stdout.split()[-1]) >= 4  # some engines walk through the data once before
    assert sorted(ledger.read_text().split()) == [str(index) for index in range(6)]
