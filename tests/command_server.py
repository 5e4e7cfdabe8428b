"""Runs `laptime` commands in processes of their own, without the quarter second that each would take to import it.

A server imports all commands once. For each command it forks: the child has its own environment, working folder,
output and exit, as one that a shell starts. Tests of starting itself (`House.start`) start Python as users do. A server
has prepared one kind of heats: where all lanes are of that kind, they are forked in the same way (`forked_heats.py`).
Real heats may be brief: how exactly they are timed is the affair of a few tests.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import forked_heats
import laptime
from laptime.machine import core_score
from laptime.model.questions import QUESTIONS
from laptime.planner import groups
from laptime.questions.job import QuestionRun
from laptime.show.pages.page import QuestionPage

BRIEF_TRIES = 1  # of how fast a core is, which no fake lane depends on: else a fifth of a short race
BRIEF_TURN_S, BRIEF_HEAT_S, BRIEF_PART_S = 0.06, 0.3, 0.1  # a heat measures for a quarter of the least that users get
READ_BYTES = 1 << 16
HEAD_BYTES = 1 << 20  # a request: its words and its environment


class CommandServer:
    """The test process's end: it has a command run, and gives what was printed and the exit code."""

    def __init__(self, kind: str = "fake", environment: dict[str, str] | None = None) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-W", "error", __file__, str(theirs.fileno()), kind]
        self._process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
        )
        theirs.close()

    def run(self, request: dict[str, Any], longest_s: float) -> tuple[int, str, str]:
        """Run a command to its end; raise TimeoutExpired where it has none, and end it. If it `forks`, its heats do."""
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        socket.send_fds(self._socket, [json.dumps(request).encode()], [out_end, err_end])
        os.close(out_end)
        os.close(err_end)
        pid = int(self._socket.recv(READ_BYTES))
        try:
            said, complained = _read_to_the_end([out, err], longest_s)
        except TimeoutError as error:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["laptime", *request["words"]], longest_s) from error
        finally:
            os.close(out)
            os.close(err)
            code = int(self._socket.recv(READ_BYTES))
        return code, said, complained

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _read_to_the_end(ends: list[int], longest_s: float) -> list[str]:
    deadline, read = time.monotonic() + longest_s, {end: bytearray() for end in ends}
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, READ_BYTES)
                read[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return [data.decode().replace("\r\n", "\n") for data in read.values()]


def _become_the_command(request: dict[str, Any], outputs: list[int], kind: str) -> None:
    """Leave this process as Python leaves a new one that was told to run `-m laptime`."""
    for number, output in zip((1, 2), outputs, strict=True):
        os.dup2(output, number)
        os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    sys.argv[:] = ["laptime", *request["words"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["is_wide"]:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    if request["is_brief"]:
        groups.TURN_S, groups.MEASURE_LEAST_S, groups.PART_LEAST_S = BRIEF_TURN_S, BRIEF_HEAT_S, BRIEF_PART_S
    if request["forks"]:
        forked_heats.fork_heats(kind)
    if request["forks"] and kind == "fake":
        core_score.SCORE_TRIES = BRIEF_TRIES


def serve(connection: socket.socket, kind: str) -> None:
    """Fork for each request, until nobody asks any more; return only in a child, which then runs its command."""
    while True:
        head, outputs, _, _ = socket.recv_fds(connection, HEAD_BYTES, 2)
        if not head:
            sys.exit()
        pid = os.fork()
        if not pid:
            connection.close()
            return _become_the_command(json.loads(head), outputs, kind)
        for output in outputs:
            os.close(output)
        connection.send(str(pid).encode())
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


if __name__ == "__main__":
    main = importlib.import_module("laptime.cli.main")
    for each in main.COMMANDS:
        main.find_command(each)
    # What a command and its heats would import for themselves: a fifth of a short race.
    for question in QUESTIONS:
        for kind in (QuestionRun, QuestionPage):
            question.part(kind)
    for each in ("ctypes.util", "email.parser", "numpy.random", "pynvml"):
        importlib.import_module(each)
    forked_heats.prepare(sys.argv[2])
    if sys.argv[2] != "fake":
        laptime.keep_memory()  # the heats' steps would be page faults for a quarter of their time
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
    runpy.run_module("laptime", run_name="__main__", alter_sys=True)
