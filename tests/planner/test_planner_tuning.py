"""What a tuning may try: another batch has the learning rate that belongs to it, unless nobody knows one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from planner_machines import AMPERE, CPU, PASCAL, machine_with

from laptime.model.errors import UsageError
from laptime.model.frameworks import SCRIPT
from laptime.model.symptoms import StepSymptoms
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import find_devices, plan_lane, plan_script_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.tune.lanes import ScriptLook, check_tune, find_tunable, rate_of_batch, read_look
from laptime.questions.tune.options import TuneAsk
from laptime.trainings.workloads import CATALOGUE


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


def of_script(lane="cpu", allow=(), device=CPU):
    """Return what may be tried on a script's lane, before its first heat."""
    machine = machine_with(CPU, device) if device is not CPU else machine_with(CPU)
    plan = partial(plan_script_lane, devices=find_devices(machine), machine=machine)
    asked = replace(parse_lane(lane), framework=SCRIPT)
    return find_tunable(asked, machine, SubjectFacts(None), plan, TuneAsk(allow))


def test_what_is_tried_on_a_script_keeps_what_it_learns():
    found = of_script()
    assert found.base.name == "cpu/as-written"
    assert found.values == {
        "execution": ("compile",), "layout": ("channels_last",), "optimizer": ("fused",),
        "threads": ("1", "3", "6"), "pinning": ("cores",), "malloc": ("keep",), "workers": ("0", "3", "6", "12"),
        "prefetch": ("4", "8"), "processes": ("on",), "persistent": ("on",), "steps_per_execution": ("8", "32"),
    }  # fmt: skip
    assert found.with_words((("layout", "channels_last"), ("workers", "4"))).name == "cpu/channels_last+workers=4"
    assert found.with_words((("prefetch", "4"), ("workers", "0"))) == "prefetch=4 with workers=0: there is no worker"


def test_what_changes_a_script_besides_the_time_has_to_be_allowed():
    more = of_script("cuda", ("precision", "batch"), AMPERE).values
    assert {name: more[name] for name in ("precision", "matmul", "pinned", "batch")} == {
        "precision": ("bf16",), "matmul": ("high",), "pinned": ("on",), "batch": ("2x", "4x", "8x"),
    }  # fmt: skip
    assert not {"precision", "matmul", "batch", "denormals"} & of_script("cuda", (), AMPERE).values.keys()
    assert of_script(allow=("batch",)).with_words((("batch", "2x"),)).settings.joined == 2


def test_after_its_first_heat_a_script_is_not_tried_with_what_it_cannot_have():
    signs = StepSymptoms(
        10, wait_ns=900, wall_ns=1000, threads=6,
        notes={"no input": "other"},
        impossible={"layout": "no convolution", "workers=0": "as many"},
    )  # fmt: skip
    look = read_look(signs)
    cannot = {"layout": "no convolution", "workers=0": "as many", "threads=6": "the script has as many already"}
    assert look == ScriptLook(cannot, waits_share=0.9, workers_wanted=9.0, step_ms=1e-4)
    found = of_script().after_look(look)
    assert (found.values["workers"], found.values["threads"]) == (("3", "6", "12"), ("1", "3"))
    assert "layout" not in found.values
    assert found.refused["channels_last"] == "no convolution"
    assert (("workers", "12"),) in found.known, (
        "it waits for its data: as many workers as that asks for are tried first"
    )
    assert [words[0][0] for words in found.singles()[:3]] == ["workers"] * 3
    assert all(("layout", "channels_last") not in words for words in found.known)
    assert not any(dict(words).get("workers") for words in of_script().after_look(replace(look, waits_share=0.1)).known)


@pytest.mark.parametrize(
    ("wait_ns", "has", "guess"),
    [(600, 0, "3"), (800, 0, "6"), (990, 0, "12"), (500, 1, "3"), (700, 2, "12"), (150, 0, None)],
)
def test_a_script_that_waits_is_tried_first_with_as_many_workers_as_that_asks_for(wait_ns, has, guess):
    """A batch takes 600 of 1000 ns and a step the other 400: two workers load as fast as it trains."""
    signs = StepSymptoms(10, wait_ns=wait_ns, wall_ns=1000, impossible={f"workers={has}": "as many"})
    known = of_script().after_look(read_look(signs)).known
    assert [dict(words)["workers"] for words in known if dict(words).keys() == {"workers"}] == (
        [guess] if guess else []
    )


@pytest.mark.parametrize(("waits_share", "alone"), [(0.3, 1), (0.9, 0)])
def test_presets_are_tried_without_workers_where_a_script_does_not_mostly_wait(waits_share, alone):
    """Where cores load what other cores train on, workers may gain nothing, and the presets something."""
    known = of_script().after_look(ScriptLook({}, waits_share, workers_wanted=1.0)).known
    assert [dict(words).get("workers") for words in known] == [None] * alone + ["3", "3"]


def test_a_script_of_short_steps_is_tried_first_with_one_thread():
    """Threads that meet in many small operators may cost; a step that waits, or is long, has other guesses."""
    short = ScriptLook({}, waits_share=0.1, step_ms=5.0)
    usual = {**dict(of_script().known[0]), "threads": "6"}
    assert [dict(words) for words in of_script().after_look(short).known] == [usual, usual | {"threads": "1"}]
    no_loader = read_look(StepSymptoms(10, wall_ns=50_000_000))
    assert no_loader == ScriptLook({}, step_ms=5.0)
    for other in (ScriptLook({}), replace(short, step_ms=40.0), replace(short, waits_share=0.9, workers_wanted=3.0),
                  replace(short, cannot={"threads=1": "the script has as many already"})):  # fmt: skip
        assert not any(dict(words).get("threads") == "1" for words in of_script().after_look(other).known)


def test_what_needs_workers_is_tried_with_some():
    found = of_script().after_look(ScriptLook({"prefetch": "no workers", "persistent": "no workers"}))
    assert "persistent" not in found.values
    assert found.values["prefetch"] == ("4", "8")
    assert (("prefetch", "4"),) not in found.singles()
    assert found.with_words((("prefetch", "4"),)) == "prefetch needs workers, and the script has none"
    assert found.with_words((("workers", "4"), ("prefetch", "4"))).name == "cpu/workers=4+prefetch=4"
    iterated = ScriptLook({"prefetch": "no workers", "workers": "it is iterated"}, waits_share=0.9)
    assert not {"prefetch", "workers"} & of_script().after_look(iterated).values.keys()
