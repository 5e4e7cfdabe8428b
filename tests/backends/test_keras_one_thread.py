"""One thread for all of Keras: in turn, with errors told, and never in the way of the process's end."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from laptime.engine.backends.keras.engines import KerasThread

LEFT = """
import threading
from laptime.engine.backends.keras.engines import KerasThread
KerasThread().begin(threading.Event().wait, lambda: None)
print("ended")
"""


def test_everything_runs_in_the_same_thread():
    """And not in the one that asks."""
    one_thread = KerasThread()
    seen = {one_thread(threading.get_ident) for _ in range(3)}
    assert len(seen) == 1
    assert threading.get_ident() not in seen


def test_an_error_is_told_to_whoever_waits():
    one_thread = KerasThread()
    with pytest.raises(ZeroDivisionError):
        one_thread(lambda: 1 / 0)
    assert one_thread(lambda: "goes on") == "goes on"


def test_what_holds_the_thread_is_ended_before_anything_else_runs():
    """Else the next thing that is asked of Keras would wait for good."""
    one_thread, ended = KerasThread(), threading.Event()
    held = one_thread.begin(lambda: None if ended.wait(20) else pytest.fail("it was never ended"), ended.set)
    assert one_thread(ended.is_set)
    assert held.done()


@pytest.mark.long
def test_a_thread_that_is_held_does_not_keep_the_process_alive():
    """As a pool of the standard library would."""
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "ended\n"
