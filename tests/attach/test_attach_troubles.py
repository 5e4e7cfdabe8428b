"""What goes wrong while a command is watched: the command goes on, and what laptime did not see is said in words."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from watcher import Watcher

from laptime.attach import kinds
from laptime.attach.agent import OwnSocket
from laptime.attach.kinds import socket_name
from laptime.attach.listener import ListeningSocket
from laptime.engine.run.command import Listener
from laptime.questions.watch.run import Visitors

STAND_IN = str(Path(__file__).parent / "stand_in")
TRAIN = """
import sys, torch
from torch.utils.data import DataLoader
opt = torch.optim.SGD()
def train():
    for batch in DataLoader([[torch.Tensor(0.0, (4,))]] * 10):
        torch.Tensor(2.5).backward()
        opt.step()
"""
HELLO = {"began_ns": 1, "parent": 1, "python": "3.11.7", "executable": "python", "versions": {}}


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    return Watcher(tmp_path)


def small_disk() -> None:
    """Let no file grow beyond a kilobyte: no record fits."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


@pytest.mark.long
def test_a_full_disk_takes_neither_output_nor_exit_code(watcher: Watcher) -> None:
    """The summary is there too; both files that could not be written are named."""
    ended = watcher.house.run(
        "watch", "--json", "record.json", "--", sys.executable, "-c", "print('out'); raise SystemExit(5)",
        preexec_fn=small_disk,
    )  # fmt: skip
    assert (ended.code, ended.out) == (5, "out\n")
    words = " ".join(ended.err.split())
    assert "ended with exit code 5, and no training was seen before." in words
    assert "could not be saved" in words
    assert "record.json could not be written" in words


@pytest.mark.parametrize("name", ["missing", "x" * 120])
def test_a_folder_for_temporary_files_is_not_needed(watcher: Watcher, name: str) -> None:
    """It is not there, or its path is too long for a socket."""
    folder = watcher.house.folder / name
    if name != "missing":
        folder.mkdir()
    ended, answer = watcher.watch(sys.executable, "-c", "print('out')", env={"TMPDIR": str(folder)})
    assert (ended.code, ended.out, answer["others"]) == (0, "out\n", 1)


@pytest.mark.parametrize("name", ["missing", "x" * 120])
def test_a_socket_in_a_folder_finds_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """So it is where the system has no abstract sockets. It says when it was removed, and leaves nothing behind."""
    folder = tmp_path / name
    if name != "missing":
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    server = ListeningSocket(is_abstract=False)
    place = Path(server.address).parent
    assert place.stat().st_mode & 0o777 == 0o700
    agent = OwnSocket(server.address)
    peer = server.accept()
    assert peer is not None
    assert agent.send(b"hello") == len(b"hello")
    assert peer.recv(9) == b"hello"
    assert server.is_there()
    Path(server.address).unlink()
    assert not server.is_there()
    for each in (agent, peer, server):
        each.close()
    assert not place.exists()


def test_another_users_process_is_not_heard(tmp_path: Path) -> None:
    """An abstract socket has no permissions of its own."""
    server = ListeningSocket()
    source = (
        "import os, socket, sys\nos.setuid(65534)\npeer = socket.socket(socket.AF_UNIX)\n"
        f"peer.connect({socket_name(server.address)!r}); print(peer.recv(1))"
    )
    if os.geteuid():
        pytest.skip("only the superuser can become another user")
    stranger = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    select.select([server.socket], [], [], 30)
    assert server.accept() is None
    assert stranger.communicate(timeout=30) == ("b''\n", None)
    server.close()


