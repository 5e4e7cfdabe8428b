"""Commands of every kind run as if laptime were not there: input, output, terminal, signals and exit codes."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from watcher import Watcher

from laptime.attach import kinds
from long_cases import cases

HELLO = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(5)"
WAITS = """import signal, sys, time
signal.signal(signal.SIG{0}, lambda *_: sys.exit(9))
print('ready', flush=True)
time.sleep(60)"""


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    return Watcher(tmp_path)


def test_output_and_exit_code_are_the_commands_own(watcher: Watcher) -> None:
    ended, answer = watcher.watch(sys.executable, "-c", HELLO)
    assert (ended.code, ended.out, answer["exit_code"]) == (5, "out\n", 5)
    assert ended.err.startswith("err\n")
    assert "no training with PyTorch or Keras was seen in it" in answer["unseen"]["missing"]
    assert "laptime.steps(batches)" in answer["unseen"]["missing"]
    assert "ended with exit code 5, and no training was seen before." in " ".join(ended.err.split())
    assert answer["others"] == 1


@pytest.mark.long
def test_input_is_the_commands_own(watcher: Watcher) -> None:
    process = watcher.house.start("watch", "--", "cat", stdin=subprocess.PIPE)
    out, err = process.communicate("one\ntwo\n")
    assert (process.returncode, out) == (0, "one\ntwo\n")
    assert "no Python process of it reported" in " ".join(err.split())


@pytest.mark.parametrize("name", cases("INT", long=["TERM", "HUP", "USR1"]))
def test_signals_are_passed_on(watcher: Watcher, name: str) -> None:
    process = watcher.house.start("watch", "--", sys.executable, "-c", WAITS.format(name), stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(getattr(signal, f"SIG{name}"))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 9
    assert "ended with exit code 9, and no training was seen before." in " ".join(err.split())


def test_a_signal_after_the_commands_end_leaves_the_summary(watcher: Watcher) -> None:
    """As `timeout` sends it a second time: what the command's processes sent last is still waited for then."""
    words = ("sh", "-c", "parent=$PPID; (sleep 0.1; kill -TERM $parent) & exit 143")
    ended = watcher.house.finish(watcher.house.start("watch", "--", *words, stdin=subprocess.DEVNULL))
    assert ended.code == 143
    assert "no Python process of it reported" in " ".join(ended.err.split())
    assert watcher.house.kept()["status"] == "interrupted"


