"""What a lane sets where a script trains by Keras's `fit`, on each engine: real heats, and what the agent makes of
arguments.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from laptime.attach import keras_setting
from laptime.attach.keras_hooks import steps_in
from laptime.attach.keras_setting import compile_arguments, fit_arguments
from laptime.engine import wire
from laptime.engine.heat.script import HeldScript, ScriptRunner, run_script
from laptime.engine.heat.script_settings import AGENT_SAYS, find_unset, list_impossible
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.script import SeenLoader
from laptime.model.workload import ProofPlan
from laptime.questions.rewrites import rewrite
from laptime.questions.user_code import read_code

EXAMPLES = Path(__file__).parents[2] / "examples"
CPU = Device("cpu", "cpu", "the processor", usable=True)
BRIEF = Pace(1, 1, adaptive=False, measure_s=0.2, window_s=0.1, windows_min=2)
FIT = """
import keras
import numpy as np

class Data(keras.utils.PyDataset):
    def __len__(self):
        return 40
    def __getitem__(self, number):
        return np.full((4, 8), number / 40, "float32"), np.full((4, 1), 0.5, "float32")

class Show(keras.callbacks.Callback):
    batches = 0
    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if self.batches == 3:
            model, data = self.model, globals().get("data")
            print("seen", model.steps_per_execution, model.jit_compile, model.dtype_policy.name, DATA, flush=True)

keras.utils.set_random_seed(0)
rows = np.linspace(0, 1, 1280, dtype="float32").reshape(160, 8)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""
OWN_DATA = (
    FIT.replace("DATA", "data.workers, data.use_multiprocessing, data.max_queue_size")
    + """
data = Data()
model.fit(data, epochs=9999, verbose=0, shuffle=False, callbacks=[Show()])
"""
)
ARRAYS = FIT.replace("DATA", "0") + "model.fit(rows, rows[:, :1], epochs=9999, verbose=0, callbacks=[Show()])\n"


class Quiet:
    """Takes what is said, and asks for nothing."""

    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)

    def listen(self):
        return wire.Enough()


@pytest.fixture
def heat(tmp_path, capfd, monkeypatch):
    """Return a function that runs one heat of a script on an engine, and returns what was said and printed."""

    def run(source, engine, *, looks=False, words=(), **settings):
        monkeypatch.setenv("KERAS_BACKEND", engine)
        (tmp_path / "train.py").write_text(source)
        command = (sys.executable, str(tmp_path / "train.py"), *words)
        subject = Subject("train.py", "", None, None, None, None, "items", command=command)
        lane = PlannedLane("cpu", "script", CPU, Settings(**settings))
        line = Quiet()
        run_script(HeatOrder(subject, lane, 3, ProofPlan(), BRIEF, breakdown=looks), line)
        return line.said, capfd.readouterr().out

    return run


def only(said, kind):
    return next(each for each in said if isinstance(each, kind))


def reasons(said):
    return only(said, wire.Signed).signs.impossible


def step_ms(said):
    windows = [each.window for each in said if isinstance(each, wire.Closed)]
    return sum(each.end_ns - each.start_ns for each in windows) / sum(each.steps for each in windows) / 1e6


@pytest.mark.long
@pytest.mark.framework
def test_a_slow_data_set_has_workers_and_steps_in_a_call(heat):
    """All but the search: they are set, the batches come sooner, and steps are counted in calls."""
    source = OWN_DATA.replace("        return np.full", "        import time; time.sleep(0.02)\n        return np.full")
    said, printed = heat(source, "jax", workers=4, steps_per_execution=4)
    assert "seen 4 True float32 4 False 10" in printed
    assert only(said, wire.Built).steps_per_lap == 40
    assert only(said, wire.Proved).run.after[:3] == (4, 8, 12)
    assert step_ms(said) < 15  # of a disk that takes 20 ms a batch


def test_the_code_of_the_example_is_changed():
    edited = rewrite(read_code(EXAMPLES / "keras_fit.py", None), "workers=4+prefetch=4+steps_per_execution=4")
    changed = edited.data.decode()
    assert "    data = OnDisk(workers=4, max_queue_size=16)\n" in changed
    assert "Adam(1e-4), loss=loss, steps_per_execution=4)\n" in changed
    compile(changed, "keras_fit.py", "exec")


