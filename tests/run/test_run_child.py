"""A child on its leash: heard over a pipe, waited for, and ended with all it started."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest
from heat_orders import environment_for, order_for

from laptime import wire
from laptime.run.child import Child, Silence

HANGS = 'fail = { how = "hang", phase = "build" }'


def start(folder, script=""):
    """Start a child and give it its order."""
    order = order_for(folder, script)
    child = Child(order.lane.environment)
    child.say(wire.Run(order))
    return child


def hear_until(child, name):
    while (message := child.hear(30)) != wire.Ready():
        if isinstance(message, wire.Phase) and message.name == name:
            return
    raise AssertionError(f"the child never said {name}")


def test_a_child_is_the_head_of_its_own_session(tmp_path):
    """A Ctrl-C at the terminal does not reach it, and its whole group can be ended at once."""
    child = Child(environment_for(tmp_path))
    found = (os.getsid(child.pid), os.getpgid(child.pid))
    child.end(grace_s=0)
    assert found == (child.pid, child.pid)


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
    """Its signal is told, as is how much memory it held."""
    child = start(tmp_path, HANGS)
    hear_until(child, "build")
    ended = child.end(grace_s=0)
    assert (ended.exit_code, ended.signal) == (None, "SIGKILL")
    assert ended.peak_memory_bytes > 1_000_000
    assert house.is_empty_within(1)


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
