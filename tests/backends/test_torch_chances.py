"""A training that draws random numbers is the same work in every lane, is proven so, and what differs is caught."""

# ruff: noqa: NPY002  users draw from the global generator
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import own_chances
import planted_orders
import pytest
import torch

from laptime.analysis.parity import judge_parity
from laptime.engine.backends.arrays import seed_globals
from laptime.engine.backends.python.backend import PythonBackend
from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.recipe import OwnRecipe
from laptime.engine.heat.loop import take_proof
from laptime.model.process import Settings

FILE = str(Path(own_chances.__file__))
PLAIN = Settings()
BEST = Settings(preset="best", layout="channels_last", optimizer="fused")
LOW = replace(BEST, precision="bf16")
SHUFFLED = ["shuffled", "shuffled_by_its_own", "turned_by_torch", "turned_by_numpy", "turned_by_random"]
DRAWING = [
    "dropped_by_function",
    "made_noisy",
    "left_out",
    "sloped",
    "shuffled_within",
    "remembered",
    "mixed_in_the_loss",
    "vae",
]
# PyTorch warns where there are more workers than cores, of which a test may have one.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks as small as these are slower on several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def order(tmp_path):
    """Return orders of one race: its lanes read the batches that its reference has kept."""

    def make(function, settings):
        return replace(planted_orders.own_order(FILE, function, settings), kept_batches=str(tmp_path / "batches"))

    return make


def refer(order, function):
    strangers_seeds(1)
    return TorchTraining(order(function, PLAIN)).reference()


def judge(order, function, settings, reference):
    """Judge a lane as if its process were another one."""
    strangers_seeds(2)
    training = TorchTraining(order(function, settings))
    strangers_seeds(3)
    return judge_parity(settings, [take_proof(training, settings)], reference)


def strangers_seeds(seed):
    torch.manual_seed(seed)
    seed_globals(seed)


@pytest.mark.parametrize("function", [*SHUFFLED, "turned_by_the_system", *DRAWING])
def test_what_draws_is_the_same_work(order, function):
    """As written, at its best in another layout, and in bf16; in float32 it stays far inside what is allowed."""
    reference = refer(order, function)
    assert reference.problem is None
    for settings in (PLAIN, BEST, LOW):
        parity = judge(order, function, settings, reference)
        assert (parity.status, parity.reason) == ("same", None)
        assert parity.worst < parity.tolerance / 2
        assert parity.moved < 0.5


def test_workers_draw_what_was_kept(order):
    """By another number of them, and by none."""
    reference = refer(order, "turned_in_workers")
    assert reference.problem is None
    for workers in (None, 1, 0):
        assert judge(order, "turned_in_workers", Settings(workers=workers), reference).status == "same"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("c++") is None, reason="PyTorch's compiler needs one for C++")
@pytest.mark.filterwarnings("ignore")  # of the compiler's own
def test_compiled_code_draws_the_same(order):
    """By its own kernels it would draw others: they are left to PyTorch's operators, for the proof alone."""
    function, settings = "everything_drawn", Settings(execution="compile")
    reference = refer(order, function)
    parity = judge(order, function, settings, reference)
    assert (parity.status, parity.reason) == ("same", None)
    assert not torch._inductor.config.fallback_random


def test_a_step_of_chances_that_the_network_computes_is_proven_in_float32_alone(order):
    """In bf16 they are rounded, and another item is drawn."""
    reference = refer(order, "chosen")
    assert judge(order, "chosen", BEST, reference).status == "same"
    parity = judge(order, "chosen", LOW, reference)
    assert parity.status == "unproven"
    assert "in bf16 it draws others" in parity.reason


def test_two_networks_that_a_step_of_its_own_trains_are_proven(order):
    """In a python lane: PyTorch draws for it in float64, too, since its code has imported PyTorch."""

    def build():
        made = order("gan", PLAIN)
        strangers_seeds(4)
        return PythonBackend().build(replace(made, lane=replace(made.lane, framework="python")))

    reference = build().reference()
    assert reference.problem is None
    parity = judge_parity(PLAIN, [take_proof(build(), PLAIN)], reference)
    assert (parity.status, parity.reason) == ("same", None)


@pytest.mark.parametrize("function", ["from_the_system", "by_a_generator_of_its_own"])
def test_what_cannot_be_repeated_is_unproven_with_the_reason(order, function):
    problem = refer(order, function).problem
    assert problem.startswith("it cannot be repeated: two runs from the same weights, batches and seeds differ by ")
    assert "draws from the system, the clock or a generator of its own" in problem


@pytest.mark.parametrize(("function", "other"), [("noise_by_lane", "0.303"), ("loss_by_lane", "1.001")])
def test_another_noise_and_another_loss_are_caught(order, monkeypatch, function, other):
    """By one in a hundred, and by one in a thousand; the lane draws as many numbers, of the same shapes."""
    reference = refer(order, function)
    assert judge(order, function, PLAIN, reference).status == "same"
    monkeypatch.setenv("LAPTIME_TEST_NOISE", other)
    assert judge(order, function, PLAIN, reference).status == "differs"


def test_batches_that_are_too_large_to_keep_are_drawn_from_the_seed(order, monkeypatch):
    """A shuffle is the same then; what the system draws is not, and nobody is accused of that."""
    monkeypatch.setattr("laptime.engine.backends.torch.batches.KEPT_MOST_BYTES", 1_000)
    assert judge(order, "turned_by_torch", BEST, refer(order, "turned_by_torch")).status == "same"
    reference = refer(order, "turned_by_the_system")
    assert reference.problem.endswith("these cannot be kept: they take 0 MB, and up to 0 MB are kept")
    parity = judge(order, "turned_by_the_system", PLAIN, replace(reference, problem=None))
    assert (parity.status, parity.reason) == (
        "unproven",
        "its data gave other batches than for the reference: they are drawn again in each process",
    )


def test_a_damaged_file_of_batches_is_no_file(order, tmp_path):
    """Its lane draws them from the seed, and they are the same."""
    reference = refer(order, "shuffled")
    whole = (tmp_path / "batches").read_bytes()
    for damaged in (b"", whole[:30], whole[:-10], whole.replace(b"torch.float32", b"torch.nothing"), whole[::-1]):
        (tmp_path / "batches").write_bytes(damaged)
        assert judge(order, "shuffled", PLAIN, reference).status == "same"


def test_a_proof_leaves_the_generators_as_they_were(order):
    """What is timed shuffles and draws as it would without one."""
    training = TorchTraining(order("mixed_in_the_loss", PLAIN))
    strangers_seeds(7)
    before = torch.rand(3), np.random.rand(3)
    strangers_seeds(7)
    training.prove("fp32")
    assert torch.equal(before[0], torch.rand(3))
    assert np.array_equal(before[1], np.random.rand(3))


def test_what_a_step_does_to_its_batch_stays_with_it(order):
    """Each run reads the batches again."""
    recipe = OwnRecipe(order("shuffled", PLAIN))
    assert recipe.keep_batches() is None
    first, digest = recipe.told_batches()
    first[0][0].zero_()
    again, same = recipe.told_batches()
    assert again[0][0].abs().sum() > 0
    assert digest == same