@pytest.mark.long
@pytest.mark.framework
@pytest.mark.parametrize(
    ("engine", "compiles", "steps", "has_not"),
    [
        ("torch", None, AGENT_SAYS[keras_setting.ONE_AT_A_TIME], set()),
        ("tensorflow", None, None, {"pinning", "denormals", "matmul"}),
        ("jax", AGENT_SAYS[keras_setting.COMPILES], None, {"threads", "pinning", "denormals", "matmul"}),
    ],
)
def test_a_first_heat_shows_what_fit_cannot_have_on_each_engine(heat, engine, compiles, steps, has_not):
    said, printed = heat(OWN_DATA, engine, looks=True)
    assert f"seen 1 {engine == 'jax'} float32 1 False 10" in printed
    found = reasons(said)
    assert (found.pop("execution", None), found.pop("steps_per_execution", None)) == (compiles, steps)
    assert {name for name in ("threads", "pinning", "denormals", "matmul") if found.pop(name, None)} == has_not
    assert found == {
        "layout": AGENT_SAYS[keras_setting.OWN_LAYOUT],
        "optimizer": AGENT_SAYS[keras_setting.OWN_OPTIMIZERS],
        "prefetch": "its PyDataset has no workers",
        "persistent": "Keras starts the workers of a PyDataset for each epoch",
        "pinned": "Keras copies what a PyDataset gives itself",
        "batch": "what fit is given cuts its batches itself",
        "workers=0": "the script has as many already",
        "workers=1": "of Keras's threads, one loads nothing ahead",
    }


@pytest.mark.long
@pytest.mark.framework
@pytest.mark.parametrize("engine", ["torch", "tensorflow", "jax"])
def test_all_that_a_lane_names_is_set_on_each_engine(heat, engine):
    at_once = {} if engine == "torch" else {"steps_per_execution": 8}
    said, printed = heat(OWN_DATA, engine, workers=2, precision="bf16", execution="compile",
                         extra={"prefetch": "4", "processes": "on"}, **at_once)  # fmt: skip
    assert f"seen {8 if at_once else 1} True mixed_bfloat16 2 True 8" in printed
    assert only(said, wire.Built).steps_per_lap == 40
    run = only(said, wire.Proved).run
    assert not at_once or run.after[:2] == (8, 16)
    assert len(run.losses) >= 2  # as many as fit into a proof's time, next to other tests


@pytest.mark.long
@pytest.mark.framework
@pytest.mark.parametrize("engine", ["torch", "tensorflow", "jax"])
def test_arrays_have_a_batch_and_no_workers(heat, engine):
    said, printed = heat(ARRAYS, engine, joined=2)
    assert "seen 1" in printed
    built = only(said, wire.Built)
    assert (built.items_per_step, built.steps_per_lap) == (64, 3)
    with pytest.raises(LaneError, match="workers was not set: fit cuts its batches from arrays, and nothing loads"):
        heat(ARRAYS, engine, workers=2)


@pytest.mark.long
@pytest.mark.framework
@pytest.mark.parametrize("engine", ["torch", "tensorflow", "jax"])
def test_a_data_loader_of_pytorch_is_set_through_fit(heat, engine):
    source = (
        FIT.replace("DATA", "data.num_workers, data.batch_size")
        + """
import torch
rows = torch.tensor(rows)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, rows[:, :1]), 16)
model.fit(data, epochs=9999, verbose=0, callbacks=[Show()])
"""
    )
    said, printed = heat(source, engine, workers=2, joined=2)
    assert "float32 2 32" in printed
    assert (only(said, wire.Built).items_per_step, only(said, wire.Built).steps_per_lap) == (32, 5)
    found = reasons(heat(source, engine, looks=True)[0])
    assert found["workers=0"] == "the script has as many already"
    assert found["persistent"] == found["prefetch"] == "its DataLoader has no workers"
    assert found["processes"] == "its workers are processes already"


