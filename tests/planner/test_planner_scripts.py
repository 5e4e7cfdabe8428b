"""Lanes of a script: which devices it can be shown, how, and what is set from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import AMPERE, CPU, machine_with

from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.machine import Device, card_with
from laptime.model.plan import Subject
from laptime.model.quantities import Missing
from laptime.planner.plan import find_devices, plan_script, spread_variants

SUBJECT = Subject("train.py", "", None, None, None, None, "items", command=("python", "train.py"))
HOST, CARD = machine_with(CPU), machine_with(CPU, AMPERE)
UUID = "GPU-1f2e3d4c-0000-0000-0000-000000000000"


def lanes_of(machine, *lanes, **asked):
    plan = plan_script(Ask("train.py", lanes, **asked), machine, SUBJECT)
    return {lane.name: lane for lane in plan.lanes}


def test_each_device_is_shown_alone(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = lanes_of(CARD)
    assert [*found] == ["cpu/as-written", "cuda:0/as-written"]
    assert found["cpu/as-written"].environment["CUDA_VISIBLE_DEVICES"] == ""
    assert found["cuda:0/as-written"].environment == {"CUDA_VISIBLE_DEVICES": "0"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert lanes_of(CARD, "gpu")["cuda:0/as-written"].environment == {"CUDA_VISIBLE_DEVICES": "5"}


def test_a_processor_alone_races_at_its_best_too():
    assert [*lanes_of(HOST)] == ["cpu/as-written", "cpu/best"]
    assert lanes_of(HOST)["cpu/best"].settings.malloc == "keep"
    assert "MALLOC_TRIM_THRESHOLD_" in lanes_of(HOST)["cpu/best"].environment


def test_variants_are_added_to_each_lane():
    names = [*lanes_of(CARD, variants=("threads=1",))]
    assert names == ["cpu/as-written", "cpu/threads=1", "cuda:0/as-written", "cuda:0/threads=1"]
    assert [*lanes_of(HOST, "cpu/malloc=keep", variants=("threads=1",))] == [
        "cpu/malloc=keep",
        "cpu/malloc=keep+threads=1",
    ]
    assert lanes_of(HOST, "cpu/threads=1")["cpu/threads=1"].environment["OMP_NUM_THREADS"] == "1"


def test_a_card_that_only_its_driver_knows_is_shown_by_its_uuid():
    """The script may run in another environment than laptime, which then has no framework to ask."""
    unknown = Missing("not asked")
    whole = card_with(unknown, uuid=UUID, name="H100", memory_bytes=1 << 36)
    lost = card_with(unknown, uuid="GPU-2", name="H100", reason="lost")
    bare = replace(HOST, frameworks=(), cards=(whole, lost))
    assert [each.name for each in find_devices(bare)] == ["cpu", "cuda:0"]
    assert lanes_of(bare, "cuda")["cuda:0/as-written"].environment == {"CUDA_VISIBLE_DEVICES": UUID}


def test_a_gpu_of_an_apple_computer_cannot_be_hidden():
    mps = Device("mps", "mps", "Apple M3", usable=True)
    with pytest.raises(UsageError, match="cannot be hidden from a script"):
        lanes_of(machine_with(CPU, mps), "cpu")
    assert [*lanes_of(machine_with(CPU, mps), "mps")] == ["mps/as-written"]


def test_it_ends_after_as_many_steps_as_are_asked():
    plan = plan_script(Ask("train.py", ("cpu",), steps=40), HOST, SUBJECT)
    assert plan.pace.steps_most == 40
    assert [lane.device for lane in spread_variants(plan.ask, find_devices(HOST))] == ["cpu"]


@pytest.mark.parametrize(
    ("lane", "says"),
    [
        ("cpu/graph", "graph cannot be set from outside of a script"),
        ("cpu/fp16", "fp16 cannot be set from outside of a script"),
        ("cpu/batch=0.5x", "batch=0.5x cannot be set from outside of a script"),
        ("cpu/pinned=on", "pinned memory is for copies to a card"),
        ("cpu/persistent=on+workers=0", "there is no worker"),
    ],
)
def test_what_a_script_cannot_have_is_refused(lane, says):
    with pytest.raises(UsageError, match=says):
        lanes_of(HOST, lane)


def test_the_agent_is_told_what_a_lane_sets():
    lane = lanes_of(HOST, "cpu/compile+channels_last+fused+batch=4x+persistent=on+prefetch=8")
    (settings,) = [each.settings for each in lane.values()]
    assert (settings.execution, settings.layout, settings.optimizer, settings.joined) == (
        "compile", "channels_last", "fused", 4,
    )  # fmt: skip
    assert settings.extra == {"persistent": "on", "prefetch": "8"}
