"""A user's compiled Keras model is trained as its `fit` would, proven on every engine, or refused in words.

It needs a process of its own for each engine, which `test_keras_contract.py` gives it.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import own_plain_steps
import own_trainings
import pytest
from planted_orders import PACE
from rooms_here import HERE, INSTALLED, here

from laptime.analysis.parity import judge_parity
from laptime.engine.heat.work import break_down_steps
from laptime.model.errors import TrainingError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan
from laptime.planner.plan import OWN_PROOF

if not HERE[0].startswith("keras"):
    pytest.skip("test_keras_contract.py runs it", allow_module_level=True)

from laptime.engine.backends import open_backend

FILE = str(Path(__file__).with_name("own_keras.py"))
CPU = Device("cpu", "cpu", "the processor", usable=True)
KINDS = ["arrays", "weighed", "batches", "py_dataset", "generator", "two_inputs", "unbuilt"]
KINDS += ["tf_dataset", "tf_dataset_repeated"] * ("keras-tf" in INSTALLED)
KINDS += ["torch_loader"] * ("torch" in INSTALLED)
# Their batches are cut and handed over before an engine sees them: that is tried in full on one.
ALIKE = ["weighed", "batches", "py_dataset", "generator", "two_inputs", "unbuilt", "tf_dataset_repeated"]
BACKEND = open_backend(HERE[0])


def build(function, file=FILE, **settings):
    subject = Subject(function, "", None, None, None, None, "items", file=file, function=function)
    lane = PlannedLane(f"{HERE[0]}/cpu/test", HERE[0], CPU, Settings(**settings))
    return BACKEND.build(HeatOrder(subject, lane, 0, OWN_PROOF, PACE))


def judge(training, reference):
    return judge_parity(Settings(), [(training.prove("fp32"),)], reference)


@pytest.mark.parametrize(
    "function", here([kind for kind in KINDS if kind not in ALIKE], [kind for kind in ALIKE if kind in KINDS])
)
def test_a_model_is_proven_and_trained_on_data_of_any_kind(function):
    """The proof leaves nothing behind: the loss falls as it would without. Then a step is taken apart."""
    training = build(function)
    items = 48 if function == "arrays" else 32
    lap = None if function == "generator" else 192 // items
    assert (training.items_per_step, training.steps_per_lap) == (items, lap)
    assert training.parameters > 100
    parity = judge(training, training.reference())
    assert (parity.status, parity.steps) == ("same", 4 if function == "arrays" else 5), parity.reason
    runner = training.start()
    runner.run(1)
    first = runner.loss()
    for _ in range(3):
        runner.run(7)
        runner.fence()
    assert 0 < runner.loss() < 1.5 * first
    assert runner.evaluator is None
    check_parts(runner)
    assert runner.close() == ()


def check_parts(runner, shapes=1):
    """After its `fit`: the wait for a batch and the step on it; what Keras does within is not told apart."""
    signs = break_down_steps(time.perf_counter_ns, runner.fence, runner.parts())
    assert signs.steps >= 3
    assert signs.wait_ns > 0
    assert signs.compute_ns > 0
    assert signs.shapes == shapes
    assert isinstance(signs.copy_ns, Missing)
    assert isinstance(signs.reads, Missing)
    assert 0 <= signs.denormals < 0.5
    return signs


@pytest.mark.parametrize("kind", here(["resident"], ["cached", "one"]))
def test_the_first_batches_are_kept(kind):
    """On the host or on the device; `fit` cuts them as they were cut."""
    runner = build("two_inputs", input=kind).start()
    runner.run(14)
    runner.fence()
    assert 0 < runner.loss() < 10
    runner.close()


def test_a_proof_is_undone():
    """Weights, what the optimizer keeps, its rate, dropout and the way of running are as the user's code has them."""
    training = build("two_inputs")
    own = training._work._own
    wanted, held = own._read(), len(own.model.optimizer.variables)
    training.prove("fp32")
    model, _feed = training._work.make()
    assert all((one == other).all() for one, other in zip(wanted, own._read(), strict=True))
    assert type(model.optimizer._learning_rate).__name__ == "ExponentialDecay"
    assert len(model.optimizer.variables) == len(own.model.optimizer.variables) == held
    assert "_clip_gradients" not in vars(model.optimizer)
    rates = own._dropout_off.rates
    assert sorted(rate for _, _, rate in rates) == [0.0, 0.3]
    assert all(getattr(layer, word) == rate for layer, word, rate in rates)


