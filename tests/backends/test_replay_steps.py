"""Timed turns of a step in plain Python, and of one in JAX, are taken again as those of PyTorch are."""

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from planted_orders import own_order

from laptime.analysis.replays import find_difference
from laptime.engine.backends import open_backend
from laptime.engine.heat.loop import open_keeper
from laptime.engine.heat.work import CountedRunner
from laptime.model.errors import LaneError
from laptime.model.process import Settings

FILE = str(Path(__file__).with_name("replayed_steps.py"))


def play(framework, name, *, keeps=True):
    order = own_order(FILE, name, Settings())
    order = replace(order, lane=replace(order.lane, framework=framework), seed=5, replays=True)
    runner = CountedRunner(open_backend(framework).build(order).start())
    keeper, why_not = open_keeper(runner)
    assert why_not == ()
    runner.run(13)
    told = []
    for _ in range(3):
        keeper.begin(runner.taken)
        runner.run(30)
        runner.fence()
        told.append(keeper.end())
    if keeps:
        keeper.keep(runner.taken)
    return keeper, told


def replay(framework, base, name):
    shown, told = play(framework, name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "turn.npz")
        shown.show(0, path)
        found = play(framework, base)[0].replay(0, str(path), (told[-2], told[-1]))
    assert (found.is_shown, found.is_joined, found.repeats or 0.0) == (True, True, 0.0), found
    return find_difference(found)


def test_a_step_in_python_comes_to_the_same_weights_or_is_other_work():
    assert replay("python", "plain", "plain") is None
    assert "lead elsewhere" in replay("python", "plain", "fewer").says


def test_where_a_lap_has_no_length_no_turn_is_kept_and_the_training_goes_on():
    """Its place in a later lap is not known."""
    keeper, _ = play("python", "endless_laps", keeps=False)
    with pytest.raises(LaneError, match="how many batches a lap has"):
        keeper.keep(103)


@pytest.mark.framework
def test_a_step_in_jax_comes_to_the_same_weights_or_is_other_work():
    """In a process of its own: one that holds JAX may not be forked, as other tests do."""
    code = "from test_replay_steps import replay; print([replay('jax', 'in_jax', each) for each in ('in_jax', {!r})])"
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (here, here.parent)))}
    ended = subprocess.run(
        [sys.executable, "-c", code.format("fewer_in_jax")], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("[None, ")
    assert "lead elsewhere" in ended.stdout
