"""`--each`: the same lane on each type of nodes of a real Ray cluster, and what goes wrong there."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import util

import psutil
import pytest

from laptime.api import showing
from laptime.engine.run.launchers import Fleet
from laptime.model.ask import Ask, TypePrice
from laptime.model.errors import UsageError
from laptime.model.frameworks import FleetNode, NodeType
from laptime.model.machine import Device
from laptime.model.plan import Place, PlannedLane, place_of
from laptime.model.process import Settings, is_exactly
from laptime.model.rows import is_lane
from laptime.planner.plan import check_ask
from laptime.questions.job import check_cluster
from laptime.store.schema import decode

ON_EACH = ("race", "cifar-cnn", "fake/cpu", "--on", "ray", "--each")
LOST = '["fake/* on machine=small"]\nstep_ms = 50.0\nfail = { how = "hang", phase = "timing", heat = 1 }\n'
CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
head = dict(num_cpus=1, labels={"machine": "big"}, include_dashboard=False)
made = Cluster(initialize_head=True, head_node_args=head)
nodes = [made.add_node(num_cpus=1, labels={"machine": "small"}, resources={"box-a": 1}) for _ in range(2)]
pids = [each.all_processes["raylet"][0].process.pid for each in nodes]
print(json.dumps([made.address, pids]), flush=True)
sys.stdin.read()
made.shutdown()
"""


@pytest.fixture(scope="module")
def fleet():
    """Return the environment in which a cluster of a big and two small nodes is found, and the small ones' raylets."""
    if util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **own},
    ) as cluster:
        address, pids = json.loads(cluster.stdout.readline())
        yield {**own, "RAY_ADDRESS": address}, [psutil.Process(pid) for pid in pids]
        cluster.stdin.close()


def raced(house, env, *words):
    answer = house.finish(house.start(*ON_EACH, *words, env=env, warnings="ignore"))
    return answer, [decode(place.read_bytes(), place.name) for place in house.files()]


def test_a_lane_that_no_node_has_room_for_is_on_several(house, fleet):
    """Its places are got together, and given back after each heat."""
    words = ("race", "cifar-cnn", "fake/cpu", "fake/2xcpu/weak", "--on", "ray", "--heats", "2", "--json", "-q")
    answer = house.finish(house.start(*words, env=fleet[0], warnings="ignore"))
    assert answer.code == 0, answer.err
    one, two = answer.json["lanes"]
    assert (one["notes"], two["notes"]) == ([], ["its devices are on 2 nodes: 1 + 1"])
    assert [[rank["rank"] for rank in result["heat"]["ranks"]] for result in two["heats"]] == [[0, 1]] * 2
    assert house.is_empty_within(10)


def test_a_lane_on_each_type_of_nodes(house, fleet):
    answer, (record,) = raced(house, fleet[0], "machine", "--prices", "small=0.1,big=1.2", "--heats", "1")
    assert answer.code == 0, answer.err
    names = [f"fake/cpu/as-written on machine={each}" for each in ("big", "small")]
    assert [(lane.name, lane.status, lane.parity.status) for lane in record.lanes] == [
        (each, "ok", "same") for each in names
    ]
    nodes = record.answer.nodes
    able = {each.of: each for each in nodes if each.problem is None}
    assert list(able) == ["machine=big", "machine=small"]
    assert all(each.host and each.machine.processor.cores_visible for each in able.values())
    assert "A lap is cheapest on fake/cpu on machine=small (" in " ".join(answer.out.split())
    assert "The nodes differ" not in answer.out
    details = showing.as_text(record, showing.View(200, details=True))
    assert "cost of a lap" in details
    big, small = able.values()
    older = replace(big, machine=replace(big.machine, python="3.10.1"))
    other = replace(small, problem="it has laptime 0.0.1")
    changed = replace(record, answer=replace(record.answer, nodes=(older, small, other)))
    first, second = showing.as_text(changed, showing.View(500)).splitlines()[:2]
    assert first.startswith("The nodes differ: python 3.10.1 on machine=big and ")
    assert second == "1 node left out, machine=small: it has laptime 0.0.1."
    assert house.is_empty_within(10)


def test_a_type_that_no_node_has_is_refused_with_those_that_there_are(house, fleet):
    answer, records = raced(house, fleet[0], "zone")
    assert (answer.code, records) == (2, [])
    assert "--each zone: no node of ray has such a label or resource" in answer.err
    assert "there are: label machine (big, small); resource box-a" in answer.err


@contextmanager
def occupied(env) -> Iterator[None]:
    """Take the core of each node with the resource box-a."""
    code = (
        "import ray, sys; ray.init('auto', log_to_driver=False, logging_level='ERROR')\n"
        "from ray.util.placement_group import placement_group as take\n"
        "there = int(ray.cluster_resources()['box-a'])\n"
        "taken = [take([{'CPU': 1, 'box-a': 1}]).ready() for _ in range(there)]\n"
        "ray.wait(taken, num_returns=there, timeout=3); print('taken', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **env},
    ) as holder:
        assert b"taken" in holder.stdout.readline()
        yield
        holder.stdin.close()


