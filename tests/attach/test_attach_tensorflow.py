"""A script's own loops in TensorFlow: steps of Keras's optimizers, eager and inside of a `tf.function`, are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_attach_lines import watch

pytestmark = pytest.mark.framework
# What the agent hooks of TensorFlow and of Keras's optimizers, and nothing else of them.
STAND_INS = {
    "tensorflow/python/eager/context.py": """
eager = [True]
def executing_eagerly(): return eager[-1]
""",
    "tensorflow/python/eager/backprop.py": """
import time
class GradientTape:
    def gradient(self, *_): time.sleep(0.001)
""",
    "tensorflow/python/eager/polymorphic_function/polymorphic_function.py": """
import time
from ..context import eager
class Function:
    def __init__(self, body): self.body, self.traces = body, set()
    def experimental_get_tracing_count(self): return len(self.traces)
    def __call__(self, *given, **named):
        key = (given, *named.items())
        if key not in self.traces:
            self.traces.add(key)
            eager.append(False)
            self.body(*given, **named)
            eager.pop()
        for optimizer in self.body.steps(*given, **named):
            optimizer.iterations += 1
            time.sleep(0.001)
""",
    "tensorflow/python/data/ops/iterator_ops.py": """
class Batch:
    shape = (8, 2)
class OwnedIterator:
    def __init__(self, dataset): self._dataset, self.left = dataset, dataset.batches
    def __iter__(self): return self
    def __next__(self):
        if not self.left: raise StopIteration
        self.left -= 1
        return Batch()
""",
    "keras/src/optimizers/base_optimizer.py": """
from types import SimpleNamespace
from tensorflow.python.eager.context import executing_eagerly
backend = SimpleNamespace(backend=lambda: "tensorflow")
class BaseOptimizer:
    iterations, _trainable_variables = 0, ()
    def apply(self): self.iterations += executing_eagerly()
""",
}
LOOP = """
from keras.src.optimizers.base_optimizer import BaseOptimizer
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.eager.backprop import GradientTape
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
class Dataset:
    batches = 10
    def __iter__(self): return OwnedIterator(self)
optimizer, data, held_out = BaseOptimizer(), Dataset(), Dataset()
def run(training=True):
    if training: optimizer.apply()
run.steps = lambda training=True: [optimizer] * training * EACH
train = Function(run)
def eager():
    GradientTape().gradient()
    optimizer.apply()
"""


@pytest.fixture
def stand_ins(tmp_path: Path) -> dict[str, str]:
    """The environment of a script that finds stand-ins for TensorFlow and Keras among its libraries."""
    for name, source in STAND_INS.items():
        place = tmp_path / "site-packages" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source)
        for folder in place.relative_to(tmp_path / "site-packages").parents[:-1]:
            (tmp_path / "site-packages" / folder / "__init__.py").touch()
    return {"PYTHONPATH": str(tmp_path / "site-packages")}


def loop_of(tmp_path: Path, stand_ins: dict[str, str], body: str, each: int = 1, **more: object) -> dict:
    found = watch(tmp_path, f"{LOOP.replace('EACH', str(each))}\n{body}", env=stand_ins, **more)["loop"]
    assert isinstance(found, dict)
    return found


def test_an_eager_loop_has_all_its_parts(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    loop = loop_of(tmp_path, stand_ins, "for lap in range(4):\n    for batch in data: eager()")
    assert (loop["iterations"], loop["epochs"], loop["counted"]) == (40, 4, "optimizer steps")
    assert loop["items_per_iteration"] == 8
    assert loop["steady"]["backward_s"] >= 0.001
    assert loop["unsure"] is None


def test_calls_of_a_function_count_where_a_step_was_traced(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    """The same function without training is an evaluation, and no step."""
    body = """
for lap in range(4):
    for batch in data: train()
    for batch in held_out: train(training=False)
"""
    loop = loop_of(tmp_path, stand_ins, body)
    assert (loop["iterations"], loop["unsure"]) == (40, None)
    assert "inside of a tf.function" in loop["steady"]["optimizer_s"]["missing"]
    assert loop["steady"]["forward_backward_s"] >= 0.001
    assert {gap["kind"] for gap in loop["gaps"]} >= {"validation"}


def test_a_call_of_many_steps_is_reported(tmp_path: Path, stand_ins: dict[str, str]) -> None:
    body = "import time\nfor at in range(30):\n    train()\n    time.sleep(0.05)"
    loop = loop_of(tmp_path, stand_ins, body, each=5, failed=["tf.function"])
    assert loop["iterations"] == 30
    assert "calls of a tf.function took" in loop["unsure"]


REAL = """
import json
import keras, numpy as np, tensorflow as tf
inputs, labels = np.random.rand(320, 16).astype("float32"), np.random.randint(0, 4, 320)
data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(32)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(4)])
optimizer, loss_of = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
def run(images, classes, training=True):
    with tf.GradientTape() as tape:
        loss = loss_of(classes, model(images, training=training))
    if training:
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
train = WRAP(run)
for epoch in range(3):
    for images, classes in data: train(images, classes)
    for images, classes in data: train(images, classes, training=False)
print(json.dumps(int(optimizer.iterations)))
"""


@pytest.mark.long
@pytest.mark.parametrize("wrap", ["tf.function", "(lambda step: step)"])
def test_a_real_loop_is_counted_exactly(tmp_path: Path, wrap: str) -> None:
    found = watch(tmp_path, REAL.replace("WRAP", wrap), env={"KERAS_BACKEND": "tensorflow"})
    assert found["loop"]["iterations"] == json.loads(found["out"]) == 30
    assert found["loop"]["items_per_iteration"] == 32
    assert found["loop"]["epochs"] == 3
