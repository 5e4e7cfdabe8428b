"""The slow link of the benches: packets arrive as late as was asked, and nothing is left of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import slow_link
from slow_link import LinkError, linked

DELAY_MS = 10.0
SERVE = """
import os, socket
server = socket.create_server((os.environ["LINK_ADDRESS"], 5000))
print("ready", flush=True)
connection, _ = server.accept()
while said := connection.recv(1):
    connection.sendall(said)
"""
ASK = """
import json, os, socket, time
times_ms = []
with socket.create_connection((os.environ["LINK_OTHER"], 5000)) as connection:
    for _ in range(10):
        began = time.perf_counter()
        connection.sendall(b"x")
        connection.recv(1)
        times_ms.append((time.perf_counter() - began) * 1e3)
print(json.dumps(times_ms))
"""


@pytest.fixture(scope="module")
def possible():
    """Leave out what needs a link where this machine can make none."""
    try:
        with linked():
            pass
    except LinkError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("possible")
def test_a_round_trip_takes_twice_the_delay():
    with linked(DELAY_MS) as (left, right):
        server = left.wrap([sys.executable, "-S", "-c", SERVE])
        with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as serving:
            assert serving.stdout is not None
            assert serving.stdout.readline() == "ready\n"
            asked = subprocess.run(right.wrap([sys.executable, "-S", "-c", ASK]), stdout=subprocess.PIPE, check=True)
    # Each of them is late by what the machine's load adds; the fastest is late by little.
    assert 2 * DELAY_MS <= min(json.loads(asked.stdout)) < 3 * DELAY_MS


@pytest.mark.usefixtures("possible")
def test_what_runs_on_it_ends_with_it():
    with linked() as sides:
        left = [subprocess.Popen(side.wrap(["sleep", "1000"])) for side in sides]
    assert [each.wait(10) for each in left] == [-9, -9]
    assert [side.pid for side in sides if Path("/proc", str(side.pid)).exists()] == []


def test_a_machine_that_cannot_is_refused_in_a_sentence():
    command = [sys.executable, slow_link.__file__, "--", "true"]
    ended = subprocess.run(command, env={"PATH": "/nowhere"}, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "A slow link needs the command unshare. Install util-linux.\n")
