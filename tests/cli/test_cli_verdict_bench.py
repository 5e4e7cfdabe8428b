"""How often a verdict is wrong: edits that change nothing, the noise of recorded races, and an agent's loop."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
LOOP = ROOT / "examples" / "agent_loop.py"
NUMPY_TRAININGS = ("examples/two_trainings.py", "examples/numpy_training.py")


@pytest.fixture
def benches(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))


def steps_of(text, file, function):
    """Return the losses of three steps of a training in NumPy, and the state after them."""
    module = {"__name__": "edited"}
    exec(compile(text, file, "exec"), module)
    training = module[function]()
    state, losses = training.state, []
    for batch in list(training.data)[:3]:
        state, loss = training.step(state, batch)
        losses.append(float(loss))
    arrays = state.values() if isinstance(state, dict) else [state]
    return losses, [array.tobytes() for array in arrays]


@pytest.mark.usefixtures("benches")
@pytest.mark.parametrize("seed", range(12))
def test_an_edit_changes_the_text_and_no_bit_of_the_work(seed):
    import verdict_edits

    kinds = set()
    for file, function, _ in verdict_edits.TRAININGS:
        text = (ROOT / file).read_text(encoding="utf-8")
        edited, edits = verdict_edits.edit(text, random.Random(seed))
        assert edited != text
        assert 1 <= len(edits) <= 3
        kinds |= {*edits}
        if file in NUMPY_TRAININGS:
            assert steps_of(edited, file, function) == steps_of(text, file, function)
    assert kinds <= {"rename", "swap", "expression", "comments"}


@pytest.mark.usefixtures("benches")
def test_recorded_races_are_of_three_kinds_of_machine_and_each_round_counts_once():
    import recorded_noise

    found = recorded_noise.read_races()
    assert [*sorted(found)] == ["2 cores of AMD EPYC", "2 cores of Intel Xeon", "NVIDIA H100, 16 cores of Intel Xeon"]
    for races in found.values():
        noise = recorded_noise.draw(races, 4_000, np.random.default_rng(0))
        assert noise.shape == (2, 4_000)
        assert np.std(noise[0]) == pytest.approx(recorded_noise.spread_of(races), rel=0.25)
        assert abs(np.mean(noise[0])) < 0.02
    lanes = [lane for races in found.values() for race in races for lane in race.away]
    assert len({*lanes}) == len(lanes)


@pytest.mark.usefixtures("benches")
def test_a_gate_with_the_noise_of_an_epyc_finds_five_per_cent():
    import recorded_noise
    import verdict

    races = tuple(recorded_noise.read_races()["2 cores of AMD EPYC"])
    told = {"spread": 0.05, "gate": True, "rounds": verdict.GATE_ROUNDS, "machine": "an EPYC", "races": races}
    (slower,), _ = verdict.simulate(verdict.Case(ratio=1 / 1.05, **told), 60, 0)
    (equal,), _ = verdict.simulate(verdict.Case(ratio=1.0, **told), 60, 0)
    assert (slower.least, slower.kept, equal.kept) == (95.0, True, True), (slower.value, equal.value)


@pytest.mark.usefixtures("benches")
def test_a_session_of_edits_that_change_nothing_keeps_none_and_later_finds_a_gain(monkeypatch):
    """Sessions that are judged all at once are judged as one by one, which `simulate` checks."""
    import verdict_sessions

    monkeypatch.setattr(verdict_sessions, "VERDICTS", 20)
    monkeypatch.setattr(verdict_sessions, "AT", (1, 10))
    (figure,), shares = verdict_sessions.simulate(verdict_sessions.SessionCase(0.03), 200, 0)
    assert figure.value <= 1
    assert 0.2 < shares["verdicts that are chosen"] < 2
    assert min(shares[f"{gain} faster, kept at verdict {at}"] for gain in ("5%", "10%") for at in (1, 10)) > 95


def loop(house, *words):
    """Return the lines of the agent's loop, by what each edit was."""
    ran = subprocess.run(
        [sys.executable, str(LOOP), *words], env=house.environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.long
def test_an_agent_keeps_nothing_of_a_training_on_half_of_the_rows(torch_house):
    first, kept = loop(torch_house, "--edits", "1", "--budget", "60")
    assert first.split() == ["DISCARD", "other", "work", "train", "on", "every", "other", "row"]
    assert kept == "kept: nothing"


@pytest.mark.long
def test_an_agent_keeps_the_gain_and_goes_on_from_it(torch_house):
    _, gain, *_, kept = loop(torch_house, "--edits", "4", "--budget", "120")
    assert gain.startswith("KEEP      faster")
    assert kept == "kept: the gradient as one product"
