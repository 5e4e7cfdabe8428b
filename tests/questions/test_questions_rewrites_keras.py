"""Changes of a script that trains by Keras's `fit`: where they are made, and why not."""

from __future__ import annotations

import pytest

from laptime.questions.rewrites import rewrite
from laptime.questions.user_code import NoPlaceError, read_code

PLAIN = "class Mine(keras.utils.PyDataset):\n    pass\n"
HANDS_ON = """class Mine(keras.utils.PyDataset):
    def __init__(self, files, **more):
        super().__init__(**more)
"""
OWN_INIT = """class Mine(keras.utils.PyDataset):
    def __init__(self, files):
        super().__init__()
"""
SILENT = "class Mine(keras.utils.PyDataset):\n    def __init__(self, files):\n        self.files = files\n"
LOADERS = "from torch.utils.data import DataLoader\n"
MAKES = """
data = Mine(files)
model.compile("adam", "mse", metrics=["mae"])
model.fit(data, epochs=3)
"""


def read(tmp_path, text):
    (tmp_path / "train.py").write_text(f"import keras\n{text}")
    return read_code(tmp_path / "train.py", None)


def changed(tmp_path, text, word):
    """Return the lines that a change removes, and those that it adds."""
    edited = rewrite(read(tmp_path, text), word)
    before, after = (each.decode().splitlines() for each in (edited.file.data, edited.data))
    return [line for line in before if line not in after], [line for line in after if line not in before and line]


@pytest.mark.parametrize(
    ("text", "word", "added"),
    [
        (PLAIN + MAKES.replace("files", ""), "workers=4", "data = Mine(workers=4)"),
        (HANDS_ON + MAKES, "workers=4", "data = Mine(files, workers=4)"),
        (OWN_INIT + MAKES, "workers=4", "        super().__init__(workers=4)"),
        (OWN_INIT.replace("__()", "__(1)") + MAKES, "workers=4", "        super().__init__(4)"),
        (HANDS_ON + MAKES, "use_multiprocessing", "data = Mine(files, use_multiprocessing=True)"),
        (HANDS_ON + MAKES, "workers=4+prefetch=8", "data = Mine(files, workers=4, max_queue_size=32)"),
        (HANDS_ON + "test = Mine(b)\n" + MAKES, "workers=2", "data = Mine(files, workers=2)"),
        (HANDS_ON + "test = Mine(b)\nmodel.fit(x=Mine(a))\n", "workers=2", "model.fit(x=Mine(a, workers=2))"),
        (MAKES, "compile", 'model.compile("adam", "mse", metrics=["mae"], jit_compile=True)'),
        (MAKES, "steps_per_execution=8", 'model.compile("adam", "mse", metrics=["mae"], steps_per_execution=8)'),
        ("import re\nre.compile('a')\n" + MAKES, "compile",
         'model.compile("adam", "mse", metrics=["mae"], jit_compile=True)'),
        ("model.fit(x, y)\n", "batch_2x", "model.fit(x, y, batch_size=64)"),
        ("model.fit(x, y, batch_size=16)\n", "batch_2x", "model.fit(x, y, batch_size=32)"),
        ("model.fit(x, y, 16)\n", "batch_half", "model.fit(x, y, 8)"),
        ("model.fit(x, y)\n", "bf16_cpu", 'keras.config.set_dtype_policy("mixed_bfloat16")'),
        ("import tensorflow as tf\ndata = tf.data.Dataset.range(3)\nmodel.fit(data)\n", "prefetch=4",
         "model.fit(data.prefetch(4))"),
        (LOADERS + "mine, test = DataLoader(a), DataLoader(b)\nmodel.fit(mine, validation_data=test)\n", "workers=2",
         "mine, test = DataLoader(a, num_workers=2, persistent_workers=True), DataLoader(b)"),
        (LOADERS + "model.fit(DataLoader(a, 8))\n", "batch_2x",
         "model.fit(DataLoader(a, 16))"),
    ],
)  # fmt: skip
def test_where_a_change_is_made(tmp_path, text, word, added):
    assert changed(tmp_path, text, word)[1] == [added]


@pytest.mark.parametrize(
    ("text", "word", "why"),
    [
        (SILENT + MAKES, "workers=4", "Mine does not call super().__init__()"),
        (MAKES, "workers=4", "no class of its own that is a PyDataset is in the script's code"),
        (MAKES, "use_multiprocessing", "no class of its own that is a PyDataset is in the script's code"),
        (MAKES, "prefetch=4",
         "no class of its own that is a PyDataset, and no tf.data pipeline, is in the script's code"),
        (PLAIN + MAKES, "workers=2", "train.py:5 has workers=files"),
        (PLAIN.replace("keras.utils.PyDataset", "Base, keras.utils.PyDataset") + MAKES, "workers=2",
         "what Mine hands on to PyDataset is not certain"),
        (PLAIN + MAKES, "prefetch=4", "train.py:5 has no workers"),
        (PLAIN + "a, b = Mine(1), Mine(2)\nmodel.fit(a if go else b)\n", "workers=2",
         "not one call that makes a PyDataset to train on: train.py:4, train.py:4"),
        (PLAIN + "data = Mine(workers=n)\nmodel.fit(data)\n", "workers=2", "train.py:4 has workers=n"),
        ("model.fit(x, y, batch_size=n)\n", "batch_2x", "train.py:2 has no batch_size that is a number"),
        ("model.fit(x, y)\nother.fit(x)\n", "batch_2x", "not one call of fit: train.py:2, train.py:3"),
        (MAKES + 'other.compile("sgd", "mse")\n', "compile",
         "not one call of model.compile(optimizer=..., loss=...): train.py:4, train.py:6"),
        ("import tensorflow as tf\ntf.data.Dataset.range(3)\nmodel.fit([1])\n", "prefetch=4",
         "what train.py:4 trains on is not certain"),
    ],
)  # fmt: skip
def test_why_a_change_is_not_made(tmp_path, text, word, why):
    with pytest.raises(NoPlaceError) as caught:
        rewrite(read(tmp_path, text), word)
    assert str(caught.value) == why