def test_a_listener_without_a_socket_says_so() -> None:
    """No file can be opened any more: the command can run, and its agents have no address."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        listener = Listener(Visitors())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    listener.begin()
    listener.end()
    assert listener.address == ""
    assert listener.problem == "it could not make a socket (Too many open files)"


@pytest.mark.long
def test_a_python_with_a_path_of_its_own_is_not_called_untrained(watcher: Watcher) -> None:
    """A script sets another PYTHONPATH for what it starts: nothing of that is seen, and the summary has the reason."""
    source = (
        f"import os, sys\nos.environ['PYTHONPATH'] = {STAND_IN!r}\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {TRAIN + 'train(); print(1)'!r}])"
    )
    ended, answer = watcher.watch(sys.executable, "-c", source)
    assert (ended.code, ended.out, answer["processes"], answer["others"]) == (0, "1\n", [], 1)
    assert "a PYTHONPATH of its own does not" in answer["unseen"]["missing"]


def test_two_interrupts_reach_the_command_and_the_summary_still_comes(watcher: Watcher) -> None:
    source = (
        "import signal, sys, time\n"
        "def caught(*_):\n    signal.signal(signal.SIGINT, lambda *_: sys.exit(9))\n    print('caught', flush=True)\n"
        "signal.signal(signal.SIGINT, caught)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    process = watcher.house.start("watch", "--", sys.executable, "-c", source, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    for expected in ("ready\n", "caught\n"):
        assert process.stdout.readline() == expected
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 9
    assert "ended with exit code 9, and no training was seen before." in " ".join(err.split())


@pytest.mark.long
def test_a_hook_that_raises_in_the_middle_is_off_and_reported_once(watcher: Watcher) -> None:
    """The optimizer's hook cannot describe it. The script goes on, and its count is not called sure."""
    source = f"{TRAIN}\nopt.param_groups = None\nfor epoch in range(3): train()\nprint('trained')"
    ended, answer = watcher.watch(sys.executable, "-c", source, env={"PYTHONPATH": STAND_IN})
    assert (ended.code, ended.out) == (0, "trained\n")
    (process,) = answer["processes"]
    assert list(process["failed"]) == ["optimizer"]
    assert "hooks failed: optimizer: TypeError" in process["loop"]["unsure"]
    assert ended.err.count("laptime's hook 'optimizer' failed") == 1


@pytest.mark.long
def test_very_many_processes_are_counted(watcher: Watcher) -> None:
    """Two thousand processes greet, and three hundred that are no Python come and go."""
    source = (
        "import json, os, socket, struct, subprocess\n"
        f"hello = {HELLO!r}\n"
        "for pid in range(100_000, 102_000):\n"
        "    peer = socket.socket(socket.AF_UNIX)\n"
        f"    peer.connect(os.environ[{kinds.ADDRESS!r}].replace('@', '\\0', 1))\n"
        "    body = json.dumps({**hello, 'pid': pid}).encode()\n"
        f"    peer.sendall(struct.pack({kinds.MESSAGE_HEAD!r}, {kinds.FACTS!r}, len(body)) + body)\n"
        "    peer.close()\n"
        "subprocess.run(['sh', '-c', 'i=0; while [ $i -lt 300 ]; do (:); i=$((i+1)); done'])"
    )
    ended, answer = watcher.watch(sys.executable, "-c", source)
    assert (ended.code, answer["others"]) == (0, 2001)


@pytest.mark.long
def test_a_process_that_becomes_another_program_is_two(watcher: Watcher) -> None:
    """Both train, under the same number. The first one ended without a farewell, and its count is not called sure."""
    again = f"os.execv(sys.executable, [sys.executable, '-c', {TRAIN + 'train()'!r}])"
    source = f"{TRAIN}\nimport os, time\ntrain()\ntime.sleep(0.3)\ntrain()\n{again}"
    ended, answer = watcher.watch(sys.executable, "-c", source, env={"PYTHONPATH": STAND_IN})
    assert ended.code == 0
    first, second = answer["processes"]
    assert first["pid"] == second["pid"]
    assert (second["loop"]["iterations"], second["loop"]["unsure"]) == (10, None)
    assert first["loop"]["unsure"].startswith("the process ended without a word")


def test_a_loop_that_is_faster_than_laptime_reads_is_counted(watcher: Watcher) -> None:
    """An iteration takes some microseconds: laptime gets the events of a part of them, and the number of the others."""
    source = f"{TRAIN}\nfor i in range(150_000): torch.autograd.backward(None); opt.step()"
    ended, answer = watcher.watch(sys.executable, "-c", source, env={"PYTHONPATH": STAND_IN})
    assert ended.code == 0
    (process,) = answer["processes"]
    assert (process["loop"]["iterations"], process["lost"]) == (150_000, 0)
    assert process["loop"]["step_ms"]["median"] < 0.1
