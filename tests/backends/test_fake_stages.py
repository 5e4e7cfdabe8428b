"""A fake step has the stages that its script names, less those that the lane's input leaves out."""

from __future__ import annotations

import pytest

from laptime.engine.backends.fake import FakeBackend
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.symptoms import Site
from laptime.model.workload import ProofPlan

PACE = Pace(1, 1, adaptive=False, measure_s=2.0, window_s=0.2)
CARD = Device("cuda:0", "cuda", "fake accelerator", usable=True)
SUBJECT = Subject("cifar-cnn", "", 1_337_002, 100, 500, 10, "images")
STAGES = "loader_ms = 30.0\ncopy_ms = 2.0\ncompute_ms = 8.0\n"


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return a fake training whose lane is so named and set, and behaves as the script says."""

    def built(script, name="as-written", **settings):
        place = tmp_path / "fake.toml"
        place.write_text(f'["*"]\n{script}', encoding="utf-8")
        monkeypatch.setenv("LAPTIME_FAKE", str(place))
        lane = PlannedLane(f"fake/cuda:0/{name}", "fake", CARD, Settings(**settings))
        backend = FakeBackend()
        training = backend.build(HeatOrder(SUBJECT, lane, 0, ProofPlan(steps=4), PACE, 0))
        return backend.clock, training.start()

    return built


def step_ms(built):
    clock, runner = built
    runner.run(1)
    start_ns = clock()
    runner.run(10)
    return (clock() - start_ns) / 10e6


@pytest.mark.parametrize(
    ("kind", "serial", "overlapping"),
    [
        ("published", 40.0, 30.0),
        ("fast", 40.0, 30.0),
        ("cached", 10.0, 8.0),
        ("resident", 8.0, 8.0),
        ("one", 8.0, 8.0),
        ("copy", 2.0, 2.0),
        ("only", 30.0, 30.0),
    ],
)
def test_an_input_leaves_some_stages(build, kind, serial, overlapping):
    """One after another they add up; side by side the longest is the step."""
    assert step_ms(build(STAGES, input=kind)) == pytest.approx(serial)
    assert step_ms(build(STAGES + "overlap = true", input=kind)) == pytest.approx(overlapping)


@pytest.mark.parametrize(
    ("script", "batch", "expected"),
    [
        ("step_ms = 10.0", 400, 10.0),
        ("step_ms = 10.0\nbatch_share = 1.0", 400, 40.0),
        (STAGES, 200, 80.0),
        (STAGES + "batch_share = 0.0", 200, 72.0),
        (STAGES + "batch_share = 0.5", 50, 15.0 + 1.0 + 6.0),
    ],
)
def test_a_batch_costs_what_the_script_says(build, script, batch, expected):
    """Computing grows by its share; the loader and the copy always grow."""
    assert step_ms(build(script, batch=batch)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gains", "name", "settings", "expected"),
    [
        ('"malloc=keep" = 2.0', "malloc=keep", {"malloc": "keep"}, 36.0),
        ('"malloc=keep" = 2.0', "best", {"malloc": "keep"}, 36.0),
        ('"malloc=keep" = 2.0', "as-written", {}, 40.0),
        ('"workers=4" = { loader = 3.0 }', "workers=4", {"workers": 4}, 20.0),
        ('"compile" = 4.0, "fused" = 2.0', "compile+fused", {"execution": "compile", "optimizer": "fused"}, 33.0),
        ('"batch=4x" = { loader = 2.0, copy = 2.0 }', "batch=4x", {}, 24.0),
    ],
)
def test_a_word_gains(build, gains, name, settings, expected):
    """In computing, or in the stages that a table names; a preset's words count too."""
    assert step_ms(build(f"{STAGES}gains = {{ {gains} }}", name, **settings)) == pytest.approx(expected)


def test_a_gain_without_stages_is_the_steps(build):
    """There is nothing else that could be faster."""
    script = 'step_ms = 10.0\ngains = { "malloc=keep" = 2.0 }'
    assert step_ms(build(script, malloc="keep")) == pytest.approx(5.0)
    assert step_ms(build(script)) == pytest.approx(10.0)


def test_signs_are_those_of_the_script(build):
    """Those that it does not name are none."""
    signs = 'signs = { reads = 2, shapes = 3, sites = [{ where = "my.py:7", what = ".item()", per_step = 2.0 }] }'
    _, runner = build(STAGES + signs)
    told = runner.parts().look(3, 3)
    assert (told.reads, told.shapes, told.compiles, told.denormals) == (2.0, 3, 0, 0.0)
    assert told.sites == (Site("my.py:7", ".item()", 2.0),)


def test_without_stages_a_step_cannot_be_parted(build):
    """It has a reason, and is not 0."""
    _, runner = build("step_ms = 10.0\nsigns = { reads = 1 }")
    told = runner.parts().look(3, 3)
    assert isinstance(told.wait_ns, Missing)
    assert told.reads == 1.0


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("signs = { glances = 2 }", "LAPTIME_FAKE: signs has no glances"),
        ('signs = { reads = "many" }', "LAPTIME_FAKE: signs cannot be read"),
        ('gains = { "as-written" = { disk = 2.0 } }', "LAPTIME_FAKE: gains of as-written name the stage disk"),
    ],
)
def test_a_script_that_cannot_be_meant_is_refused(build, script, says):
    """In the words of the key."""
    with pytest.raises(LaneError) as caught:
        build(script)[1].parts().look(1, 1)
    assert caught.value.says.startswith(says)
