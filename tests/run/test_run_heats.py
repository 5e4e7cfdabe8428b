"""The director comes back with a heat whatever its child does, and leaves no process behind."""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from heat_orders import order_for

from laptime.engine.heat.__main__ import ENDED_FIRST
from laptime.engine.run import child
from laptime.engine.run.child import Child
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.model.quantities import Missing
from laptime.model.sample import Noise
from long_cases import cases

PHASES = ("build", "proof", "first step", "timing")
OUT_OF_MEMORY = "out of memory: planted: 64 GiB asked, 24 GiB there; a smaller batch needs less"


def run(order, *, patience_s=60.0, told=None):
    """Run one heat of round 3 and give it."""
    heard = [] if told is None else told
    return HeatRunner(order, Limits(patience_s, 1.0), 2, heard.append).run(Started(Child(order.lane.environment)), 3)


def test_a_heat_that_finishes_brings_everything_back(tmp_path, house):
    """All that was said is in the heat: sizes, proof, first step, windows, losses, memory and versions."""
    heat = run(order_for(tmp_path, number=7))
    assert (heat.process.lane, heat.order, heat.round, heat.process.status, heat.process.dnf) == (
        "fake/cpu/as-written",
        7,
        3,
        "ok",
        None,
    )
    assert (heat.process.parameters, heat.process.items_per_step, heat.steps_per_lap) == (1_337_002, 100, 500)
    assert heat.first_step_ns == 300_000_000
    assert [run.precision for run in heat.proofs] == ["fp32"]
    assert {2} == {window.steps for window in heat.windows}
    assert len(heat.windows) == len(heat.losses) >= 10
    assert heat.process.peak_memory_bytes > 1_000_000
    assert heat.process.device_memory_bytes == Missing("a fake device holds no memory")
    assert heat.process.versions == {"fake": "1"}
    assert house.is_empty_within(10)


def test_what_a_heat_tells_of_its_steps_is_kept(tmp_path):
    """Where it was asked to take them apart; it is in the heat's result too."""
    script = "loader_ms = 30.0\ncopy_ms = 2.0\ncompute_ms = 8.0\nsigns = { reads = 2.0 }"
    heat = run(replace(order_for(tmp_path, script), breakdown=True))
    assert (heat.signs.steps, heat.signs.wait_ns, heat.signs.reads) == (25, 750_000_000, 2.0)
    assert run(order_for(tmp_path, script)).signs is None


def test_each_phase_has_its_length(tmp_path):
    """Starting and importing are the machine's own time, the rest is virtual and exact."""
    spans = run(order_for(tmp_path)).process.phases_s
    assert list(spans) == ["start", "import", "build", "proof", "first step", "timing"]
    assert 0 < spans["start"] < 30
    assert pytest.approx([spans[name] for name in ("build", "proof", "first step")]) == [0.2, 0.4, 0.3]


def test_each_phase_is_told_as_it_begins(tmp_path):
    """Progress is shown by what is reported here."""
    told = []
    run(order_for(tmp_path), told=told)
    assert list(dict.fromkeys(told)) == ["import", *PHASES, "end"]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's choice is Linux's")
def test_where_memory_runs_out_the_kernel_ends_a_heat_first(tmp_path):
    """And not this process, nor another program of the user."""
    child = Child(order_for(tmp_path).lane.environment)
    scores = set()

    def read_score(_note):
        with suppress(OSError, psutil.Error):  # a heat that has just ended
            for each in psutil.Process(child.pid).children():
                scores.add(int(Path(f"/proc/{each.pid}/oom_score_adj").read_text()))

    HeatRunner(order_for(tmp_path), Limits(60.0, 1.0), 2, read_score).run(Started(child), 1)
    own = int(Path("/proc/self/oom_score_adj").read_text())
    assert scores == {max(own, ENDED_FIRST)}  # in a container it may be higher already


def test_every_window_has_a_reading_of_the_machine(tmp_path):
    """What others did meanwhile, or why that cannot be told; windows on the virtual clock are over too quickly."""
    windows = run(order_for(tmp_path)).windows
    assert {Noise} == {type(window.noise) for window in windows}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(
    ("how", "ended"),
    [
        ("raise", ("RuntimeError: planted failure", None, 1, ["RuntimeError: planted failure"])),
        ("memory", (OUT_OF_MEMORY, None, 1, [])),
        ("exit", ("the process ended on its own", None, 7, ["planted exit"])),
        ("kill", ("killed by SIGKILL: most often the system ran out of memory", "SIGKILL", None, [])),
    ],
)
def test_a_failure_says_where_and_how(tmp_path, phase, how, ended):
    """Phase, reason, signal or exit code, memory, and the end of what the child wrote."""
    dnf = run(order_for(tmp_path, f'fail = {{ how = "{how}", phase = "{phase}" }}')).process.dnf
    assert phase == dnf.phase
    assert ended == (dnf.reason, dnf.signal, dnf.exit_code, dnf.stderr_tail.splitlines()[-1:])
    assert dnf.peak_memory_bytes > 1_000_000