PLANTED = [("embedded", ("decays_twice",))]  # engines have gradients of their own kind for an embedding
PLANTED_ONCE = [
    ("embedded", ("remembers",)),
    ("clipped", ("clipped_later",)),
    ("slow", ("slow_by_a_hundredth_more",)),
    ("remembers", ("remembers_less",)),
    ("rate_of_a_function", ("slow",)),
]


@pytest.mark.parametrize(("sound", "planted"), here(PLANTED, PLANTED_ONCE))
def test_what_is_planted_in_a_model_of_ones_own_is_caught(sound, planted):
    """In a weight decay, in clipping and at tiny rates, none of which shows in small steps on small gradients."""
    reference = build(sound).reference()
    assert reference.problem is None
    assert judge(build(sound), reference).status == "same"
    assert {each: judge(build(each), reference).status for each in planted} == dict.fromkeys(planted, "differs")


def test_steps_are_taken_as_many_at_once_as_it_was_compiled_for():
    assert build("four_at_once").start().stride == 4
    assert build("batches", steps_per_execution=1).start().stride == 1


@pytest.mark.parametrize("precision", here([], ["bf16"]))
def test_reduced_precision_is_proven_twice(precision):
    training = build("batches", precision=precision)
    reference = build("batches").reference()
    parity = judge_parity(
        Settings(precision=precision), [(training.prove("fp32"), training.prove(precision))], reference
    )
    assert parity.status == "same", parity.reason
    assert parity.strays > parity.worst
    runner = training.start()
    runner.run(6)
    runner.fence()
    assert 0 < runner.loss() < 10
    runner.close()


@pytest.mark.parametrize(
    ("function", "says"),
    here(
        [],
        [
            ("own_dtype", "its layers set a precision of their own, and cannot run in float64"),
            ("noisy", "it draws random numbers outside its dropout layers"),
            ("own_precision", "its code sets a precision of its own: bfloat16"),
        ],
    ),
)
def test_what_cannot_be_proven_says_why(function, says):
    """It is timed all the same."""
    assert build(function).reference().problem == says
    runner = build(function).start()
    runner.run(3)
    runner.fence()
    assert 0 < runner.loss() < 10
    runner.close()


@pytest.mark.parametrize(
    ("function", "says"),
    here(
        [],
        [
            ("not_compiled", "the model is not compiled"),
            ("loss_beside", "returns a Keras model, and a loss or an optimizer next to it"),
            ("not_pairs", "a batch is ndarray, expected (inputs, targets)"),
            ("empty", "data gave no batch at all: it is empty"),
            ("six_of_four", "its data are 6 batches, no whole number of the 4 that are taken at once"),
        ],
    ),
)
def test_what_cannot_be_trained_is_refused_in_words(function, says):
    with pytest.raises(TrainingError) as caught:
        build(function).start()
    assert says in caught.value.says


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("ends_early", "data ended after 12 batches: a generator can be walked through only once"),
        ("raises_at_nine", "data raised ValueError at batch 9: no such picture"),
    ],
)
def test_data_that_break_are_told_in_words(function, says):
    """And not in those of the engine that met them; the proof has had their first five."""
    training = build(function)
    training.prove("fp32")
    runner = training.start()
    with pytest.raises(TrainingError) as caught:
        runner.run(40)
    assert says in caught.value.says


@pytest.mark.parametrize(
    ("file", "function", "says"),
    here(
        [],
        [
            (own_trainings.__file__, "sound", "model is Sequential, and Keras lanes train a keras.Model"),
            (own_plain_steps.__file__, "sound", "gives a step function, and Keras lanes take a compiled model"),
        ],
    ),
)
def test_what_is_not_keras_says_where_it_runs(file, function, says):
    if file == own_trainings.__file__ and "torch" not in INSTALLED:
        pytest.skip("there is no PyTorch here")
    with pytest.raises(TrainingError) as caught:
        build(function, file)
    assert says in caught.value.says


