"""Programs that do not know the secret of a race are on its ports and in its store: they learn and end nothing."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from impostors import DEEP, Impostor, crowd_of, crowd_that_waits, strangers_at

from laptime.engine.authentication import connect_to
from laptime.engine.heat.rank import Follower, link_on_node, number_in
from laptime.engine.run.launchers import Meeting, agent_words
from laptime.engine.run.node import NODE_CONNECT_S, SECRET, connect_to_parent, hello_of, read_hello
from laptime.engine.run.on_torchrun import MeetingPlace, place_in
from laptime.model.errors import LaneError, WireError

RACE_SECRET = "5" * 64
GREETING = b"laptime 1 " + b"0" * 64 + b"\n"
MARKED = "import pathlib; pathlib.Path(__file__).with_name('it-ran').touch()"


@pytest.fixture
def meeting():
    made = Meeting("127.0.0.1", RACE_SECRET)
    yield made
    made.close()


def arrive(meeting, within_s=10.0):
    """Come as an agent does, and return how the parent sees it."""
    awaited = meeting.expect()
    with contextlib.closing(connect_to_parent("127.0.0.1", meeting.port, RACE_SECRET, awaited.ticket, within_s)):
        arrived = awaited.arrivals.get(timeout=within_s)
        arrived.link.close()
    return arrived


def room_for_files(count):
    """Return the limit at which N more files can be opened: those that are open have any numbers."""
    used = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
    return next(limit for limit in itertools.count(1) if limit - len([each for each in used if each < limit]) == count)


def test_a_thousand_strangers_end_no_race(meeting):
    """They hold their connections, and an agent comes all the same, several times."""
    with crowd_of(1000, meeting.port):
        for _ in range(3):
            assert arrive(meeting).refused is None
    assert arrive(meeting).refused is None


@pytest.mark.parametrize("used", [0, 80], ids=["few files", "many files"])
def test_a_race_with_few_descriptors_outlives_a_crowd(meeting, used):
    """Strangers get a share of the files that are left: it can still open some, also while the crowd is there."""
    meeting.close()
    with contextlib.ExitStack() as held:
        assert len([held.enter_context(open(os.devnull)) for _ in range(used)]) == used  # noqa: PTH123
        outlive_a_crowd()


def outlive_a_crowd():
    "a".encode("idna")  # the first connection of a process opens the file of this codec
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (room_for_files(24), hard))
    try:
        meeting = Meeting("127.0.0.1", RACE_SECRET)
        with crowd_of(100, meeting.port):
            assert arrive(meeting).refused is None
            with contextlib.ExitStack() as opened:
                assert [opened.enter_context(open(os.devnull)) for _ in range(4)]  # noqa: PTH123
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        meeting.close()


def test_a_race_that_can_open_no_file_goes_on_when_it_can(meeting):
    """Its own files took all: the strangers leave, and the port is still open afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with crowd_that_waits(20, meeting.port) as connect, contextlib.ExitStack() as opened:
        try:
            highest = max(map(int, os.listdir("/dev/fd")))  # noqa: PTH208
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
            with contextlib.suppress(OSError):
                while True:
                    opened.enter_context(open(os.devnull))  # noqa: PTH123
            connect()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert arrive(meeting).refused is None


def test_no_line_of_a_stranger_ends_a_race(meeting):
    with strangers_at("127.0.0.1", meeting.port) as count:
        assert arrive(meeting).refused is None
    assert count == 8


def test_a_line_without_an_end_is_not_kept(meeting):
    """The port takes no more than a socket's buffers, however much is sent."""
    with socket.create_connection(("127.0.0.1", meeting.port), timeout=5) as connection:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                connection.sendall(b"x" * 1_000_000)
            pytest.fail("200 MB were taken")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def evil_folder(folder):
    """Make a folder whose Python files note that they ran."""
    made = folder / "evil"
    made.mkdir()
    (made / "sitecustomize.py").write_text(MARKED)
    return made


def replies(folder):
    """Return how a program may answer an agent that has come to it: what it says first, and what then."""
    begin = json.dumps({"type": "BeginChild", "environment": {"PYTHONPATH": str(folder)}}).encode() + b"\n"
    start = json.dumps({"type": "StartAgent", "words": [str(folder / "sitecustomize.py")]}).encode() + b"\n"
    return {
        "it gives orders": (begin, lambda _heard: start),
        "it gives orders after the greeting": (GREETING, lambda _heard: begin),
        "it sends back what it hears": (GREETING, lambda heard: heard),
        "it answers and gives orders": (GREETING, lambda _heard: b"0" * 64 + b"\n" + b"0" * 64 + begin),
        "it sends deep JSON": (DEEP + b"\n", lambda _heard: b""),
        "it sends no line's end": (b"x" * 1_000_000, lambda _heard: b""),
        "it is another program": (b"SSH-2.0-OpenSSH_9.6\r\n", lambda _heard: b""),
    }


