"""Lanes on several devices: how they are written and named, what each device gets, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import AMPERE, BROKEN, CPU, machine_with, plan_for, subject_of

from laptime.model.errors import UsageError
from laptime.model.machine import Framework, NodeRoom
from laptime.model.plan import OwnBatches, OwnTraining
from laptime.planner.lanes import names_a_lane, parse_lane
from laptime.planner.plan import plan_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.scale.options import ScaleAsk
from laptime.questions.scale.run import ScaleFacts, check_scale, plan_scale, without_groups
from laptime.trainings.workloads import find_workload

CARDS = tuple(replace(AMPERE, name=f"cuda:{number}") for number in range(4))
TWO = machine_with(CPU, *CARDS[:2])
FOUR = machine_with(CPU, *CARDS)


@pytest.mark.parametrize(
    ("lane", "name", "devices", "ranked"),
    [
        ("2xcpu", "torch/2xcpu/as-written", ["cpu", "cpu"], True),
        ("1xcpu/ddp", "torch/1xcpu/ddp", ["cpu"], True),
        ("torch/2xcuda/weak", "torch/2xcuda/weak", ["cuda:0", "cuda:1"], True),
        ("cuda:1+cuda:0/fsdp", "torch/cuda:1+cuda:0/fsdp", ["cuda:1", "cuda:0"], True),
        ("2xcuda/dp", "torch/2xcuda/dp", ["cuda:0", "cuda:1"], False),
        ("cuda:1", "torch/cuda:1/as-written", [], False),
    ],
)
def test_a_group_is_read_and_named(lane, name, devices, ranked):
    (planned,) = plan_for(TWO, lane).lanes
    assert (planned.name, [each.name for each in planned.devices], planned.is_ranked) == (name, devices, ranked)
    assert names_a_lane(lane)


def test_each_process_of_a_processor_gets_its_share_of_the_cores():
    lanes = plan_for(machine_with(CPU, usable=6), "2xcpu", "3xcpu/best+weak", "cpu", "2xcpu/threads=1").lanes
    assert [each.settings.threads for each in lanes] == [3, 2, None, 1]
    assert lanes[0].environment["OMP_NUM_THREADS"] == "3"
    assert plan_for(machine_with(CPU, usable=6), "3xcpu/weak", "cpu", what="cifar-mlp").proof.batch == 33


def nodes(machine, *rooms, ranks=None):
    return replace(machine, nodes=tuple(NodeRoom(f"node{n}", *room, ranks) for n, room in enumerate(rooms)))


def test_a_group_that_one_node_has_no_room_for_is_spread_over_several():
    """Each node numbers its own cards; under torchrun, a node has as many processes as were started there."""
    planned = plan_for(nodes(TWO, (8, 2), (8, 2), (8, 1)), "3xcuda/weak", "2xcuda", "cuda:0+cuda:1", "cuda").lanes
    assert [each.spread for each in planned] == [(2, 1), (), (), ()]
    assert [each.name for each in planned[0].devices] == ["cuda:0", "cuda:1", "cuda:0"]
    assert planned[0].notes[-1] == "its devices are on 2 nodes: 2 + 1"
    assert [planned[0].seat_of(rank) for rank in range(3)] == [(0, 2), (1, 2), (0, 1)]
    six = machine_with(CPU, usable=6)
    (of_cores,) = plan_for(nodes(six, (6, 0), (4, 0)), "4xcpu/threads=2").lanes
    assert (of_cores.spread, of_cores.settings.threads) == ((3, 1), 2)
    (one_each,) = plan_for(nodes(six, (6, 0), (6, 0), ranks=1), "2xcpu").lanes
    assert (one_each.spread, one_each.settings.threads) == ((1, 1), 6)
    with pytest.raises(UsageError, match="4xcpu: torchrun has started 2 processes"):
        plan_for(nodes(six, (6, 0), (6, 0), ranks=1), "4xcpu")
    with pytest.raises(UsageError, match="dp: DataParallel is one process, and 3xcuda is on several nodes"):
        plan_for(nodes(TWO, (8, 2), (8, 1)), "3xcuda/dp+weak")


def test_weak_and_strong_are_the_batch_of_each_and_of_all():
    strong, named, weak = plan_for(TWO, "2xcuda", "2xcuda/strong", "2xcuda/weak").lanes
    assert strong.settings.value_of("scaling") is named.settings.value_of("scaling") is None
    assert weak.settings.value_of("scaling") == "weak"


OWN_STEP = OwnTraining("step", "a list", takes_workers=False, batches=OwnBatches("no list"), has_fence=True)
REFUSED = [
    ("2xcpu/dp", "dp: DataParallel splits a batch over cards", {}),
    ("cpu/ddp", "ddp: this lane is on one device", {}),
    ("cuda/weak", "weak: this lane is on one device", {}),
    ("cuda/sync=none", "sync=none leaves out what the processes of a lane exchange", {}),
    ("2xcuda/dp+sync=none", "sync=none leaves out what the processes of a lane exchange", {}),
    ("7xcpu", "7xcpu: 7 processes would share 6 cores", {}),
    ("2xcpu/threads=4", "2xcpu/threads=4: 2 processes of 4 threads share 6 cores", {}),
    ("2xcpu/pinning=cores", "pinning=cores: each process of 2xcpu is kept to its own cores", {}),
    ("3xcpu/batch=100", "3xcpu: a batch of 100 cannot be shared out to 3 devices", {}),
    ("cuda:0+cpu", "cuda:0+cpu: devices of two kinds do not share one step", {}),
    ("cuda:0+cuda:0", "cuda:0+cuda:0: a device is named twice", {}),
    ("3xcuda", "device cuda:2 is not there for torch: it sees cuda:0, cuda:1", {}),
    ("2xcuda/graph", "graph: a step on several devices is not captured in this version", {}),
    ("0xcuda", "'0xcuda' is neither a framework nor a device", {}),
]


@pytest.mark.parametrize(("lane", "says", "asked"), REFUSED)
def test_what_a_group_cannot_have_is_refused(lane, says, asked):
    with pytest.raises(UsageError) as caught:
        plan_for(TWO, lane, **asked)
    assert says in caught.value.says
    assert caught.value.hint


def scale(machine, *lanes, what="cifar-mlp", loads=False, **asked):
    workload = find_workload(what)
    facts = SubjectFacts(workload, name=what)
    given = ScaleFacts(machine, subject_of(workload), lambda lane: plan_lane(lane, machine, facts), loads)
    return plan_scale(ScaleAsk(**asked), [parse_lane(each) for each in lanes], given)


def test_a_scale_races_each_count_and_the_experiments_on_the_largest():
    found = scale(FOUR, "cuda", growth=("both",))
    roles = [(each.mode, each.role, each.devices, each.name) for each in found.roles]
    one, weak, strong = "torch/cuda:0/as-written", "torch/{}xcuda/weak", "torch/{}xcuda/as-written"
    assert roles == [
        ("weak", "one", 1, one),
        ("weak", "several", 2, weak.format(2)),
        ("weak", "several", 4, weak.format(4)),
        ("weak", "alone", 4, f"{weak.format(4)}+sync=none"),
        ("strong", "one", 1, one),
        ("strong", "several", 2, strong.format(2)),
        ("strong", "several", 4, strong.format(4)),
        ("strong", "alone", 4, "torch/4xcuda/sync=none"),
        ("strong", "part", 1, "torch/cuda:0/batch=8"),
    ]
    assert len({each.name for each in found.lanes}) == len(found.lanes) == 8


def test_a_scale_of_a_processor_gives_every_process_the_same_share():
    found = scale(machine_with(CPU, usable=4), "cpu/malloc=keep", loads=True, devices=(1, 2))
    assert [(each.role, each.name) for each in found.roles] == [
        ("one", "torch/cpu/malloc=keep+threads=2"),
        ("several", "torch/2xcpu/malloc=keep+threads=2+weak"),
        ("alone", "torch/2xcpu/malloc=keep+threads=2+weak+sync=none"),
        ("several ready", "torch/2xcpu/malloc=keep+threads=2+weak+input=cached+sync=none"),
        ("one ready", "torch/cpu/malloc=keep+threads=2+input=cached"),
        ("all cores", "torch/cpu/malloc=keep+threads=4"),
    ]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (ScaleAsk((0,)), "--devices 0: expected counts from 1 to 4,096"),
        (ScaleAsk((2, 2)), "--devices 2,2: a count is named twice"),
        (ScaleAsk((1,)), "--devices 1: one device alone does not scale"),
    ],
)
def test_counts_are_checked_before_anything_runs(asked, says):
    with pytest.raises(UsageError) as caught:
        check_scale(asked)
    assert says in caught.value.says


def test_a_scale_says_what_there_is():
    with pytest.raises(UsageError, match="--devices 8: torch can use 2 cuda devices here"):
        scale(TWO, "cuda", devices=(1, 8))
    with pytest.raises(UsageError, match="there is one cuda device here, and nothing to scale to"):
        scale(machine_with(CPU, AMPERE, BROKEN), "cuda")
    with pytest.raises(UsageError, match="2xcuda names devices itself"):
        scale(TWO, "2xcuda")


def test_a_lane_without_the_words_of_groups_can_be_planned_on_one_device():
    given = ("torch/cuda/fsdp+bf16", "cuda/ddp", "torch/cpu", "torch/cuda/weak")
    assert [without_groups(each) for each in given] == ["torch/cuda/bf16", "cuda", "torch/cpu", "torch/cuda"]


def test_frameworks_that_take_one_device_refuse_groups():
    view = Framework("python", "3", {"python": "3"}, (CPU,))
    machine = replace(TWO, frameworks=(*TWO.frameworks, view))
    with pytest.raises(UsageError, match="2xcpu: laptime trains python on one device a lane"):
        plan_for(machine, "python/2xcpu", what="my.py:training", own=OWN_STEP)
