"""The lines of Keras's `fit`, timed behind its batches, and of loops without an optimizer, behind backward passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_attach_lines import STAND_IN, first_of, place_of, watch

pytestmark = pytest.mark.framework
# What the agent hooks of Keras, and nothing else of it.
CALLBACKS = """
class CallbackList:
    params = {}
    def __init__(self, callbacks, model): self.callbacks, self.model = callbacks, model
    def on_train_begin(self, logs=None): pass
    on_train_end = on_train_begin
    def on_epoch_begin(self, epoch, logs=None): pass
    on_epoch_end = on_test_begin = on_test_end = on_train_batch_begin = on_epoch_begin
    def on_train_batch_end(self, batch, logs=None):
        for each in self.callbacks:
            each.on_train_batch_end(batch, logs)
"""
EPOCHS = """
import itertools
class Adapter:
    batch_size = None
class EpochIterator:
    steps_per_epoch = None
    def __init__(self, batches, adapter=None): self.data_adapter, self.batches = adapter or Adapter(), batches
    def __iter__(self): return self
    def __next__(self): return next(self.batches)
"""
FIT = """
from .src.callbacks.callback_list import CallbackList
from .src.trainers.epoch_iterator import EpochIterator
class Model:
    trainable_variables, steps_per_execution = (), 1
    def fit(self, batches, steps, callbacks):
        fetched = EpochIterator(batches)
        listed = CallbackList(callbacks, self)
        listed.on_train_begin()
        listed.on_epoch_begin(0)
        for at in range(steps):
            batch = next(fetched)
            listed.on_train_batch_begin(at)
            self.train_step(batch)
            listed.on_train_batch_end(at)
        listed.on_epoch_end(0)
        listed.on_train_end()
"""
TRAINING = """
import keras, sys, time, weakref
class Batch: pass
kept = []
def make():
    while True:
        batch = Batch()
        kept.append(weakref.ref(batch))
        time.sleep(0.003)  # DATA
        yield batch
class Log:
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.002)  # OUTSIDE
class Mine(keras.Model):
    def train_step(self, batch):
        time.sleep(0.001)  # STEP
batches = make()
def main(steps):
    Mine().fit(batches, steps, [Log()])  # FIT
"""
LEFT = """
next(batches)
frame = batches.gi_frame
print(sys.gettrace(), frame.f_trace, frame.f_trace_lines, sum(each() is not None for each in kept))
"""


@pytest.fixture
def keras(tmp_path: Path) -> dict[str, str]:
    """The environment of a script that finds a stand-in for Keras among its libraries."""
    place = tmp_path / "site-packages" / "keras"
    for folder, name, source in (("callbacks", "callback_list", CALLBACKS), ("trainers", "epoch_iterator", EPOCHS)):
        (place / "src" / folder).mkdir(parents=True)
        (place / "src" / folder / "__init__.py").touch()
        (place / "src" / folder / f"{name}.py").write_text(source)
    (place / "src" / "__init__.py").touch()
    (place / "__init__.py").write_text(FIT)
    return {"PYTHONPATH": str(place.parent)}


def timed(process: dict[str, Any]) -> int:
    return sum(each["times"] for each in process["loop"]["gaps"] if each["kind"] == "timing lines")


def test_lines_of_a_fit_are_named_and_nothing_is_left_behind(tmp_path: Path, keras: dict[str, str]) -> None:
    """Behind batch 16, two are timed. The line that calls `fit` is none of them; the generator goes on untraced."""
    source = f"{TRAINING}\nmain(40)\n{LEFT}"
    process = watch(tmp_path, source, env=keras)
    assert (process["loop"]["iterations"], timed(process)) == (40, 3)
    for part, mark in (("data", "DATA"), ("outside", "OUTSIDE"), ("step", "STEP")):
        line = first_of(process, part)
        assert (line["where"], line["share"] > 0.5) == (place_of(source, mark), True)
    assert place_of(source, "FIT") not in {each["where"] for each in process["lines"]}
    assert process["out"] == "None None True 1\n"  # the batch that the generator has just made


PREDICTION = """
from keras.src.trainers.epoch_iterator import EpochIterator
class GeneratorDataAdapter:
    batch_size = None
    def generator(self): return iter(range(1000))