@pytest.mark.skipif(HERE != ["keras-torch"], reason="it takes PyTorch, and Keras as well")
def test_a_torch_lane_says_where_keras_models_run():
    subject = Subject("batches", "", None, None, None, None, "items", file=FILE, function="batches")
    order = HeatOrder(subject, PlannedLane("torch/cpu/test", "torch", CPU, Settings()), 0, ProofPlan(steps=5), PACE)
    with pytest.raises(TrainingError, match="gives a Keras model") as caught:
        open_backend("torch").build(order)
    assert caught.value.hint == "race it on keras-tf, keras-jax or keras-torch"


def test_a_whole_training_goes_on_where_it_was():
    """A lap, its account, and the state from which another process takes the next."""
    learner = build("batches").learn()
    learner.begin(0, None)
    learner.run(6)
    learner.fence()
    score = learner.score()
    assert score.items == 192
    assert 0 < score.loss < 10
    assert 0 <= score.accuracy <= 1
    state = learner.state()
    learner.reset_score()
    learner.run(6)
    whole = learner.score()
    learner.close()
    other = build("batches").learn()
    other.begin(6, state)
    other.run(6)
    assert other.score().loss == pytest.approx(whole.loss, abs=0)
    other.close()


@pytest.mark.parametrize("function", KINDS)
def test_data_are_walked_through_without_fit(function):
    """As `fit` would take them, lap after lap; nothing is trained."""
    runner = build(function, input="only").start()
    runner.run(20)
    runner.fence()
    assert (runner.loss(), runner.evaluator) == (0.0, None)
    assert isinstance(runner.parts(), Missing)
    assert runner.close() == ()


def test_data_that_break_without_fit_are_told_in_words():
    """As they are with it."""
    runner = build("raises_at_nine", input="only").start()
    with pytest.raises(TrainingError, match="data raised ValueError at batch 9: no such picture"):
        runner.run(40)


def test_a_data_set_of_keras_takes_workers():
    """Threads of Keras's own; what they hold ready is run down before a window."""
    runner = build("py_dataset", workers=3).start()
    assert runner.ready_batches == 10 + 3
    runner.run(8)
    runner.fence()
    assert 0 < runner.loss() < 10
    runner.close()
    assert build("numbered_by_workers").start().ready_batches == 10 + 2
    assert build("numbered_by_workers", workers=0).start().ready_batches == 0


def test_other_data_take_no_workers():
    """With what would."""
    with pytest.raises(TrainingError, match="workers=2: the data of arrays are tuple, and no PyDataset of Keras's"):
        build("arrays", workers=2)


def test_a_copy_takes_one_batch_after_another():
    """Each made the engine's own kind; of two inputs both."""
    from laptime.engine.backends.keras.feeds import AwaitedBatch

    training = build("two_inputs", input="copy")
    runner = training.start()
    runner.run(5)
    runner.fence()
    assert len(AwaitedBatch(runner._last).variables) == 3
    assert runner.close() == ()


def test_what_is_compiled_anew_is_counted():
    """Where the engine reports it; nothing is, once each shape was there."""
    runner = build("two_lengths").start()
    runner.run(8)
    signs = check_parts(runner, shapes=2)
    assert signs.compiles == 0 if HERE[0] != "keras-tf" else isinstance(signs.compiles, Missing)
    runner.close()


@pytest.mark.skipif(HERE == ["keras-torch"], reason="on PyTorch Keras takes one step at a time")
def test_several_steps_at_once_are_not_taken_apart():
    """They are the engine's own."""
    runner = build("four_at_once").start()
    runner.run(4)
    assert isinstance(runner.parts(), Missing)
    runner.close()


def test_denormal_numbers_are_counted_by_their_bits():
    """In either of the precisions that Keras keeps weights in."""
    from laptime.engine.backends.keras.feeds import share_of_denormals

    tiny = [np.array([1e-40, -1e-40, 1.0, 0.0], np.float32), np.array([1e-310, 1.0], np.float64), np.arange(3)]
    assert share_of_denormals(tiny) == 0.5
    assert share_of_denormals([]) == 0
