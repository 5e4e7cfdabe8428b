"""A child on its leash: heard over a pipe, waited for, and ended with all it started."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from heat_orders import environment_for, order_for

from laptime.engine import wire
from laptime.engine.run.child import Child, Silence, _without_marks
from laptime.model.errors import LaneError, UsageError, WireError

HANGS = 'fail = { how = "hang", phase = "build" }'


def start(folder, script=""):
    """Start a child and give it its order."""
    order = order_for(folder, script)
    child = Child(order.lane.environment)
    child.say(wire.Run(order))
    return child


def hear_until(child, name):
    while not isinstance(message := child.hear(30), wire.Ready):
        if isinstance(message, wire.Phase) and message.name == name:
            return
    raise AssertionError(f"the child never said {name}")


def test_a_child_is_the_head_of_its_own_session(tmp_path):
    """A Ctrl-C at the terminal does not reach it, and its whole group can be ended without its guardian."""
    child = Child(environment_for(tmp_path))
    hello = child.hear(30)
    guardian, heat = ((os.getsid(pid), os.getpgid(pid)) for pid in (child.pid, hello.pid))
    child.end(grace_s=0)
    assert guardian == (child.pid, child.pid)
    assert heat == (hello.pid, hello.pid)


def test_silence_is_noticed_when_the_time_is_up(tmp_path):
    """Not before, and not much later."""
    child = start(tmp_path, HANGS)
    hear_until(child, "build")
    began_s = time.monotonic()
    with pytest.raises(Silence):
        child.hear(0.3)
    waited_s = time.monotonic() - began_s
    child.end(grace_s=0)
    assert 0.3 <= waited_s < 2.0


def test_the_end_of_the_pipe_is_heard_as_nothing(tmp_path):
    """A child that is gone says no more."""
    child = start(tmp_path)
    os.kill(child.pid, signal.SIGKILL)
    heard = [child.hear(30) for _ in range(2)]
    assert heard[-1] is None or child.hear(30) is None
    assert child.end().signal == "SIGKILL"


def test_a_child_that_will_not_end_is_ended(tmp_path, house):
    """Its signal is reported, and so is how much memory it held."""
    child = start(tmp_path, HANGS)
    hear_until(child, "build")
    ended = child.end(grace_s=0)
    assert (ended.exit_code, ended.signal) == (None, "SIGKILL")
    assert ended.peak_memory_bytes > 1_000_000
    assert house.is_empty_within(10)


def test_a_child_that_ends_by_itself_within_the_grace_has_its_own_code(tmp_path):
    """It is waited for, not killed, while it closes down."""
    child = start(tmp_path, 'fail = { how = "exit", phase = "build" }')
    ended = child.end(grace_s=30)
    assert (ended.exit_code, ended.signal, ended.stderr_tail) == (7, None, "planted exit")


def test_a_word_to_a_child_that_is_gone_is_no_error(tmp_path):
    """That it is gone is noticed when it is next heard."""
    child = start(tmp_path, 'fail = { how = "exit", phase = "build" }')
    while child.hear(30) is not None:
        pass
    child.say(wire.Enough())
    assert child.end().exit_code == 7


def test_no_file_stays_open(tmp_path):
    """A race of a thousand heats must not run out of descriptors."""
    before = psutil.Process().num_fds()
    for _ in range(3):
        start(tmp_path).end(grace_s=0)
    assert before == psutil.Process().num_fds()


@pytest.fixture
def wired(tmp_path):
    """Return a child that hangs, and a way to write on its end of the wire, as damaged code could do."""
    child = start(tmp_path, HANGS)
    hear_until(child, "build")
    (heat,) = psutil.Process(child.pid).children()
    (end,) = (int(word) for word in heat.cmdline()[-1:])
    wire_fd = os.open(f"/proc/{heat.pid}/fd/{end}", os.O_WRONLY)
    over = threading.Event()

    def write(data, pause_s):
        with contextlib.suppress(OSError):
            while not over.is_set():
                left = data
                while left:
                    left = left[os.write(wire_fd, left) :]
                if pause_s is None:
                    return
                time.sleep(pause_s)

    yield child, write
    over.set()
    child.end(grace_s=0)
    os.close(wire_fd)


def test_bytes_without_a_line_end_make_no_time_longer(wired):
    """Something is there to read all the time, and nothing is said."""
    child, write = wired
    threading.Thread(target=write, args=(b"x" * 100, 0.02), daemon=True).start()
    began_s = time.monotonic()
    with pytest.raises(Silence):
        child.hear(0.3)
    assert 0.3 <= time.monotonic() - began_s < 20.0


def test_a_line_has_a_bound(wired, monkeypatch):
    """A message without end would fill the memory."""
    monkeypatch.setattr("laptime.engine.run.child.CHILD_LINE_MOST_BYTES", 1 << 20)
    child, write = wired
    threading.Thread(target=write, args=(b"x" * 65536, 0.0), daemon=True).start()
    with pytest.raises(WireError, match="a message of more than"):
        child.hear(20)


def test_a_long_line_arrives_whole(wired):
    """The predictions of a test are one message of megabytes."""
    child, write = wired
    message = wire.Failed("test", "x" * 5_000_000, "error", 1)
    threading.Thread(target=write, args=(wire.write(message), None), daemon=True).start()
    assert child.hear(20) == message


def test_no_number_of_a_standard_stream_becomes_a_pipe(tmp_path):
    """In a process whose 0 to 2 are closed, a child's pipes would get these numbers, and its words go astray."""
    said = tmp_path / "said"
    order = order_for(tmp_path)
    program = f"""
import os
for number in range(3): os.close(number)
from laptime.engine.run.child import Child
child = Child({order.lane.environment!r})
hello = child.hear(30)
names = [os.readlink(f"/proc/self/fd/{{number}}") for number in range(3)]
ended = child.end(grace_s=0)
open({str(said)!r}, "w").write(f"{{type(hello).__name__}} {{set(names)}} {{ended.signal}}")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert said.read_text() == "Hello {'/dev/null'} SIGKILL"


def test_a_child_within_a_heat_is_refused(monkeypatch):
    """Each would import the same file, and start the next."""
    monkeypatch.setenv("LAPTIME_HEAT", "1")
    with pytest.raises(UsageError, match="within a heat") as refused:
        Child({})
    assert 'if __name__ == "__main__":' in refused.value.hint


def test_where_no_pipe_can_be_opened_it_is_said(monkeypatch):
    """16 descriptors are few."""
    before = psutil.Process().num_fds()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(6):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + spare, limits[1]))
        try:
            with pytest.raises(LaneError, match=r"no child process could be started: .*Too many open files"):
                Child({})
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert psutil.Process().num_fds() == before


def test_a_stop_by_a_signal_is_told_once(tmp_path):
    """The heat is below its guardian, so the system signals the guardian alone."""
    child = start(tmp_path, HANGS)
    hear_until(child, "build")
    (heat,) = psutil.Process(child.pid).children()
    assert not child.was_stopped()
    heat.suspend()
    time.sleep(0.05)
    heat.resume()
    with pytest.raises(Silence):
        child.hear(0.3)
    assert [child.was_stopped(), child.was_stopped()] == [True, False]
    assert child.end(grace_s=0).stderr_tail == ""


def test_rows_that_only_mark_a_place_are_left_out():
    """Python marks it below each frame of a traceback; a page shows only the last few rows."""
    printed = "  File 'a.py', line 1\n    x = 1 / 0\n        ~~^~~\n\nZeroDivisionError: ^\n^^^^\n"
    assert _without_marks(printed) == "File 'a.py', line 1\n    x = 1 / 0\n\nZeroDivisionError: ^"