def test_types_by_a_resource_whose_places_are_taken(house, fleet):
    """They are waited for, no longer than the patience."""
    with occupied(fleet[0]):
        answer, records = raced(house, fleet[0], "box-*", "--patience", "1s")
    assert (answer.code, records) == (3, [])
    assert "no node can be used: no place with 1 core on box-a was free on ray within 1 s" in answer.err


def test_a_node_that_vanishes_costs_one_heat(house, fleet):
    """The other node of its type takes the rounds that follow. From now on the cluster is smaller."""
    env, small = fleet
    house.script(LOST)
    race = house.start(*ON_EACH, "machine", "--heats", "2", env=env, warnings="ignore")
    house.read_until(race, "heat 2 of")
    time.sleep(0.5)
    (lost,) = [
        each
        for each in small
        if any("laptime.engine.run.node" in one.cmdline() for one in each.children(recursive=True))
    ]
    for each in (lost, *lost.children(recursive=True)):
        each.send_signal(signal.SIGKILL)
    answer = house.finish(race)
    assert answer.code == 0, answer.err
    (place,) = house.files()
    record = decode(place.read_bytes(), place.name)
    assert [lane.status for lane in record.lanes] == ["ok", "ok"]
    assert [result.heat.process.status for result in record.lanes[1].heats] == ["dnf", "ok"]
    assert record.lanes[1].heats[0].heat.process.dnf.reason.startswith("its node is gone")
    assert "raylet" not in answer.out
    assert "fake/cpu on machine=small: 1 of 2 heats did not finish: its node is gone." in " ".join(answer.out.split())
    assert house.is_empty_within(10)


SMALL, BIG = NodeType("machine", "small", ("a", "b")), NodeType("machine", "big", ("c",))
LANE = PlannedLane("fake/cpu on machine=small", "fake", Device("cpu", "cpu", "x", usable=True), Settings(), where=SMALL)


def test_the_nodes_of_a_type_take_turns_until_they_are_gone():
    there = ["a", "b", "c"]
    fleet = Fleet((SMALL, BIG), lambda nodes: [each for each in nodes if each in there])
    fleet.settle(BIG)

    def latest():
        return fleet.place(place_of(LANE), LANE).nodes

    assert [latest(), latest(), latest()] == [("a",), ("b",), ("a",)]
    assert fleet.place(Place(), None) == Place(nodes=("c",), on="machine=big")
    assert fleet.goes_on(LANE)  # a is gone, even if the cluster does not know yet
    assert [latest(), latest()] == [("b",), ("b",)]
    there.remove("b")
    assert not fleet.goes_on(LANE)
    assert fleet.place(place_of(LANE), LANE).words == "1 core on machine=small"


def test_a_node_with_a_problem_gets_no_heat():
    fleet = Fleet((SMALL,), lambda nodes: nodes)
    fleet.note([FleetNode("a", SMALL.name, problem="it has another laptime"), FleetNode("b", SMALL.name)])
    assert fleet.first_of(SMALL).node == "b"
    assert {fleet.place(place_of(LANE), LANE).nodes for _ in range(3)} == {("b",)}


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (Ask(lanes=("fake/cpu",), each="machine"), "--each machine: it is about the nodes of a cluster"),
        (Ask(lanes=("fake/cpu",), on="ray", prices=(TypePrice("a", 1.0),)), "--prices are of types of nodes"),
        (Ask(on="ray", each="m", prices=(TypePrice("a", -1.0),)), "--prices a=-1: expected 0 or more"),
        (Ask(on="ray", each="m", prices=(TypePrice("a", 1.0),), rate_per_hour=1.0), "both say what an hour costs"),
        (Ask("a.py:f", ("cpu",), others=("b.py:f",), on="ray", each="m"), "it takes one training"),
        (Ask(lanes=("torch/cpu",), on="slurm", each="m"), "only Ray says which types of nodes there are"),
    ],
)
def test_what_makes_no_fleet_is_refused(ask, says):
    with pytest.raises(UsageError) as refused:
        _check(ask)
    assert says in refused.value.says


def _check(ask):
    check_ask(ask)
    check_cluster("race", ask)


def test_prices_are_read_by_type(house):
    for words in ("small", "=1", "small=cheap"):
        answer = house.done(*ON_EACH, "machine", "--prices", words, code=2)
        assert f"'{words}' is no list of prices; such as small=0.10,big=1.20" in answer.err


def test_a_lane_on_a_type_is_found_by_the_lanes_name():
    name = "torch/cpu/as-written on machine=small"
    assert is_lane(name, "cpu")
    assert is_lane(name, "torch/cpu/as-written")
    assert not is_lane(name, "torch/cpu on machine=big")
    assert is_exactly(name, "torch/cpu on machine=small")
