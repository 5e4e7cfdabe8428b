"""A heat on a node: an agent relays it, so it is like one here; whatever is killed, nothing of it is left."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
import pytest
from heat_orders import PACE, environment_for, order_for
from own_nodes import OwnNodes

from laptime.engine import wire
from laptime.engine.authentication import connect_to
from laptime.engine.run.child import Silence
from laptime.engine.run.node import TO_NODE, NodeLink, connect_to_parent, hello_of
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.engine.run.turns import Player, play_turns
from laptime.model.errors import WireError
from laptime.model.quantities import Missing
from laptime.model.sample import Noise

HANGS = 'fail = { how = "hang", phase = "build" }'
HERE = socket.gethostname()
LIMITS = Limits(60.0, 5.0)


@pytest.fixture
def nodes(tmp_path):
    made = OwnNodes(environment_for(tmp_path))
    yield made
    made.close()


def runner_of(order):
    return HeatRunner(order, LIMITS, 2, lambda _phase: None)


def hang(nodes, folder):
    """Start a heat that does not go on, and return its runner."""
    order = order_for(folder, HANGS)
    runner = runner_of(order)
    runner.begin(Started(nodes.start(order.lane.environment)), runner.message)
    while runner.phase != "build":
        runner.note(runner.child.hear(30))
    return runner


def test_a_heat_on_a_node_is_like_one_here(nodes, tmp_path, house):
    """Its windows have the node's noise, and its result names the node."""
    order = order_for(tmp_path)
    heat = runner_of(order).run(Started(nodes.start(order.lane.environment)), 3)
    assert (heat.process.status, heat.process.node, heat.round) == ("ok", HERE, 3)
    assert set(heat.process.versions) == {"fake", "python"}
    assert {Noise} == {type(window.noise) for window in heat.windows}
    assert Missing("the node sent no reading") not in {window.noise.load_1m for window in heat.windows}
    assert 0 < heat.process.phases_s["start"] < 30
    assert heat.process.peak_memory_bytes > 1_000_000
    assert house.is_empty_within(5)


def test_heats_on_nodes_take_turns(nodes, tmp_path):
    """Between turns the node has all of it stopped; at its end, one of them is abandoned."""
    pace = replace(PACE, measure_s=2.0, window_s=0.5, windows_min=4, takes_turns=True)
    players = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        order = replace(order_for(tmp_path / name), pace=pace)
        player = Player(runner_of(order), order.lane.device)
        player.begin(Started(nodes.start(order.lane.environment)))
        player.join()
        players.append(player)
    heats = [psutil.Process(each.runner.child.pid).children()[0] for each in players]
    assert {each.status() for each in heats} == {psutil.STATUS_STOPPED}
    play_turns(players, pace)
    players[1].abandon()
    heat = players[0].runner.heat(players[0].leave(), 0)
    assert ([window.turn for window in heat.windows], heat.process.status) == ([0, 1, 2, 3], "ok")
    assert not any(each.is_running() for each in heats)


@pytest.mark.long
def test_a_killed_agent_is_a_heat_that_did_not_finish(nodes, tmp_path, house):
    """Its guardian ends the heat."""
    runner = hang(nodes, tmp_path)
    nodes.started[0].agent.kill()
    runner.hear_on()
    heat = runner.heat(runner.finish(), 0)
    assert (heat.process.dnf.phase, heat.process.dnf.reason) == (
        "build",
        f"its node is gone: the connection to {HERE} ended",
    )
    assert nodes.started[0].cancelled
    assert house.is_empty_within(5)


def test_an_agent_ends_with_what_started_it(nodes, tmp_path, house):
    """A task or a job that is cancelled takes its agent with it."""
    runner = hang(nodes, tmp_path)
    nodes.started[0].agent.stdin.close()
    assert house.is_empty_within(5)
    runner.abandon()


