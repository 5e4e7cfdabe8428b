"""The proof of equal work catches what is planted, and accuses nobody who is honest."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import proof as planted
from laptime.engine.backends.torch.proof import module_rates, prove, refer
from laptime.engine.backends.torch.recipe import BuiltInRecipe
from laptime.engine.backends.torch.stepping import switch_off_dropout
from laptime.machine.look import look_at_processor
from laptime.model.ask import Ask
from laptime.model.hardware import Conv, Dense, Flatten, MaxPool
from laptime.model.plan import Plan
from laptime.questions.proving import _reference_key
from laptime.store.references import load_reference, save_reference
from laptime.trainings.workloads import CATALOGUE
from long_cases import cases

# The three light networks; bench/proof.py does the same for all five. Planted in them is what depends on the network,
# and what is hardest to see. Everything else is planted in a small sister of the first: it shows in any network.
NAMES = ("cifar-cnn", "cifar-mlp", "plates-cnn")
HARDEST = {
    *("learning rate +1 %", "epsilon's other place", "another activation", "one pixel not scaled"),
    "pixels / 256, not 255",
}
CASES = [(name, what) for name in NAMES for what in planted.planted_for(CATALOGUE[name]) if what in HARDEST]
SISTER = (Conv(8, 3, padding="same"), MaxPool(), Conv(8, 3), Flatten(), Dense(16, "relu"), Dense(10))
FEATURES, BF16 = set(look_at_processor().features), {"avx512_bf16", "amx_bf16", "bf16", "sve_bf16"}
OTHERS = [what for what in planted.planted_for(CATALOGUE["cifar-cnn"]) if what not in HARDEST]


class References(dict):
    """The float64 run of each network, once it is asked for."""

    def __missing__(self, name):
        self[name] = kept_or_made(planted.order_for(name, 0))
        return self[name]


@pytest.fixture(scope="module")
def references(torch_cache):
    """The float64 runs; races of the same workload compute and keep the same, so each is taken from where they do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAPTIME_CACHE", str(torch_cache.parent))
        yield References()


def kept_or_made(order):
    plan = Plan(Ask(seed=order.seed), order.subject, (order.lane,), order.proof, order.pace)
    key = _reference_key(plan, order.subject, "torch")
    found = load_reference(key)
    if found is None:
        found = replace(refer(BuiltInRecipe(order)), key=key)
        save_reference(found)
    return found


def first_or_long(pairs):
    """Return two cases of the first network, and all others, which are long."""
    first = [each for each in pairs if each[0] == NAMES[0]][:2]
    return cases(*first, long=[each for each in pairs if each not in first])


@pytest.mark.parametrize(("name", "what"), first_or_long(CASES))
def test_planted_differences_are_caught(references, name, what):
    """Each changes one thing in an otherwise equal training."""
    change, batches = planted.planted_for(CATALOGUE[name])[what]
    recipe = planted.Planted(planted.order_for(name, 0), change, batches)
    assert planted.judge(references[name], recipe, planted.PLAIN).status == "differs"


@pytest.fixture(scope="module")
def sister():
    """Return the reference of the small network, which an honest lane keeps to."""
    order = planted.order_for("cifar-cnn", 0)
    reference = refer(planted.Planted(order, as_sister(lambda workload: workload), list))
    honest = planted.judge(reference, planted.Planted(order, as_sister(lambda workload: workload), list), planted.PLAIN)
    assert honest.status == "same"
    return reference


def as_sister(change):
    return lambda workload: change(replace(workload, layers=SISTER))


@pytest.mark.parametrize("what", OTHERS)
def test_planted_differences_are_caught_in_a_small_network(sister, what):
    change, batches = planted.planted_for(CATALOGUE["cifar-cnn"])[what]
    recipe = planted.Planted(planted.order_for("cifar-cnn", 0), as_sister(change), batches)
    assert planted.judge(sister, recipe, planted.PLAIN).status == "differs"


# A processor without bf16 emulates it: convolutions then take ten times as long, so one network has to do.
ALIKE = [(name, lane) for name in NAMES for lane in planted.HONEST if lane != "fastest" or name == "cifar-mlp"]
IN_BF16 = [(name, "fastest") for name in NAMES if name != "cifar-mlp"] * bool(FEATURES & BF16)


@pytest.mark.parametrize(("name", "lane"), first_or_long([*ALIKE, *IN_BF16]))
def test_honest_lanes_are_not_accused(references, name, lane):
    """As written, at its best, and in reduced precision: the same work, well within what is allowed."""
    parity = planted.judge(references[name], BuiltInRecipe(planted.order_for(name, 0)), planted.HONEST[lane])
    assert parity.status == "same"
    assert parity.worst < parity.tolerance / 4
    assert parity.moved < 0.5


def test_a_frozen_array_is_caught(references):
    """Leaving out one bias of ten numbers is cheap, and is not the same training."""

    class Frozen(BuiltInRecipe):
        def network(self):
            network = super().network()
            list(network.parameters())[-1].requires_grad_(False)
            return network

    parity = planted.judge(references["cifar-cnn"], Frozen(planted.order_for("cifar-cnn", 0)), planted.PLAIN)
    assert parity.status == "differs"


def test_the_proof_steps_are_kerass_adam():
    """One step of Keras's formula, by hand: epsilon next to the root of the raw second moment."""
    order = planted.order_for("cifar-cnn", 0)
    recipe = BuiltInRecipe(replace(order, proof=replace(order.proof, steps=1)))
    network = recipe.network().double()
    switch_off_dropout(network)
    images, labels = recipe.proof_batches()[0]
    loss = recipe.loss(network(images.double()), labels) * recipe.proof.scale_of(0)
    loss.backward()
    length = 0.0
    for parameter in network.parameters():
        slope = parameter.grad.numpy()
        mean, square = 0.1 * slope, 0.001 * slope**2
        rate = 1e-5 * np.sqrt(1 - 0.999) / (1 - 0.9)
        length = np.hypot(length, np.linalg.norm(rate * mean / (np.sqrt(square) + 1e-7)))
    run = prove(recipe, planted.PLAIN, "fp32", torch.device("cpu"))
    assert length == pytest.approx(np.linalg.norm(run.moves), rel=1e-4)


@pytest.mark.long
def test_the_twin_of_a_reference_stays_near_it(references):
    """What rounding alone does is four orders below what a planted difference does to the loss."""
    reference = references["cifar-cnn"]
    distances = np.abs(np.subtract(reference.twin.losses, reference.exact.losses)) / reference.exact.losses
    assert 0 < distances.max() < 5e-7
    assert reference.weights == CATALOGUE["cifar-cnn"].parameters


def test_the_rates_of_a_networks_modules_are_known():
    """The proof switches dropout off, so its steps cannot show them; a rate of 0 is none."""
    network = torch.nn.Sequential(
        torch.nn.Dropout(0.3), torch.nn.BatchNorm1d(4, momentum=0.2), torch.nn.Dropout(0.0), torch.nn.Dropout(0.5)
    )
    assert dict(module_rates(network)) == {
        "dropout rate 1": 0.3,
        "momentum of running statistics 1": 0.2,
        "dropout rate 2": 0.5,
    }
