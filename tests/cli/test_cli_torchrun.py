"""Lanes on the nodes of a real torchrun: two on this machine, each with its own command."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from impostors import Impostor

from house import on_all_cores
from laptime.api import showing
from laptime.engine.run.on_torchrun import STORE
from laptime.store.schema import decode

HERE = socket.gethostname()
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
STARTED = {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0"}
STARTED |= {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}


CORES = os.cpu_count() or 1


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.long
@pytest.mark.framework
@pytest.mark.skipif(CORES < 2, reason="two processes need two cores")
def test_a_lane_on_two_nodes_of_torchrun(house):
    """The command of the first node shows the answer; the other says nothing, and both end."""
    where = ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "--node-rank"]
    words = ["-m", "laptime", "race", "cifar-cnn", "fake/cpu", "fake/4xcpu", "--heats", "1", "--on", "torchrun", "-q"]
    nodes = [
        subprocess.Popen(
            [*TORCHRUN, *where, str(number), *words],
            env=house.environment(PYTHONWARNINGS="ignore"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=house.folder,
            preexec_fn=on_all_cores,  # noqa: PLW1509  no thread runs yet
        )
        for number in range(2)
    ]
    (page, said), (other, _) = [each.communicate(timeout=120) for each in nodes]
    assert [each.returncode for each in nodes] == [0, 0], said
    assert "fake/cpu is 1.20x as fast as fake/4xcpu" in page
    assert other == ""
    (place,) = house.files()
    record = decode(place.read_bytes(), place.name)
    assert [lane.parity.status for lane in record.lanes] == ["same", "same"]
    assert [(each.name, each.ranks) for each in record.machine.nodes] == [(HERE, 2), (HERE, 2)]
    (result,) = record.lanes[1].heats
    assert [each.rank for each in result.heat.ranks] == [0, 1, 2, 3]
    assert "its devices are on 2 nodes: 2 + 2" in showing.as_text(record, showing.View(500, details=True))
    assert house.is_empty_within(10)


@pytest.mark.parametrize(
    ("words", "env", "says"),
    [
        (["fake/cpu"], STARTED, "torchrun has started this command, so each of its processes would race on its own"),
        (["fake/cpu", "--on", "torchrun"], {}, "torchrun did not start this command"),
        (["fake/cpu", "--on", "torchrun"], STARTED, "give all nodes the same --nproc-per-node"),
        (["fake/cpu", "--on", "torchrun", "--each", "machine"], {}, "only Ray says which types of nodes there are"),
    ],
)
def test_what_torchrun_cannot_do_is_said(house, words, env, says):
    pytest.importorskip("torch")
    answer = house.run("race", "cifar-cnn", *words, env=env)
    assert answer.code == 2
    assert says in " ".join(answer.err.split())


FURTHER = STARTED | {"RANK": "1", "GROUP_RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}


def stand_by(house, port, *words):
    """Run the command of a further node, whose torchrun has its store on this port."""
    env = FURTHER | {"MASTER_PORT": str(port)}
    return house.finish(house.start("race", "cifar-cnn", "fake/cpu", "--on", "torchrun", *words, env=env))


@pytest.mark.long
def test_a_store_that_says_nothing_is_waited_for_no_longer_than_patience(house):
    """Another program has its port. The command ends in words."""
    pytest.importorskip("torch")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        answer = stand_by(house, silent.getsockname()[1], "--patience", "2s")
    assert (answer.code, answer.out) == (3, "")
    assert "laptime: --on torchrun: its store " in answer.err
    assert house.is_empty_within(10)


@pytest.mark.long
@pytest.mark.framework
def test_a_store_that_lies_starts_nothing(house, tmp_path):
    """Another program wrote where the first node is, with an order: what answers there has to prove the secret."""
    pytest.importorskip("torch")
    code = "import pathlib; pathlib.Path('it-ran').touch()"
    order = json.dumps({"type": "StartAgent", "ticket": "1", "words": ["-c", code]}).encode() + b"\n"
    port = free_port()
    with (
        Impostor(order, lambda _heard: order) as impostor,
        subprocess.Popen(
            [sys.executable, "-P", "-m", STORE, "tell", "60", "1024"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=house.environment() | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)},
        ) as liar,
    ):
        place = {"host": "127.0.0.1", "port": impostor.port, "secret": "s", "tickets": ["1"], "words": ["-c", code]}
        liar.stdin.write(json.dumps(place) + "\n")
        liar.stdin.flush()
        answer = stand_by(house, port)
        liar.stdin.close()
    assert (answer.code, answer.out) == (3, "")
    assert f"--on torchrun: 127.0.0.1:{impostor.port} does not speak as this laptime does" in answer.err
    assert "set LAPTIME_CLUSTER_SECRET to the same secret on all nodes" in answer.err
    assert not list(Path(house.folder).rglob("it-ran"))
    assert house.is_empty_within(10)


def test_the_others_of_a_node_leave_at_once(house):
    """One process of a further node serves; the rest have nothing to do."""
    env = STARTED | {"RANK": "3", "LOCAL_RANK": "1", "GROUP_RANK": "1", "WORLD_SIZE": "4"}
    answer = house.done("race", "cifar-cnn", "fake/cpu", "--on", "torchrun", env=env)
    assert (answer.out, answer.err) == ("", "")
    assert not Path(os.fspath(house.folder), "records").exists()