def test_an_agent_obeys_nobody_but_its_parent(tmp_path, tally):
    """The parent died and another program has its port: each agent ends in words, and has done and sent nothing."""
    tally.what = "impostors on the port of a parent"
    folder = evil_folder(tmp_path)
    with contextlib.ExitStack() as opened:
        agents = {}
        for name, (first, reply) in replies(folder).items():
            impostor = opened.enter_context(Impostor(first, reply))
            words = [sys.executable, "-P", *agent_words("127.0.0.1", impostor.port, "1")]
            own = {**os.environ, SECRET: RACE_SECRET, "LAPTIME_HOME": str(tmp_path)}
            pipe = subprocess.PIPE
            agent = subprocess.Popen(words, stdin=pipe, stderr=pipe, text=True, env=own)
            agents[name] = impostor, opened.enter_context(agent)
        for name, (impostor, agent) in agents.items():
            said = agent.stderr.read()  # its standard input stays open: it ends on its own
            fault = f"{name}: {agent.wait(NODE_CONNECT_S)} {said}"
            is_sound = agent.returncode == 3 and said.count("\n") == 1 and "cannot reach the parent at" in said
            tally.note(None if is_sound and RACE_SECRET.encode() not in impostor.heard else fault)
    assert not (folder / "it-ran").exists()
    tally.check(7)


def test_an_agent_without_a_secret_connects_to_nobody(tmp_path):
    """An empty secret would be known to all."""
    words = [sys.executable, "-P", *agent_words("127.0.0.1", 9, "1")]
    own = {name: value for name, value in os.environ.items() if name != SECRET}
    agent = subprocess.run(words, capture_output=True, text=True, env=own, check=False)
    assert (agent.returncode, agent.stderr) == (
        3,
        f"{SECRET} is not set: laptime starts this program on a node, and sets it\n",
    )


def test_deep_json_of_a_known_end_is_an_error_in_words(meeting):
    """An agent that is damaged may send it, and ranks of a node may."""
    awaited = meeting.expect()
    with contextlib.closing(connect_to("127.0.0.1", meeting.port, RACE_SECRET, 10.0)) as agent:
        agent.send(msgspec.json.encode(hello_of(awaited.ticket)))
        arrived = awaited.arrivals.get(timeout=10)
        agent.send(DEEP)
        with pytest.raises(WireError, match="unreadable message from the other end of a node's connection"):
            arrived.link.hear(5.0)
        arrived.link.close()
    with pytest.raises(WireError, match="unreadable message from the agent on a node"):
        read_hello(DEEP)
    assert number_in(DEEP) is None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        threading.Thread(target=theirs.sendall, args=(DEEP + b"\n",)).start()
        with pytest.raises(WireError, match="unreadable message from the rank at the other end"):
            link_on_node(ours).hear_answer()


def test_a_rank_that_cannot_be_read_has_failed_in_words():
    """The first rank does not wait for its answer any more."""
    failed = threading.Event()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        follower = Follower(1, None, link_on_node(ours), lambda _reason: failed.set())
        threading.Thread(target=theirs.sendall, args=(DEEP + b"\n",)).start()
        with pytest.raises(LaneError, match="rank 1: unreadable message from the rank at the other end"):
            follower.answer()
        assert failed.wait(5)


STORED = {
    "an order as an earlier laptime stored it": '{"host":"127.0.0.1","secret":"x","tickets":["-c","print(1)"]}',
    "no port": '{"host":"127.0.0.1","port":0}',
    "a port as text": '{"host":"127.0.0.1","port":"80"}',
    "a host that is no name": '{"host":"-c \\u001b[31m","port":80}',
    "deep JSON": DEEP.decode(),
    "nothing": "\n",
    "text": "print(1)",
}


@pytest.mark.parametrize("what", STORED)
def test_what_a_store_has_is_read_with_care(what):
    with pytest.raises(LaneError, match="--on torchrun: unreadable message from the store of torchrun"):
        place_in(STORED[what])


def test_a_place_is_all_that_a_store_has():
    assert place_in('{"host":"fe80::1","port":29501,"words":["-c","print(1)"]}') == MeetingPlace("fe80::1", 29501)
