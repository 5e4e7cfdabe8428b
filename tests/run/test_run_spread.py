"""A heat whose ranks are on several nodes is one heat: its first rank leads, and whatever ends on a node, all end."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import replace

import psutil
import pytest
from heat_orders import PACE, environment_for, order_for
from impostors import crowd_of, strangers_at
from own_nodes import OwnNodes

from laptime.engine.run.remote import SpreadChild
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.engine.run.turns import Player, play_turns
from laptime.model.process import Settings

HERE = socket.gethostname()
SPREAD = (3, 1)


@pytest.fixture
def nodes(tmp_path):
    made = OwnNodes(environment_for(tmp_path))
    yield made
    made.close()


def spread_order(folder, script=""):
    """Order a heat of four ranks, the last of which is on a second node."""
    order = order_for(folder, script)
    lane = order.lane
    settings = Settings(extra={"parallel": "ddp"})
    lane = replace(lane, name="fake/4xcpu", settings=settings, devices=(lane.device,) * 4, spread=SPREAD)
    return replace(order, lane=lane)


def runner_of(order):
    return HeatRunner(order, Limits(60.0, 5.0), 2, lambda _phase: None)


def run(nodes, order):
    runner = runner_of(order)
    return runner.run(Started(nodes.start_apart(order.lane.environment, order.lane)), 0)


def test_ranks_on_two_nodes_train_together(nodes, tmp_path, house):
    """Between turns all of them are stopped, on both nodes."""
    order = replace(spread_order(tmp_path), pace=replace(PACE, takes_turns=True))
    player = Player(runner_of(order), order.lane.device)
    player.begin(Started(nodes.start_apart(order.lane.environment, order.lane)))
    player.join()
    heats = [each for each in house.processes() if each.cmdline()[-4:-2] == ["-m", "laptime.engine.heat"]]
    states = [each.status() for each in heats if not any("guardian" in word for word in each.cmdline())]
    assert states == [psutil.STATUS_STOPPED] * 4
    play_turns([player], order.pace)
    heat = player.runner.heat(player.leave(), 0)
    assert (heat.process.status, heat.process.node) == ("ok", HERE)
    assert [each.rank for each in heat.ranks] == [0, 1, 2, 3]
    assert {len(window.ranks.rank_ns) for window in heat.windows} == {4}
    assert [proof.losses != () for proof in heat.proofs] == [True]
    assert house.is_empty_within(5)


class AttackedChild(SpreadChild):
    """Strangers come to the first rank before the others know where it is."""

    opened: contextlib.ExitStack

    def _send_others(self, place):
        host, _, port = place.links.rpartition(":")
        self.opened.enter_context(strangers_at(host, int(port)))
        self.opened.enter_context(crowd_of(200, int(port)))
        assert "secret" not in repr(place)
        super()._send_others(place)


@pytest.mark.long
def test_strangers_where_ranks_meet_end_no_heat(nodes, tmp_path, house):
    """Lines without an end, deep JSON, a secret of é, and a crowd that says nothing: the ranks come all the same."""
    order = spread_order(tmp_path)
    with contextlib.ExitStack() as opened:
        child = nodes.start_apart(order.lane.environment, order.lane, AttackedChild)
        child.opened = opened
        heat = runner_of(order).run(Started(child), 0)
    assert (heat.process.status, [each.rank for each in heat.ranks]) == ("ok", [0, 1, 2, 3])
    assert house.is_empty_within(5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raise", "rank 3: RuntimeError: planted failure"),
        ("kill", f"rank 3 on {HERE}: its process was ended by SIGKILL"),
    ],
)
def test_a_rank_on_another_node_that_fails_is_named(nodes, tmp_path, house, how, says):
    heat = run(nodes, spread_order(tmp_path, f'fail = {{ how = "{how}", phase = "proof", rank = 3 }}'))
    assert says in heat.process.dnf.reason
    assert house.is_empty_within(5)


@pytest.mark.long
def test_a_rank_that_never_comes_is_named(nodes, tmp_path, house):
    """Its node is gone before it could join."""
    order = spread_order(tmp_path, 'fail = { how = "hang", phase = "build", rank = 0 }')
    child = nodes.start_apart(order.lane.environment, order.lane)
    killer = threading.Timer(2.0, nodes.started[1].agent.kill)
    killer.start()
    heat = runner_of(order).run(Started(child), 0)
    assert "its node is gone" in heat.process.dnf.reason
    assert house.is_empty_within(5)
