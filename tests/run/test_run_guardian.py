"""The guardian above a heat: nothing that the heat started outlives it, and what it prints is bounded."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from laptime.engine.run.child import GUARDIAN
from laptime.engine.run.guardian import CONTINUE_SIGNAL, GOES_ON, PAUSE_SIGNAL, PAUSED, TAIL_BYTES, WENT_ON

PATIENCE_S = 20.0
# A process of its own session and parent, with an empty environment, as daemons have it. Its number is printed.
STRAY = "(env -i setsid sleep 600 & echo $!)"


class Guarded:
    """A guardian over a shell command, and the pipe that its parent holds."""

    def __init__(self, command: str, shell: str = "/bin/sh") -> None:
        to_child, self.write_fd = os.pipe()
        self.read_fd, from_child = os.pipe()
        words = [sys.executable, "-S", "-P", str(GUARDIAN), str(to_child), str(from_child), shell, "-c", command]
        self.process = subprocess.Popen(
            words,
            pass_fds=(to_child, from_child),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(to_child)
        os.close(from_child)

    def below(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def hang_up(self) -> None:
        """Close the pipe, as the system does for a parent that was killed."""
        os.close(self.write_fd)
        self.write_fd = -1

    def finish(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out

    def close(self) -> None:
        """End all that is left, also where a test failed."""
        with contextlib.suppress(psutil.Error):
            for each in self.below():
                each.kill()
        for descriptor in {self.write_fd, self.read_fd} - {-1}:
            os.close(descriptor)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def guard():
    """Put commands below guardians, and end what is left of them."""
    made: list[Guarded] = []

    def make(*words: str) -> Guarded:
        made.append(Guarded(*words))
        return made[-1]

    yield make
    for each in made:
        each.close()


def wait_for(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(("ending", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV)])
def test_the_guardian_ends_as_the_heat_ends_and_nothing_is_left(guard, ending, code):
    """Neither a group of its own nor an empty environment nor another parent keeps a process alive."""
    found, out = guard(f"{STRAY}; {STRAY}; {ending}").finish()
    assert code == found
    strays = [int(line) for line in out.split()]
    assert len(strays) == 2
    assert all(map(is_gone, strays))


def test_a_parent_that_is_gone_ends_all_too(guard):
    """The heat does not read its pipe here; the guardian notices on its own."""
    guarded = guard(f"{STRAY}; exec sleep 600")
    wait_for(lambda: len(guarded.below()) == 2)
    below = guarded.below()
    guarded.hang_up()
    code, _ = guarded.finish()
    assert code == -signal.SIGKILL
    assert all(is_gone(each.pid) for each in below)


def test_a_heat_whose_guardian_is_killed_ends(guard):
    """Nobody would be left to end it."""
    guarded = guard("exec sleep 600")
    wait_for(lambda: [each.name() for each in guarded.below()] == ["sleep"])
    (heat,) = guarded.below()
    guarded.process.kill()
    wait_for(lambda: is_gone(heat.pid))


def work_of(processes: list[psutil.Process]) -> list[float]:
    return [sum(each.cpu_times()[:2]) for each in processes]


def are_at_work(processes: list[psutil.Process], count: int) -> bool:
    """Whether there are `count` processes, and each has computed."""
    try:
        return len(processes) == count and all(work_of(processes))
    except psutil.NoSuchProcess:
        return False


def test_a_paused_heat_does_nothing_and_goes_on(guard):
    """All that it started is stopped, also what belongs to no process; that is no stop by another program."""
    busy = "while :; do :; done"
    guarded = guard(f"(setsid sh -c '{busy}' &); ({busy}) & {busy}")
    wait_for(lambda: are_at_work(guarded.below(), 3))  # a shell that only starts another one is gone by then
    below = guarded.below()
    guarded.process.send_signal(PAUSE_SIGNAL)
    assert guarded.process.stdout.read(1).encode() == PAUSED
    assert {each.status() for each in below} == {psutil.STATUS_STOPPED}
    before = work_of(below)
    time.sleep(0.2)
    assert work_of(below) == before
    guarded.process.send_signal(CONTINUE_SIGNAL)
    assert guarded.process.stdout.read(1).encode() == GOES_ON
    wait_for(lambda: all(now > then for now, then in zip(work_of(below), before, strict=True)))
    below[0].suspend()
    wait_for(lambda: below[0].status() == psutil.STATUS_STOPPED)
    below[0].resume()
    assert guarded.process.stdout.read(1).encode() == WENT_ON
    guarded.hang_up()
    guarded.finish()
    assert all(is_gone(each.pid) for each in below)


def test_a_paused_heat_ends_with_its_parent(guard):
    """A process that is stopped would otherwise stay for ever."""
    guarded = guard(f"{STRAY}; exec sleep 600")
    wait_for(lambda: len(guarded.below()) == 2)
    below = guarded.below()
    guarded.process.send_signal(PAUSE_SIGNAL)
    assert guarded.process.stdout.read(1).encode() == PAUSED
    guarded.hang_up()
    guarded.finish()
    assert all(is_gone(each.pid) for each in below)


def test_a_parent_that_is_gone_and_hears_no_report_ends_all_too(guard):
    """It was killed between turns: the guardian reports what was paused and continued, and nobody reads it."""
    guarded = guard(f"{STRAY}; sleep 600 & sleep 600")
    wait_for(lambda: len(guarded.below()) == 4)
    below = guarded.below()
    for request, report in ((PAUSE_SIGNAL, PAUSED), (CONTINUE_SIGNAL, GOES_ON)):
        guarded.process.send_signal(request)
        assert guarded.process.stdout.read(1).encode() == report
    guarded.process.stdout.close()
    guarded.process.send_signal(PAUSE_SIGNAL)
    guarded.hang_up()
    guarded.process.wait(PATIENCE_S)
    wait_for(lambda: all(is_gone(each.pid) for each in below))


def names_of(processes):
    """Return their names; nothing where one of them has just ended."""
    try:
        return [each.name() for each in processes]
    except psutil.NoSuchProcess:
        return []


def test_the_last_that_was_printed_is_kept_and_no_more(guard):
    """50 MB go through the pipe; the guardian holds some kilobytes, and there is no file that could grow."""
    guarded = guard("head -c 50000000 /dev/zero | tr '\\0' 'x'; echo; echo the end; exec sleep 600")
    wait_for(lambda: names_of(guarded.below()) == ["sleep"])
    time.sleep(0.2)
    resident_bytes = psutil.Process(guarded.process.pid).memory_info().rss
    guarded.hang_up()
    _, out = guarded.finish()
    assert out.endswith("xxx\nthe end\n")
    assert len(out) == TAIL_BYTES
    assert resident_bytes < 40e6


def test_a_command_that_cannot_be_started_is_said(guard):
    """What the parent reads is a sentence."""
    code, out = guard("exit 0", "/no/such/python").finish()
    assert code == 127
    assert out.startswith("the heat could not be started: [Errno 2] No such file")
