"""Heats that are refused memory, end their process, or chat: what the heat says of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import util
from pathlib import Path

import pytest
from heat_orders import environment_for
from planted_orders import own_order

from laptime.engine.run.child import Child
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.model.process import Settings

FILE = str(Path(__file__).parents[1] / "backends" / "own_endings.py")
NEEDED = {"torch": "torch", "tensorflow": "tensorflow", "jax": "jax"}
TENSORFLOW = ("tensorflow_graph", "tensorflow_convolution")

pytestmark = pytest.mark.framework


def run(folder, function, **environment):
    """Run a heat of one of the trainings, and give it."""
    order = own_order(FILE, function, Settings())
    framework = "torch" if function == "torch_tensor" else "python"
    lane = replace(order.lane, framework=framework, environment=environment_for(folder, **environment))
    order = replace(order, lane=lane)
    return HeatRunner(order, Limits(120.0, 60.0), 2, lambda _: None).run(Started(Child(order.lane.environment)), 0)


@pytest.fixture(scope="module")
def begun_in_tensorflow(tmp_path_factory):
    """Start both of its heats, and go on: its allocator tries again for ten seconds before it gives up."""
    folder = tmp_path_factory.mktemp("tensorflow")
    functions = TENSORFLOW if util.find_spec("tensorflow") else ()
    with ThreadPoolExecutor() as pool:
        yield {function: pool.submit(run, folder, function) for function in functions}


@pytest.fixture
def refused_by_tensorflow(begun_in_tensorflow):
    if not begun_in_tensorflow:
        pytest.skip("tensorflow is not installed")
    return {function: heat.result() for function, heat in begun_in_tensorflow.items()}


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("numpy_array", "Unable to allocate 8.00 TiB for an array with shape (1048576, 1048576) and data type float64"),
        ("torch_tensor", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4398046511104 bytes."),
        ("jax_array", "Out of memory allocating 4398046511104 bytes"),
        ("tensorflow_graph", "OOM when allocating tensor with shape[1048576,1048576] and type float on "),
    ],
)
@pytest.mark.usefixtures("begun_in_tensorflow")
def test_memory_that_an_allocator_refuses_is_said_in_a_sentence(tmp_path, request, function, says):
    """Whatever the framework raises, and however long it is."""
    module = NEEDED.get(function.partition("_")[0])
    if module and util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    if function in TENSORFLOW:
        heat = request.getfixturevalue("refused_by_tensorflow")[function]
    else:
        heat = run(tmp_path, function)
    dnf = heat.process.dnf
    assert dnf.reason.startswith(f"out of memory: {says}")
    assert dnf.reason.endswith("; a smaller batch needs less")
    assert (len(dnf.reason) < 250, dnf.phase, dnf.signal) == (True, "proof", None)


@pytest.mark.long
def test_a_crash_for_want_of_memory_is_known_by_its_last_words(refused_by_tensorflow):
    """TensorFlow says that it was refused memory, and then ends in a SIGSEGV; other builds may raise."""
    dnf = refused_by_tensorflow["tensorflow_convolution"].process.dnf
    assert dnf.reason.startswith("out of memory: OOM when allocating tensor with shape[16,512,512,65536]")
    assert dnf.reason.endswith("; a smaller batch needs less")


@pytest.mark.long
def test_a_step_that_exits_says_where(tmp_path):
    """By Python's word, which can be heard; and behind its back, which leaves an exit code."""
    said, silent = run(tmp_path, "python_exit").process.dnf, run(tmp_path, "system_exit").process.dnf
    assert said.reason.startswith("own_endings.py, line ")
    assert said.reason.endswith(": its code ended the process: sys.exit('enough of this')")
    assert (said.phase, said.exit_code) == ("proof", 1)
    assert (silent.phase, silent.exit_code, silent.reason) == ("proof", 9, "the process ended on its own")


def test_an_error_while_an_error_is_told_is_told_too(tmp_path):
    """A loader's worker that dies is heard of by a signal, at any moment; no process ends without a word for it."""
    dnf = run(tmp_path, "unspeakable").process.dnf
    assert (dnf.phase, dnf.exit_code, dnf.reason) == ("proof", 1, "RuntimeError: no words for it")


def test_a_step_may_print_as_much_as_it_likes(tmp_path):
    """Nothing of it comes near the messages."""
    heat = run(tmp_path, "chatter")
    assert (heat.process.status, heat.process.dnf, len(heat.proofs)) == ("ok", None, 1)


@pytest.mark.long
def test_cards_are_not_filled_by_what_a_users_code_imports(tmp_path):
    """Both are set before its first import, unless they were set to something else."""
    assert "['false', 'true']" in run(tmp_path, "environment").process.dnf.reason
    wanted = run(tmp_path, "environment", XLA_PYTHON_CLIENT_PREALLOCATE="true").process.dnf.reason
    assert "['true', 'true']" in wanted