@pytest.mark.parametrize("phase", cases("first step", long=["timing"]))
def test_a_child_that_hangs_is_ended(tmp_path, house, phase):
    """Patience is for start-up, building, proof and the first step, the watchdog for the timing; nothing is left."""
    silent_s = {"first step": 4, "timing": 1}[phase]
    began_s = time.monotonic()
    heat = run(order_for(tmp_path, f'first_ms = 10\nfail = {{ how = "hang", phase = "{phase}" }}'), patience_s=4.0)
    assert (heat.process.dnf.phase, heat.process.dnf.reason) == (phase, f"no message for {silent_s} s; stopped")
    assert silent_s < time.monotonic() - began_s < 30.0
    assert house.is_empty_within(0)


def test_what_was_measured_before_a_failure_is_kept(tmp_path):
    """A heat that fails in the timing has its build, its proof and its first step."""
    heat = run(order_for(tmp_path, 'fail = { how = "raise", phase = "timing" }'))
    assert (heat.process.status, heat.process.parameters, heat.first_step_ns, len(heat.proofs)) == (
        "dnf",
        1_337_002,
        300_000_000,
        1,
    )
    assert heat.process.peak_memory_bytes == Missing("the process did not finish")


def test_a_loss_that_is_no_number_ends_the_heat(tmp_path):
    """It is kept as a failure in the timing, and the window without a loss is kept."""
    heat = run(order_for(tmp_path, 'fail = { how = "nan" }'))
    assert (heat.process.dnf.phase, heat.process.dnf.reason) == (
        "timing",
        "the loss became nan in window 1: this lane does not learn, and cannot win",
    )
    assert (len(heat.windows), heat.losses) == (1, ())


def test_a_failure_may_be_planted_in_one_heat_alone(tmp_path):
    """The script names the number of the heat."""
    script = 'fail = { how = "raise", phase = "build", heat = 1 }'
    assert [run(order_for(tmp_path, script, number)).process.status for number in (1, 2)] == ["dnf", "ok"]


def test_a_back_end_that_is_not_there_is_a_failure_like_any_other(tmp_path):
    """The reason names what there is."""
    dnf = run(order_for(tmp_path, framework="nonsense")).process.dnf
    said = "no back end for 'nonsense'; there are: torch, jax, keras-tf, keras-jax, keras-torch, python, fake"
    assert (dnf.phase, dnf.reason) == ("import", said)


@pytest.fixture
def heard():
    """What a shell starts in the background ignores Ctrl-C, and so would these tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_an_interrupt_ends_the_child_and_goes_on(tmp_path, house):
    """Ctrl-C is not swallowed: the child is gone, and the caller decides what is kept."""
    order = order_for(tmp_path, 'fail = { how = "hang", phase = "build" }')
    main, building = threading.main_thread().ident, threading.Event()

    def interrupt() -> None:
        building.wait(30)
        time.sleep(0.1)  # by then the director is back in its wait
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    runner = HeatRunner(order, Limits(20.0, 1.0), 2, lambda phase: building.set() if phase == "build" else None)
    with pytest.raises(KeyboardInterrupt):
        runner.run(Started(Child(order.lane.environment)), 0)
    assert house.is_empty_within(10)


def test_a_phase_in_which_nothing_is_timed_is_told_again(tmp_path, monkeypatch):
    """So that a display shows that it goes on, and how long already."""
    monkeypatch.setattr(child, "SIGN_S", 0.05)
    order = order_for(tmp_path, 'fail = { how = "hang", phase = "build" }')
    told: list[str] = []

    def tell(phase):
        told.append(phase)
        if told.count("build") == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HeatRunner(order, Limits(60.0, 1.0), 2, tell).run(Started(Child(order.lane.environment)), 0)


def test_next_to_timed_steps_nothing_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(child, "SIGN_S", 0.05)
    told: list[str] = []
    heat = run(order_for(tmp_path, 'first_ms = 10\nfail = { how = "hang", phase = "timing" }'), told=told)
    assert heat.process.dnf.phase == "timing"
    assert told.count("timing") == 1
