"""What a tuning may try: another batch has the learning rate that belongs to it, unless nobody knows one."""

from __future__ import annotations

from functools import partial

import pytest
from planner_machines import AMPERE, CPU, PASCAL, machine_with

from laptime.errors import UsageError
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.tune.lanes import check_tune, find_tunable, rate_of_batch
from laptime.questions.tune.options import TuneAsk
from laptime.workloads import CATALOGUE


@pytest.mark.parametrize(
    ("name", "rate", "times", "expected"),
    [
        ("cifar-mlp", 0.01, 4, 0.04),
        ("cifar-mlp", 0.01, 0.5, 0.005),
        ("cifar-cnn", 0.001, 4, 0.002),
        ("cifar-cnn", 0.001, 2, 0.001414),
    ],
)
def test_the_rate_of_sgd_grows_as_the_batch_and_that_of_adam_as_its_root(name, rate, times, expected):
    workload = CATALOGUE[name]
    assert workload.optimizer.learning_rate == rate
    assert rate_of_batch(workload, int(times * workload.batch)) == pytest.approx(expected)


def test_the_published_batch_has_the_published_rate():
    for workload in CATALOGUE.values():
        assert rate_of_batch(workload, workload.batch) == workload.optimizer.learning_rate


def tunable(lane, workload, allow=("batch", "learning"), device=CPU):
    machine, facts = machine_with(device), SubjectFacts(workload, name="my.py:training")
    return find_tunable(
        parse_lane(lane), machine, facts, partial(plan_lane, machine=machine, subject=facts), TuneAsk(allow)
    )


def test_another_batch_has_its_learning_rate_in_a_word_of_the_lane():
    """Without `learning` it has none."""
    found = tunable("torch/cpu", CATALOGUE["cifar-cnn"])
    assert found.written((("batch", "4x"), ("threads", "1"))) == ("threads=1", "batch=4x", "lr=0.002")
    assert found.with_words((("batch", "4x"),)).settings.learning_rate == 0.002
    plain = tunable("torch/cpu", CATALOGUE["cifar-cnn"], ("batch",))
    assert plain.written((("batch", "4x"),)) == ("batch=4x",)


@pytest.mark.parametrize(
    ("lane", "workload", "why"),
    [
        ("torch/cpu", None, "a training of your own brings its learning rate with its optimizer"),
        ("torch/cpu/lr=0.1", CATALOGUE["cifar-cnn"], "the lane names its learning rate"),
    ],
)
def test_a_learning_rate_that_is_not_ours_stays_and_the_reason_is_kept(lane, workload, why):
    found = tunable(lane, workload)
    assert found.refused["lr"].startswith(why)
    assert found.written((("batch", "4x"),)) == ("batch=4x",)


def test_what_a_lane_has_only_in_company_is_tried_with_what_a_preset_sets():
    """Images are turned on the device by our loader alone: not as a single setting, but with input=fast."""
    found = tunable("torch/cpu", CATALOGUE["scenes-cnn"])
    pair = ("augment", "device")
    assert found.in_company == {pair}
    assert found.values["augment"] == ("device",)
    assert (pair,) not in found.singles()
    assert found.refused["augment=device"].startswith("augment=device: only our loader")
    assert found.with_words((("input", "fast"), pair)).settings.value_of("augment") == "device"
    assert "augment" not in tunable("torch/cpu", CATALOGUE["cifar-cnn"]).values


def test_what_a_preset_captures_is_also_tried_compiled():
    """It takes long to start, so no preset has it. A card that cannot capture a compiled step has no such set."""
    best, fastest, compiled = tunable("torch/cuda", CATALOGUE["cifar-cnn"], ("precision",), AMPERE).known
    assert dict(best)["execution"] == dict(fastest)["execution"] == "graph"
    assert dict(compiled) == dict(fastest) | {"execution": "compiled_graph"}
    (only,) = tunable("torch/cuda", CATALOGUE["cifar-cnn"], (), PASCAL).known
    assert dict(only)["execution"] == "compile"


def test_a_learning_rate_without_a_batch_is_refused():
    with pytest.raises(UsageError, match="it goes with another batch"):
        check_tune(TuneAsk(("precision", "learning")))
    check_tune(TuneAsk(("batch", "learning")))
