"""Short children answer one question, and whatever goes wrong becomes an answer too."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace

import pytest
from heat_orders import environment_for, order_for

from laptime.engine import wire
from laptime.engine.run.launchers import LOCAL
from laptime.engine.run.runner import Started
from laptime.engine.run.scout import ask_reference, ask_scouts
from laptime.model.machine import Framework
from laptime.model.sample import Reference


def framework_of(name):
    """Return a framework as it is before it was scouted."""
    return Framework(name, "1")


def test_a_scout_comes_back_with_what_a_framework_sees():
    """Version and devices, with no framework imported here."""
    [seen] = ask_scouts([framework_of("fake")], 60.0)
    assert (seen.version, seen.versions, seen.problem) == ("1", {"fake": "1"}, None)
    assert [each.name for each in seen.devices] == ["cpu", "cuda:0", "cuda:1"]


def test_a_scout_that_fails_brings_its_problem():
    """A framework that cannot be opened is a sentence, not an error."""
    bad, good = ask_scouts([framework_of("nonsense"), framework_of("fake")], 60.0)
    assert (bad.versions, bad.devices, good.problem) == ({}, (), None)
    assert (
        bad.problem
        == "no back end for 'nonsense'; there are: torch, jax, keras-tf, keras-jax, keras-torch, python, fake"
    )


def test_a_scout_that_does_not_answer_is_given_up(house):
    """No process can start within a thousandth of a second."""
    [seen] = ask_scouts([framework_of("fake")], 0.001)
    assert seen.problem == "no answer within 0.001 s"
    assert house.is_empty_within(0)


def test_scouts_work_side_by_side_and_end_with_a_ctrl_c(house):
    """Three frameworks take as long as the slowest of them; a caller that gives up leaves none behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
    main = threading.main_thread().ident
    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask_scouts([framework_of("torch")] * 3, 60.0)
    signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began_s < 20
    assert house.is_empty_within(10)


def test_a_reference_is_computed(tmp_path):
    """Both runs take the steps that the order names."""
    reference = ask_reference(order_for(tmp_path), 60.0)
    assert isinstance(reference, Reference)
    assert (len(reference.exact.losses), len(reference.twin.losses)) == (4, 4)


@pytest.mark.parametrize("broken", [None, "no message for 1 s; stopped"])
def test_a_child_that_could_not_import_is_ended_and_a_fresh_one_computes_the_reference(tmp_path, house, broken):
    child = LOCAL.start(environment_for(tmp_path))
    child.say(wire.Warm("nonsense"))
    heard = [child.hear(30.0)]
    while not isinstance(heard[-1], wire.Failed):
        heard.append(child.hear(30.0))
    started = Started(child, () if broken else tuple(heard), broken)
    assert isinstance(ask_reference(order_for(tmp_path), 60.0, started=started), Reference)
    assert house.is_empty_within(10)


def own(order):
    """Return the order as if its training were a user's own: its step is counted, too."""
    return replace(order, subject=replace(order.subject, file="train.py", function="training"))


def test_the_reference_of_a_training_of_your_own_comes_with_a_counted_step(tmp_path):
    """Six operations a weight and item. Of a built-in training the layers are known."""
    assert ask_reference(order_for(tmp_path), 60.0).work is None
    reference = ask_reference(own(order_for(tmp_path)), 60.0)
    assert reference.work.flops == 6 * 1_337_002 * 100
    assert reference.uncounted is None


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("kill", "counting a step failed: its process ended: SIGKILL"),
        ("raise", "counting ended in RuntimeError: planted"),
    ],
)
def test_a_reference_stays_where_its_step_cannot_be_counted(tmp_path, how, why):
    reference = ask_reference(own(order_for(tmp_path, f'fail = {{ how = "{how}", phase = "work" }}')), 60.0)
    assert len(reference.exact.losses) == 4
    assert reference.work is None
    assert reference.uncounted.startswith(why)


def test_a_reference_that_fails_says_why(tmp_path):
    """The first sentence of what went wrong."""
    order = order_for(tmp_path)
    asked = replace(order, subject=replace(order.subject, name="nonsense"))
    assert ask_reference(asked, 60.0).reason.startswith("unknown workload 'nonsense'")


def test_scouts_that_hang_share_one_deadline(house):
    """Four that say nothing are given up together, not one after another."""
    began_s = time.monotonic()
    seen = ask_scouts([framework_of("torch")] * 4, 0.8)
    assert {each.problem for each in seen} == {"no answer within 0.8 s"}
    assert time.monotonic() - began_s < 4 * 0.8
    assert house.is_empty_within(0)
