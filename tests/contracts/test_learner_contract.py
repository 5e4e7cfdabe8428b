"""One suite for the learners of every back end: what the loop of whole trainings relies on holds for each alike.

Random numbers belong to the process, and a process trains one lane: a learner here begins when the one before is done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rooms_here import HERE, INSTALLED, KERAS_ROOMS, STEP_ROOMS, TOGETHER

from laptime.engine.backends import open_backend
from laptime.model.hardware import Conv, Dense, Dropout, Flatten, MaxPool
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.protocol import Score
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan
from laptime.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from laptime.trainings.workloads import CATALOGUE, find_workload

WORKLOAD = "cifar-cnn"
# Its first, smaller sister, with dropout as it has: each learner compiles a network, and a small one quickly.
SMALL = (Conv(8, 3, padding="same"), MaxPool(), Dropout(0.25), Flatten(), Dense(16, "relu"), Dropout(0.5), Dense(10))
BATCH = 8
STEPS = 3


@dataclass(frozen=True)
class Unbroken:
    """The accounts of three laps and of a short one, what an evaluation said between, and the file of the state."""

    laps: tuple[Score, ...]
    looked: Score
    short: Score
    path: Path


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(CATALOGUE, WORKLOAD, replace(find_workload(WORKLOAD), layers=SMALL))
        yield


@pytest.fixture(scope="module", params=HERE)
def backend(request):
    return open_backend(request.param)


@pytest.fixture(scope="module")
def order(backend):
    """Order a small training of cifar-cnn on the processor; it has dropout, so random numbers matter."""
    workload = find_workload(WORKLOAD)
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{backend.name}/cpu/batch={BATCH}", backend.name, cpu, Settings(batch=BATCH))
    subject = Subject(WORKLOAD, "", workload.parameters, workload.batch, workload.steps_per_lap, 10, "images")
    pace = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
    return HeatOrder(subject, lane, 0, ProofPlan(steps=2, batch=2), pace, 0)


def begin(backend, order, steps_done=0, state=None):
    """Build a training, and give its learner, ready to go."""
    learner = backend.build(order).learn()
    learner.begin(steps_done, state)
    return learner


def train(learner, steps=STEPS):
    """Train one lap, and give its account."""
    learner.reset_score()
    learner.run(steps)
    learner.fence()
    return learner.score()


@pytest.fixture(scope="module")
def unbroken(backend, order, tmp_path_factory):
    """Train from the start, and write down the state after the first lap: what others are held against."""
    learner = begin(backend, order)
    first = train(learner)
    path = tmp_path_factory.mktemp("unbroken") / "lane.npz"
    write_checkpoint(path, Checkpoint({}, (), learner.state()))
    second, looked, third = train(learner), learner.evaluator.score(20), train(learner)
    return Unbroken((first, second, third), looked, train(learner, 2), path)


def test_every_room_is_tested_or_not_installed():
    """A new back end is held to this contract by being listed among the rooms."""
    assert sorted(INSTALLED) == sorted([*TOGETHER, *KERAS_ROOMS, *STEP_ROOMS])


def test_an_account_holds_the_means_of_its_items(unbroken):
    """As many items as steps times the batch; a loss, and a share of right answers."""
    score = unbroken.laps[0]
    assert score.items == STEPS * BATCH
    assert 0 < score.loss < 20
    assert 0 <= score.accuracy <= 1
    assert isinstance(score.whole, Missing)


def test_another_seed_gives_another_curve(backend, order, unbroken):
    """Of starting weights, of batches, or of both."""
    other, score = train(begin(backend, replace(order, seed=5))), unbroken.laps[0]
    assert (other.loss, other.accuracy) != pytest.approx((score.loss, score.accuracy), rel=1e-9)


def test_an_evaluation_trains_nothing(backend, order, unbroken):
    """It says the same twice, and what comes after it is what would have come without it.

    So the same order gives the same curve, to the last digit. An evaluation has as many items as were asked for, and
    the truth about them depends neither on what was trained nor on how many are asked for.
    """
    learner = begin(backend, order)
    truth = learner.evaluator.predict(3).truth
    looked = [train(learner)]
    assert learner.evaluator.score(20) == learner.evaluator.score(20)
    assert [learner.evaluator.score(items).items for items in (1, BATCH, BATCH + 3)] == [1, BATCH, BATCH + 3]
    answers = learner.evaluator.predict(6)
    assert len(answers.predicted) == 6
    assert answers.truth[:3] == truth
    assert all(len(labels) == 1 for labels in answers.truth)
    assert (*looked, train(learner)) == unbroken.laps[:2]
    assert learner.close() == ()


def test_a_training_goes_on_from_its_state_as_if_unbroken(backend, order, unbroken):
    """In another learner, through a file: accounts and evaluations are the same to the last digit."""
    rest = begin(backend, order, STEPS, read_checkpoint(unbroken.path, {}).state)
    assert [train(rest), rest.evaluator.score(20), train(rest)] == [unbroken.laps[1], unbroken.looked, unbroken.laps[2]]


def test_a_new_account_knows_nothing_of_the_ones_before(unbroken):
    assert unbroken.short.items == 2 * BATCH
    assert unbroken.short.loss not in {lap.loss for lap in unbroken.laps}


def test_a_learner_may_be_closed_before_its_first_step(backend, order):
    """Nothing was left out, so it has nothing to say."""
    assert begin(backend, order).close() == ()