class TFEpochIterator(EpochIterator): pass
adapter = GeneratorDataAdapter()
TFEpochIterator(None, adapter)
print(len([*adapter.generator()]), len(sys.modules["_laptime_attach.finder"].armed[0]._noted))
"""


def test_what_a_thread_makes_for_a_prediction_is_not_kept(tmp_path: Path, keras: dict[str, str]) -> None:
    """Nothing would send it: no step of a training notes anything meanwhile."""
    process = watch(tmp_path, f"{TRAINING}\n{PREDICTION}\nmain(20)", env=keras)
    assert (process["out"], process["loop"]["iterations"]) == ("1000 0\n", 20)


def test_a_fit_that_ends_while_its_lines_are_timed_leaves_nothing_behind(tmp_path: Path, keras: dict[str, str]) -> None:
    process = watch(tmp_path, f"{TRAINING}\nmain(17)\n{LEFT}", env=keras)
    assert (process["loop"]["iterations"], process["out"]) == (17, "None None True 1\n")


def test_lines_that_cannot_be_timed_end_no_fit(tmp_path: Path, keras: dict[str, str]) -> None:
    source = f"{TRAINING}\nsys.settrace = None\nmain(40)\nprint('trained')"
    process = watch(tmp_path, source, env=keras, failed=["lines"])
    assert (process["loop"]["iterations"], process["out"], process["lines"]) == (40, "trained\n", [])


BY_HAND = """
import time, torch
from torch.utils.data import DataLoader
class Slow(list):
    def __iter__(self):
        for each in list.__iter__(self):
            time.sleep(0.003)  # DATA
            yield each
{before}
for batch in DataLoader(Slow([[torch.Tensor(0.0, (4,))]] * 40)):
    torch.Tensor(2.5).backward()
    time.sleep(0.001)  # UPDATE
"""


@pytest.mark.parametrize(("before", "expected"), [("", 3), ("made = torch.optim.SGD()", 0)])
def test_lines_of_a_loop_without_an_optimizer_are_named(tmp_path: Path, before: str, expected: int) -> None:
    """Behind its backward passes; where an optimizer was made, its steps are waited for."""
    source = BY_HAND.format(before=before)
    process = watch(tmp_path, source, env={"PYTHONPATH": str(STAND_IN)})
    assert (process["loop"]["counted"], process["loop"]["iterations"]) == ("backward passes", 40)
    assert timed(process) == expected
    if expected:
        assert first_of(process, "data")["where"] == place_of(source, "DATA")
        assert first_of(process, "unattributed")["where"] == place_of(source, "UPDATE")


REAL = """
import hashlib, os
import numpy as np
import keras
if keras.backend.backend() == "torch":
    import torch; torch.set_num_threads(1)
class Batches(keras.utils.PyDataset):
    def __len__(self): return 80
    def __getitem__(self, place):
        SLOW  # DATASET
        return np.ones((8, 16), "float32"), np.zeros(8)
def make():
    while True:
        SLOW  # GENERATOR
        yield np.ones((8, 16), "float32"), np.zeros(8)
class Log(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        SLOW; SLOW  # CALLBACK
class Mine(keras.Model):
    def __init__(self): super().__init__(); self.inner = keras.layers.Dense(3)
    def call(self, x, training=False): return self.inner(x)
    def train_step(self, *given):
        for _ in range(8): SLOW  # STEP
        return super().train_step(*given)
model = Mine()
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=True)
"""
BY_ENGINE = [
    ("torch", "Batches()", {"data": "DATASET", "outside": "CALLBACK", "step": "STEP"}),
    ("torch", "make(), steps_per_epoch=80", {"data": "GENERATOR", "outside": "CALLBACK", "step": "STEP"}),
    ("torch", "torch.utils.data.DataLoader(Batches(), batch_size=None)", {"data": "DATASET", "outside": "CALLBACK"}),
    ("tensorflow", "Batches()", {"data": "DATASET", "outside": "CALLBACK", "step": "STEP"}),
    ("tensorflow", "make(), steps_per_epoch=80", {"data": "GENERATOR", "outside": "CALLBACK"}),
    ("jax", "Batches()", {"data": "DATASET", "outside": "CALLBACK"}),
]


@pytest.mark.long
@pytest.mark.parametrize(("engine", "data", "marks"), BY_ENGINE)
def test_lines_are_named_on_each_engine_of_keras(tmp_path: Path, engine: str, data: str, marks: dict[str, str]) -> None:
    """What no line is expected of cannot be known on that engine: it runs compiled code."""
    source = REAL.replace("SLOW", 'hashlib.pbkdf2_hmac("sha256", b"", b"", 20000)')
    source += f"model.fit({data}, epochs=1, verbose=0, callbacks=[Log()])\nimport sys; print(sys.gettrace())\n"
    process = watch(tmp_path, source, env={"KERAS_BACKEND": engine})
    assert (process["loop"]["counted"], process["loop"]["iterations"]) == ("Keras batches", 80)
    assert (timed(process), process["out"]) == (6, "None\n")
    assert {part: first_of(process, part)["where"] for part in marks} == {
        part: place_of(source, mark) for part, mark in marks.items()
    }
