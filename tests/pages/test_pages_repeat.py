"""The command of a report asks what was asked: typed again, it makes the very ask of its record."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
import records

from laptime.cli.asking import make_infer_ask, make_race_ask, make_script_ask, make_training_ask
from laptime.cli.main import find_command
from laptime.model.ask import Ask
from laptime.pages.listing import repeat_words
from laptime.questions.scale.command import make_scale_ask
from laptime.questions.sweep.command import make_sweep_ask
from laptime.questions.tune.command import make_tune_ask

ASKED = (
    "race cifar-cnn torch/cpu --budget 20s --margin 0.1",
    "race train.py cpu --budget 60s --steps 50 --set malloc=keep --set threads=1 -- --epochs 3",
    "race --on cpu -- sh -c 'python train.py --epochs 3'",
    "train cifar-mlp torch/cpu --laps 2 --seeds 3",
    "infer cifar-cnn torch/cpu --heats 2",
    "why cifar-cnn torch/cpu --budget 60s",
    "tune cifar-cnn torch/cpu --budget 60s --allow batch",
    "sweep cifar-cnn torch/cpu --batch 1..64 --budget 60s",
    "sweep cifar-cnn torch/cpu --threads 1,2 --width 0.5..2 --budget 5m",
    "scale cifar-cnn torch/cpu --devices 1,2 --both --budget 60s",
)


MAKERS = {
    "race": make_race_ask,
    "train": make_training_ask,
    "infer": make_infer_ask,
    "why": make_script_ask,
    "tune": make_tune_ask,
    "sweep": make_sweep_ask,
    "scale": make_scale_ask,
}
OF_THE_COMMAND = {"as_json", "quiet", "details", "dry_run", "against", "trust", "fail_above"}


def ask_of(words: str) -> tuple[str, Ask]:
    """Return the command that was typed, and the ask that it makes."""
    name, *typed = shlex.split(words.removeprefix("laptime "))
    command = find_command(name)
    with command.make_context(name, typed) as context:
        return name, MAKERS[name]({key: told for key, told in context.params.items() if key not in OF_THE_COMMAND})


@pytest.mark.parametrize("words", ASKED)
def test_the_command_asks_the_same_again(words):
    command, ask = ask_of(words)
    kept = replace(records.record((records.FIRST,)), question={"train": "full"}.get(command, command), ask=ask)
    again = repeat_words(kept)
    assert again.startswith("laptime ")
    assert ask_of(again) == (command, ask), again
