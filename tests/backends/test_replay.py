"""A timed turn is taken again by the base's code: only what does the same comes to the same weights."""

import functools
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_orders import own_order

from laptime.analysis.replays import NOT_AS_TOLD, NOT_JOINED, TAKEN_AGAIN, find_gain_elsewhere, find_other_replay
from laptime.engine.backends.replay import StateNumbers
from laptime.engine.backends.torch.backend import TorchBackend
from laptime.engine.heat.kept_turn import read_turn
from laptime.engine.heat.loop import open_keeper
from laptime.engine.heat.work import CountedRunner
from laptime.model.process import ProcessRun, Settings
from laptime.model.quantities import Missing
from laptime.model.sample import Heat, TurnTakenAgain
from long_cases import cases

FILE = str(Path(__file__).with_name("replayed_trainings.py"))
UNTIMED, STEPS, TURNS = 13, 30, 3  # so that the last turn is in the fourth and fifth lap of twenty batches

# A base, and what takes its turns.
HONEST = cases(
    ("plain", "fused"),
    ("dropping", "own_dropout"),
    ("own_order", "own_order"),
    long=[("plain", "by_workers"), ("plain", "other_order"), ("dropping", "dropping"), ("own_step", "own_step")],
)
OTHER = cases(
    ("plain", "few_rows_later"),
    ("plain", "every_other"),
    ("dropping", "no_dropout"),
    ("own_step", "own_step_fewer"),
    ("own_order", "few_rows_own_order"),
    long=[
        *(("plain", name) for name in ("forgetful", "stale", "first_lap")),
        *(("dropping", name) for name in ("few_rows_dropping", "namesake", "less_dropout", "other_momentum")),
    ],
)


SHOWN = tempfile.TemporaryDirectory()


@functools.cache
def show_turn(name: str) -> tuple[str, tuple[str, str]]:
    """Run the turns of a training; return the file that shows its last one, and the digests that were told before."""
    keeper, told, close = play(name)
    path = Path(SHOWN.name, f"{name}.npz")
    keeper.show(0, path)
    close()
    return str(path), (told[-2], told[-1])


def play(name: str):
    training = TorchBackend().build(replace(own_order(FILE, name, Settings()), seed=5, replays=True))
    runner = CountedRunner(training.start())
    keeper, why_not = open_keeper(runner)
    assert why_not == ()
    runner.run(UNTIMED)
    told = []
    for _ in range(TURNS):
        keeper.begin(runner.taken)
        runner.run(STEPS)
        runner.fence()
        told.append(keeper.end())
    keeper.keep(runner.taken)
    return keeper, told, runner.close


def replay(base: str, name: str) -> TurnTakenAgain | Missing:
    path, told = show_turn(name)
    keeper, _, close = play(base)
    try:
        return keeper.replay(0, path, told)
    finally:
        close()


def judge(*replays: TurnTakenAgain) -> str | Missing | None:
    process = ProcessRun(lane="torch/cpu", status="ok")
    return find_other_replay(
        [Heat(process, order=0, round=number, replays=(each,)) for number, each in enumerate(replays)]
    )


@pytest.mark.parametrize(
    ("times", "gain", "is_elsewhere"),
    [((1.02, 0.98), 1.6, True), ((1.28,), 1.6, True), ((1.32,), 1.6, False), ((2.0, 1.0), 1.6, False), ((), 1.6, False),
     ((None,), 1.6, False)],
)  # fmt: skip
def test_a_gain_is_that_of_the_turns_that_were_taken_again(times, gain, is_elsewhere):
    """Steps from the 60th on did less, the turns that were compared came before, and 1.605x was KEPT."""
    process, same = ProcessRun(lane="torch/cpu", status="ok"), TurnTakenAgain(STEPS, None, True, True, ())
    replays = tuple(replace(same, times=each) for each in times)
    found = find_gain_elsewhere([Heat(process, order=0, round=0, replays=replays)], gain)
    assert (found is not None) == is_elsewhere


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a loader's workers end when they may
@pytest.mark.parametrize(("base", "name"), HONEST)
def test_an_honest_turn_comes_to_the_same_weights(base, name):
    found = replay(base, name)
    assert isinstance(found, TurnTakenAgain), found
    assert (found.steps, found.repeats or 0.0, found.is_shown, found.is_joined) == (STEPS, 0.0, True, True)
    assert judge(found, found) is None, found


@pytest.mark.parametrize(("base", "name"), OTHER)
def test_a_turn_that_does_other_work_comes_out_elsewhere(base, name):
    found = replay(base, name)
    assert isinstance(found, TurnTakenAgain), found
    assert isinstance(judge(found), Missing)  # one may be chance
    assert judge(found, found).kind == ("other random draws" if base == "dropping" else "knows the judge"), found
    assert TAKEN_AGAIN in judge(found, found).says


def test_weights_that_were_not_told_of_before_are_not_believed():
    path, (began, _) = show_turn("plain")
    assert judge(play("plain")[0].replay(0, path, (began, "another"))) == NOT_AS_TOLD


def test_a_state_that_changes_between_turns_is_seen():
    path, (_, ended) = show_turn("plain")
    found = play("plain")[0].replay(0, path, ("another", ended))
    assert judge(found, found) == NOT_JOINED


def test_another_state_does_not_fit():
    path, told = show_turn("own_step")
    assert "other weights" in play("plain")[0].replay(0, path, told).missing


def test_a_file_of_a_stranger_is_read_as_numbers_or_not_at_all(tmp_path):
    damaged, link = tmp_path / "turn.npz", tmp_path / "link.npz"
    np.savez(damaged, np.array([object()]), allow_pickle=True)
    link.symlink_to(show_turn("plain")[0])
    assert "cannot be read" in read_turn(damaged)
    for path in (link, tmp_path, tmp_path / "none", Path("/dev/zero")):
        assert "no turn of its own" in read_turn(path)
    found = read_turn(Path(show_turn("plain")[0]))
    assert all(isinstance(numbers, list) for numbers in found)


def test_the_turn_is_left_as_it_was_found():
    """A training that was taken again goes on with its own batches."""
    keeper, _, _ = play("plain")
    path, told = show_turn("plain")
    before: StateNumbers = keeper.rewinder.numbers()
    keeper.replay(0, path, told)
    keeper.rewinder.run(1)
    assert len(keeper.rewinder.numbers()) == len(before)