@pytest.mark.long
@pytest.mark.framework
def test_a_pipeline_of_tensorflow_prefetches_and_has_no_workers(heat):
    source = (
        FIT.replace("DATA", "0")
        + """
import tensorflow as tf
data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(16, drop_remainder=True)
model.fit(data, epochs=9999, verbose=0, callbacks=[Show()])
"""
    )
    said, _ = heat(source, "tensorflow", extra={"prefetch": "4"})
    assert (only(said, wire.Built).items_per_step, only(said, wire.Built).steps_per_lap) == (16, 10)
    found = reasons(heat(source.replace("=True)\nmodel", "=True).prefetch(2)\nmodel"), "tensorflow", looks=True)[0])
    assert found["prefetch"] == "its tf.data pipeline ends with a prefetch already"
    assert found["workers"].startswith("a tf.data pipeline has its own")
    assert found["batch"] == "what fit is given cuts its batches itself"
    assert "steps_per_execution" not in found


@pytest.mark.long
@pytest.mark.framework
def test_losses_behind_calls_are_those_of_the_same_steps(heat):
    """They are means of the epoch so far, whose last call takes 8 batches of 40."""
    plain, _ = heat(OWN_DATA, "jax")
    several, _ = heat(OWN_DATA, "jax", steps_per_execution=32)
    alone, others = (only(each, wire.Proved).run for each in (plain, several))
    assert alone.after[:10] == (*range(1, 11),)
    assert others.after[:3] == (32, 40, 72)
    if len(alone.after) > 10:  # the first steps were fast enough to go on to a later one
        assert others.by_step[32] == pytest.approx(alone.by_step[32], rel=1e-4)
    assert {each.window.steps % 32 for each in several if isinstance(each, wire.Closed)} == {0}


class Calls:
    """A script whose calls take 32 steps, or the 8 that are left of an epoch, a millisecond each."""

    def __init__(self):
        self.leader, self.reader, self.at_once = self, self, 32
        self.progress, self.gaps_s, self.held, self.taken = self, 0.0, None, 0

    def go_on(self, _ends):
        took = 32 if self.taken % 40 == 0 else 8
        self.taken += took
        since = time.monotonic_ns()
        return HeldScript(since, since + took * 1_000_000, 0, None, None, None, None, 0, None, taken=self.taken)


def test_a_call_at_the_end_of_an_epoch_counts_as_a_whole_one():
    """Each call of `run` takes no time but that of the processor, which other processes may have meanwhile."""
    runner, began_ns = ScriptRunner(Calls(), 1 / 32, 0, BRIEF), time.monotonic_ns()
    for calls in (1, 2, 3):
        runner.run(32)
        assert 0 <= runner.outside_ns + 32_000_000 * calls <= time.monotonic_ns() - began_ns


# What the agent makes of arguments, without Keras.


class Told:
    """Takes what an agent would report."""

    def __init__(self):
        self.has, self.has_not = set(), {}

    def tell(self, has_set=None, not_set=None, why=None):
        if has_set:
            self.has.add(has_set)
        else:
            self.has_not[not_set] = why


class PyDataset:
    __module__ = "keras.src.trainers.data_adapters.py_dataset_adapter"
    workers, use_multiprocessing, max_queue_size = 1, False, 10


class Mine(PyDataset):
    pass


class DatasetV2:
    __module__ = "tensorflow.python.data.ops.dataset_ops"

    def prefetch(self, batches):
        return ("prefetched", batches)


class _PrefetchDataset(DatasetV2):
    pass


def fitted(told, *given, **named):
    agent = Told()
    return fit_arguments(agent, told, given, named), agent


@pytest.mark.parametrize(
    ("told", "given", "becomes"),
    [
        ({"batch": "2x"}, (([1], [2]), {}), ((), {"x": [1], "y": [2], "batch_size": 64})),
        ({"batch": "2x"}, (([1],), {"batch_size": 8}), ((), {"x": [1], "batch_size": 16})),
        ({"batch": "24"}, (([1], [2], 8, 3), {}), (([1], [2], 24, 3), {})),
        ({"prefetch": "4"}, ((), {"x": DatasetV2()}), ((), {"x": ("prefetched", 4)})),
    ],
)
def test_the_arguments_of_fit(told, given, becomes):
    found, agent = fitted(told, *given[0], **given[1])
    assert found == becomes
    assert agent.has == set(told)


