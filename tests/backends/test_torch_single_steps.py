"""The single steps of the proof in PyTorch: a weight decay shows there, and at a tiny rate another rate does."""

from __future__ import annotations

import pytest

import honest

pytestmark = pytest.mark.long

FILE = "honest_torch"
PLANTED = {
    "mlp adam, l2: l2 doubled": "mlp adam, l2",
    "mlp adamw, decay 1e-4: no decay": "mlp adamw, decay 1e-4",
    "mlp adamw, rate 2e-5: decay doubled": "mlp adamw, rate 2e-5",
    "mlp sgd, rate 1e-5: rate +1 %": "mlp sgd, rate 1e-5",
    "mlp adam: epsilon 1e-7": "mlp adam",
}


def answers(lane, names, *, refers=False):
    return {each.name: each for each in honest.answer_here(honest.Task(FILE, lane, tuple(names), 0, refers))}


@pytest.fixture(scope="module")
def references():
    return answers("torch", PLANTED.values(), refers=True)


def test_lanes_as_written_and_at_their_best_are_the_same_work(references):
    for lane in ("torch", "torch/best"):
        found = {name: honest.judge(lane, told, references[name]) for name, told in answers(lane, references).items()}
        assert {name: parity.reason for name, parity in found.items()} == dict.fromkeys(references)


def test_what_is_planted_is_caught(references):
    """No small step of these shows it."""
    found = {
        name: honest.judge("torch", told, references[PLANTED[name]]) for name, told in answers("torch", PLANTED).items()
    }
    assert {name: parity.status for name, parity in found.items()} == dict.fromkeys(PLANTED, "differs")
