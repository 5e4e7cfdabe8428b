"""A user's batches by more workers, kept, joined, or alone: the same batches, or a refusal in words."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import planted_orders
import pytest
import torch

from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.inputs import open_source
from laptime.engine.backends.torch.recipe import OwnRecipe
from laptime.model.errors import LaneError, TrainingError
from laptime.model.process import Settings
from laptime.model.quantities import Missing

FILE = str(Path(__file__).with_name("own_counterfactuals.py"))
CPU = torch.device("cpu")
# PyTorch warns where there are more workers than cores, of which a test may have one.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


def order(function, **settings):
    return planted_orders.own_order(FILE, function, Settings(**settings))


def batches(function, count, **settings):
    """Return the first batches that a lane trains on."""
    source = open_source(OwnRecipe(order(function, **settings)), Settings(**settings), CPU, 0)
    try:
        return [source() for _ in range(count)]
    finally:
        source.close()


def alike(one, other):
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in pairs)


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_give_the_same_batches(workers):
    """In the same order, from lap to lap: six batches are one."""
    assert alike(batches("loader", 14), batches("loader", 14, workers=workers))


def test_a_shuffled_lap_is_drawn_by_the_same_sampler():
    """In the training's own process; workers that live on leave out a draw from the second lap on."""

    def drawn(**settings):
        torch.manual_seed(7)
        recipe = OwnRecipe(order("shuffled", **settings))
        torch.manual_seed(3)
        source = open_source(recipe, Settings(**settings), CPU, 0)
        try:
            return [source() for _ in range(6)]
        finally:
            source.close()

    assert alike(drawn(), drawn(workers=2))


def test_workers_batches_are_run_down():
    """Two a worker may be ready."""
    source = open_source(OwnRecipe(order("loader")), Settings(workers=3), CPU, 0)
    assert source.ready_batches == 6
    source.close()


def test_a_training_with_workers_steps_and_lets_them_go():
    """They live on from lap to lap, and no longer than the training."""
    runner = TorchTraining(order("loader", workers=2)).start()
    runner.run(15)
    runner.fence()
    assert 0 < runner.loss() < 10
    assert len(torch.multiprocessing.active_children()) == 2
    assert runner.close() == ()
    assert torch.multiprocessing.active_children() == []


@pytest.mark.filterwarnings("ignore:Got pickle error:UserWarning")  # PyTorch says it too, in words of its own
def test_what_cannot_be_given_to_a_worker_is_told_in_words():
    """A function without a name, to a process that is newly started, as it is where systems do not fork."""
    before = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method("spawn", force=True)
    try:
        with pytest.raises(LaneError, match="workers=2: its dataset cannot be given to a worker"):
            batches("with_lambda", 1, workers=2)
    finally:
        multiprocessing.set_start_method(before, force=True)


def test_what_a_fork_takes_along_needs_no_pickle():
    """On Linux a worker is a fork, and has it already."""
    assert len(batches("with_lambda", 3, workers=1)) == 3


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("reads", "workers=2: the data of reads are list, and no DataLoader of PyTorch's"),
        (
            "walked",
            "workers=2: Walked of walked is an iterable dataset, which each worker would walk through as a whole",
        ),
    ],
)
def test_data_that_take_no_workers_are_refused(function, says):
    """With what would."""
    with pytest.raises(TrainingError) as caught:
        TorchTraining(order(function, workers=2)).start()
    assert says == caught.value.says
    assert caught.value.hint


def test_batches_are_joined():
    """One after another along their first axis; a step's items, and a lap's steps, follow."""
    single, joined = batches("loader", 6), batches("loader", 3, joined=2)
    expected = [
        (torch.cat([a[0], b[0]]), torch.cat([a[1], b[1]])) for a, b in zip(single[::2], single[1::2], strict=True)
    ]
    assert alike(expected, joined)
    training = TorchTraining(order("loader", joined=2))
    assert (training.items_per_step, training.steps_per_lap) == (32, 3)


@pytest.mark.parametrize(
    ("kind", "workers"), [("published", None), ("published", 1), ("cached", None), ("resident", None), ("one", None)]
)
def test_a_joined_batch_is_trained_wherever_it_comes_from(kind, workers):
    """As four of its own."""
    runner = TorchTraining(order("loader", joined=4, input=kind, workers=workers)).start()
    runner.run(3)
    assert 0 < runner.loss() < 10
    assert len(runner.parts().fetch()[0]) in {64, 32}
    runner.close()


def test_what_holds_tensors_is_joined_too():
    """Dicts and tuples keep their shape."""
    [(inputs, targets)] = batches("nested", 1, joined=3)
    assert inputs["rows"][:, 0].tolist() == [0.0] * 4 + [1.0] * 4 + [2.0] * 4
    assert (len(inputs["more"]), inputs["more"][0].shape, targets.shape) == (1, (12,), (12,))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("words", "batch=Nx: batches of words cannot be joined: str is no tensor, nor do they hold the same"),
        ("other_widths", "batch=Nx: batches of other_widths cannot be joined: shapes are (4, 8), (4, 9)"),
    ],
)
def test_what_cannot_be_joined_is_refused(function, says):
    """It says why."""
    with pytest.raises(TrainingError) as caught:
        batches(function, 1, joined=2)
    assert says == caught.value.says


def test_one_batch_is_given_again_and_again():
    """So there is one shape only."""
    first, *others = batches("shapes", 4, input="one")
    assert all(each is first for each in others)
    assert torch.equal(first[0], batches("shapes", 1)[0][0])


def test_the_loader_alone_gives_what_a_step_would_have():
    """Nothing is trained, and there is no loss."""
    training = TorchTraining(order("loader", input="only", workers=1))
    runner = training.start()
    runner.run(7)
    runner.fence()
    assert (runner.loss(), runner.evaluator) == (0.0, None)
    assert isinstance(training.work(), Missing)
    assert runner.close() == ()