@pytest.mark.parametrize(
    ("told", "becomes", "lacks"),
    [
        ({"workers": "4"}, (4, False, 10), {}),
        ({"workers": "4", "prefetch": "8"}, (4, False, 32), {}),
        ({"processes": "on"}, (1, True, 10), {}),
        ({"prefetch": "8"}, (1, False, 10), {"prefetch": keras_setting.NO_QUEUE}),
        ({"batch": "2x"}, (1, False, 10), {"batch": keras_setting.CUTS_ITSELF}),
        ({"persistent": "on"}, (1, False, 10), {"persistent": keras_setting.EACH_EPOCH}),
    ],
)
def test_the_data_set_of_a_script_loads_as_the_lane_wants_it(told, becomes, lacks):
    data = Mine()
    _, agent = fitted(told, data)
    assert (data.workers, data.use_multiprocessing, data.max_queue_size) == becomes
    assert agent.has_not == lacks
    assert agent.has == set(told) - set(lacks)


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        ([1], "workers", "fit cuts its batches from arrays, and nothing loads them"),
        ((each for each in [1]), "workers", "a generator gives one batch after another"),
        ((each for each in [1]), "batch", "what fit is given cuts its batches itself"),
        (DatasetV2(), "workers", "a tf.data pipeline has its own"),
        (_PrefetchDataset(), "prefetch", "its tf.data pipeline ends with a prefetch already"),
        (object(), "processes", "what fit is given is no PyDataset and no DataLoader"),
    ],
)
def test_why_fit_cannot_have_a_setting(data, name, why):
    _, agent = fitted({"look": "1"}, data)
    assert why in list_impossible(agent.has, agent.has_not, SeenLoader(8, 10, None, kind="OtherAdapter"))[name]


@pytest.mark.parametrize(
    ("engine", "told", "given", "named", "becomes"),
    [
        ("jax", {"steps_per_execution": "8"}, ("sgd",), {"loss": "mse"},
         {"optimizer": "sgd", "loss": "mse", "steps_per_execution": 8}),
        ("torch", {"steps_per_execution": "8"}, (), {"loss": "mse"}, {"loss": "mse"}),
        ("torch", {"execution": "compile"}, (), {"loss": "mse"}, {"loss": "mse", "jit_compile": True}),
        ("torch", {"execution": "compile"}, (), {"run_eagerly": True}, {"run_eagerly": True}),
        ("jax", {"steps_per_execution": "8"}, (), {"steps_per_execution": 2}, {"steps_per_execution": 8}),
    ],
)  # fmt: skip
def test_the_arguments_of_compile(engine, told, given, named, becomes):
    assert compile_arguments(told, engine, given, named) == ((), becomes)


def test_the_last_call_of_an_epoch_takes_what_is_left():
    assert [steps_in(first, first + 31, 100) for first in (0, 32, 64, 96)] == [32, 32, 32, 4]
    assert steps_in(96, 127, None) == 32


def test_threads_that_nothing_heeds_are_no_lane():
    says = "threads has no effect: JAX takes as many threads as it may use cores"
    assert find_unset(Settings(threads=1), set(), {"threads": keras_setting.ALL_CORES}, None) == says
    assert find_unset(Settings(threads=1), set(), {}, None) is None


def test_what_keras_workers_are_is_known():
    """Of threads, those of a queue; of processes, a single one loads ahead, too."""
    mine = SeenLoader(None, 40, 2, kind="PyDatasetAdapter", queue=8)
    assert list_impossible({"execution", "layout", "optimizer", "processes", "steps_per_execution"}, {}, mine) == {
        "workers=2": "the script has as many already",
        "workers=1": "of Keras's threads, one loads nothing ahead",
        "prefetch=4": "the script has as many already",
    }
    assert find_unset(Settings(workers=4), {"workers"}, {}, mine) == (
        "workers was not set: the loader that the script trains from has 2"
    )