@pytest.mark.long
def test_a_command_that_a_signal_ends_has_the_shells_exit_code(watcher: Watcher) -> None:
    ended, answer = watcher.watch(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert (ended.code, answer["exit_code"]) == (137, 137)


@pytest.mark.long
def test_the_terminal_is_the_commands_own(watcher: Watcher) -> None:
    """A command sees a terminal where there is one, and one Ctrl-C reaches it once; the summary still comes."""
    leader, follower = pty.openpty()
    source = (
        "import signal, sys, time\ncaught = []\nsignal.signal(signal.SIGINT, lambda *_: caught.append(1))\n"
        "print('ready', sys.stdin.isatty(), flush=True)\ntime.sleep(1.5)\nprint('caught', len(caught), flush=True)"
    )
    process = watcher.house.start(
        "watch", "--", sys.executable, "-c", source, stdin=follower, stdout=follower, stderr=follower,
        preexec_fn=lambda: _own_terminal(follower),
    )  # fmt: skip
    os.close(follower)
    seen = _read_until(leader, b"ready True")
    os.write(leader, b"\x03")
    seen += _read_until(leader, b"details: laptime show")
    assert b"caught 1" in seen
    assert process.wait(60) == 0
    os.close(leader)


def _own_terminal(follower: int) -> None:
    os.setsid()
    import fcntl
    import termios

    fcntl.ioctl(follower, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _read_until(leader: int, words: bytes) -> bytes:
    seen = b""
    while words not in seen:
        seen += os.read(leader, 1 << 16)
    return seen


@pytest.mark.parametrize("option", cases("-IB", long=["-I", "-E", "-S"]))
def test_a_python_that_cannot_be_reached_is_named(watcher: Watcher, option: str) -> None:
    ended, answer = watcher.watch(sys.executable, option, "-c", "print('ran')")
    assert (ended.code, ended.out) == (0, "ran\n")
    assert answer["unseen"]["missing"].startswith(f"Python was started with -{option[1]}")


@pytest.mark.long
def test_a_hidden_sitecustomize_still_runs(watcher: Watcher) -> None:
    """Another tool's sitecustomize is run too, and sys.path has no folder of laptime."""
    folder = watcher.house.folder / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys; sys.its_mark = __name__")
    source = (
        "import sys; print(sys.its_mark, sys.modules['sitecustomize'].__file__, any('attach' in p for p in sys.path))"
    )
    ended, answer = watcher.watch(sys.executable, "-c", source, env={"PYTHONPATH": str(folder)})
    assert ended.out == f"sitecustomize {folder / 'sitecustomize.py'} False\n"
    assert answer["others"] == 1


def test_what_is_no_command_is_refused(watcher: Watcher) -> None:
    script = watcher.house.run("watch", "train.py", "--epochs", "3")
    assert script.code == 2
    assert "laptime watch python train.py --epochs 3" in script.err
    missing = watcher.house.run("watch", "--", "/no/such/program")
    assert missing.code == 2
    assert "'/no/such/program' cannot be run: No such file or directory" in missing.err
    assert watcher.house.run("watch").code == 2
    unknown = watcher.house.run("watch", "--sensors", "hots", "--", "true")
    assert unknown.code == 2
    assert "--sensors hots: expected none, or some of host" in unknown.err


@pytest.mark.long
def test_the_script_outlives_laptime(watcher: Watcher) -> None:
    """If laptime is killed, the script goes on to its end, although nobody takes what its agent sends."""
    place = watcher.house.folder / "done"
    source = (
        "import sys, time; print('ready', flush=True); time.sleep(1)\n"
        "agent = sys.modules['_laptime_attach.finder'].sys.meta_path[0]._agent\n"
        "for i in range(5): agent.note(1, 1, time.monotonic_ns() + i * 10**9)\n"
        f"open({str(place)!r}, 'w').write(str(agent.is_off))"
    )
    with watcher.house.start("watch", "--", sys.executable, "-c", source, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    for _ in range(200):
        if place.exists() and place.read_text():
            break
        time.sleep(0.05)
    assert place.read_text() == "True"


@pytest.mark.long
def test_a_hook_that_fails_is_reported_and_the_script_goes_on(watcher: Watcher) -> None:
    """A module that is not as the hook expects it: its hook is off, and the summary has the reason."""
    folder = watcher.house.folder / "fakes" / "safetensors"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "torch.py").write_text("print('imported')")  # it has no save_file
    ended, answer = watcher.watch(
        sys.executable, "-c", "import safetensors.torch", env={"PYTHONPATH": str(folder.parent)}
    )
    assert (ended.code, ended.out) == (0, "imported\n")
    assert "safetensors.torch: AttributeError" in answer["unseen"]["missing"]


def test_strangers_on_the_socket_disturb_nothing(watcher: Watcher) -> None:
    """What is no message of an agent is dropped, and the next process is heard."""
    source = (
        "import os, socket, subprocess, sys\n"
        "import struct\ndeep, hello = b'[' * 100_000, b'{%s: 1, %s: Infinity}' % (b'\"pid\"', b'\"began_ns\"')\n"
        f"facts = [struct.pack({kinds.MESSAGE_HEAD!r}, b'J', len(each)) + each for each in (deep, hello)]\n"
        "for junk in (b'x' * 100, b'J\\xff\\xff\\xff\\xff', b'E\\x03\\0\\0\\0abc', b'J\\x02\\0\\0\\0{}', *facts):\n"
        "    peer = socket.socket(socket.AF_UNIX)\n"
        f"    peer.connect(os.environ['{kinds.ADDRESS}'].replace('@', '\\0', 1)); peer.sendall(junk); peer.close()\n"
        "subprocess.run([sys.executable, '-c', ''])"
    )
    ended, answer = watcher.watch(sys.executable, "-c", source)
    assert ended.code == 0
    assert answer["others"] == 2


@pytest.mark.long
def test_nothing_is_left_behind(watcher: Watcher) -> None:
    """A daemon of the command runs on; of laptime, no process and no file is left."""
    folder = watcher.house.folder / "tmp"
    folder.mkdir()
    source = (
        "import subprocess, sys\n"
        "quiet = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'], **quiet).pid)"
    )
    ended, answer = watcher.watch(sys.executable, "-c", source, env={"TMPDIR": str(folder)})
    daemon = psutil.Process(int(ended.out))
    assert daemon.is_running()
    assert list(folder.iterdir()) == []
    assert answer["left_running"] == 1
    daemon.kill()


@pytest.mark.long
def test_helpers_that_end_with_the_command_are_not_left_running(watcher: Watcher) -> None:
    """The tracker of multiprocessing ends after the process that it served, and nobody may collect it."""
    source = (
        "from multiprocessing import shared_memory\n"
        "kept = shared_memory.SharedMemory(create=True, size=9); kept.close(); kept.unlink()"
    )
    ended, answer = watcher.watch(sys.executable, "-c", source)
    assert (ended.code, answer["others"], answer["left_running"]) == (0, 2, 0)
    assert "still ran" not in ended.err


def test_a_record_keeps_no_secret_and_is_private(watcher: Watcher) -> None:
    """The command gets its words as they are."""
    source = "import sys; print(sys.argv[1:])"
    ended, answer = watcher.watch(sys.executable, "-c", source, "--api-key", "abc123")
    assert ended.out == "['--api-key', 'abc123']\n"
    assert answer["command"][-2:] == ["--api-key", "***"]
    (place,) = watcher.house.files()
    assert place.stat().st_mode & 0o777 == 0o600
    written = [each.read_bytes() for each in watcher.house.home.rglob("*") if each.is_file()]
    assert not any(b"abc123" in each for each in written)
    assert "abc123" not in ended.err + watcher.house.done("show", "latest", "--details").out


def test_json_quiet_label_and_show(watcher: Watcher) -> None:
    ended, _ = watcher.watch(sys.executable, "-c", "pass", options=("--quiet", "--label", "mine"))
    assert ended.err == ""
    page = watcher.house.done("show", "@mine").out
    assert "ran for 0 s. Its iterations were not seen" in " ".join(page.split())
    assert "no training seen" in watcher.house.done("list").out
    html = watcher.house.done("report", "@mine", "-o", "-").out
    assert "not seen" in html