@pytest.mark.long
def test_a_killed_parent_leaves_nothing(tmp_path, house):
    """Its connection ends, and with it the agent and the heat."""
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_run_nodes
from own_nodes import OwnNodes
from heat_orders import environment_for
folder = Path({str(tmp_path)!r})
nodes = OwnNodes(environment_for(folder))
test_run_nodes.hang(nodes, folder)
print(nodes.started[0].agent.pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert psutil.pid_exists(int(parent.stdout.readline()))
        assert len(house.processes()) == 3  # the agent, the guardian and the heat
        parent.kill()
    assert house.is_empty_within(5)


@pytest.mark.parametrize("secret", ["x" * 64, "é"])
def test_who_does_not_know_the_secret_learns_nothing(nodes, secret):
    """The one that is waited for may still come."""
    child, ticket = nodes.await_none()
    with pytest.raises(WireError, match="did not prove that it knows the secret"):
        connect_to_parent("127.0.0.1", nodes.meeting.port, secret, ticket, 5.0)
    with pytest.raises(WireError, match=r"no place with 1 core and 2 GPUs was free on ray within 0\.1 s"):
        child.hear(0.1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"laptime": "0.0.1", "node": "gpu07"}, "gpu07 has laptime 0.0.1, and here is "),
        ({"wire": 3, "node": "gpu07"}, "the laptime of gpu07 speaks version 3 of the wire"),
    ],
)
def test_another_laptime_is_refused_in_words(nodes, tmp_path, change, says):
    """Its lane has a reason, and the agent reads it, too."""
    child, ticket = nodes.await_none()
    hello = msgspec.structs.replace(hello_of(ticket), **change)
    link = NodeLink(connect_to("127.0.0.1", nodes.meeting.port, nodes.meeting.secret, 5.0), TO_NODE)
    with contextlib.closing(link):
        link.say(hello)
        dnf = runner_of(order_for(tmp_path)).follow(Started(child), wire.Run(order_for(tmp_path)))
        assert says in dnf.reason
        assert says in link.hear(5.0).says
    assert nodes.started[0].cancelled


def test_a_place_is_waited_for_and_that_is_reported(nodes):
    """Then its patience is over, in words; what was submitted is cancelled."""
    child, _ticket = nodes.await_none()
    with pytest.raises(WireError, match=r"within 2\.5 s"):
        child.hear(2.5)
    assert nodes.told == ["fake/cpu waits for a free place on ray, with 1 core and 2 GPUs"]
    child.abandon()
    assert nodes.started[0].cancelled


def test_a_file_that_a_node_does_not_have_is_named(nodes, tmp_path):
    order = order_for(tmp_path)
    order = replace(order, subject=replace(order.subject, file=str(tmp_path / "train.py"), function="training"))
    dnf = runner_of(order).follow(Started(nodes.start(order.lane.environment)), wire.Run(order))
    assert f"{tmp_path}/train.py is not on {HERE}: a race on a cluster needs it at the same path" in dnf.reason


@pytest.mark.long
def test_a_node_with_another_framework_is_refused_in_words(nodes, tmp_path):
    order = replace(order_for(tmp_path), versions={"fake": "2"})
    dnf = runner_of(order).follow(Started(nodes.start(order.lane.environment)), wire.Run(order))
    assert f"{HERE} has fake 1, and the lane was planned with 2 (install the same on all nodes" in dnf.reason


@pytest.mark.long
def test_silence_of_a_node_is_silence(nodes, tmp_path):
    runner = hang(nodes, tmp_path)
    with pytest.raises(Silence):
        runner.child.hear(0.2)
    runner.abandon()


@pytest.mark.long
@pytest.mark.parametrize("variable", ["PYTHONPATH", "LD_PRELOAD", "LAPTIME_HOME", "PATH"])
def test_an_agent_sets_only_what_lanes_need(nodes, house, variable):
    """No variable that names code to run, also not for its parent."""
    child = nodes.start_with({variable: "/tmp"})
    with pytest.raises(WireError, match=f"an agent does not set {variable}: it sets LAPTIME_DEVICE, LAPTIME_FAKE"):
        child.hear(20.0)
    child.abandon()
    assert house.is_empty_within(5)
