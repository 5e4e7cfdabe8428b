"""The command of a report asks what was asked: typed again, it makes the very ask of its record."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
import records
from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.api.showing import as_files
from laptime.cli.main import find_command
from laptime.cli.questions import make_ask
from laptime.model import option_kinds, options
from laptime.model.ask import Ask, TypePrice
from laptime.model.options import options_of
from laptime.questions.sweep import options as sweep_options
from laptime.questions.tune import options as tune_options
from laptime.show.pages.listing import repeat_words

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

OF_THE_COMMAND = {"as_json", "quiet", "details", "dry_run", "against", "trust", "fail_above"}


def typed_in_shell(line: str) -> list[str]:
    """Return the words of a line as bash reads them."""
    command = ["bash", "-c", f"printf '%s\\0' {line}"]
    told = subprocess.run(command, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True).stdout
    return told.decode("utf-8", "surrogateescape").split("\0")[:-1]


def ask_of(words: str) -> tuple[str, Ask]:
    """Return the command that was typed in a shell, and the ask that it makes."""
    name, *typed = typed_in_shell(words.removeprefix("laptime "))
    command = find_command(name)
    with command.make_context(name, typed) as context:
        return name, make_ask(name, {key: told for key, told in context.params.items() if key not in OF_THE_COMMAND})


@pytest.mark.parametrize("words", ASKED)
def test_the_command_asks_the_same_again(words):
    command, ask = ask_of(words)
    kept = replace(records.record((records.FIRST,)), question={"train": "full"}.get(command, command), ask=ask)
    again = repeat_words(kept)
    assert again.startswith("laptime ")
    assert ask_of(again) == (command, ask), again


WORD = st.text("abcxyz019._-/", min_size=1, max_size=8).filter(lambda word: word[0] != "-")
FIGURE = st.floats(0.001, 0.999) | st.floats(1e-7, 1e-3)
AXIS = st.sampled_from(("1..64", "8,16,24", "0.5..2"))
# Values of each kind, as its readers return them.
VALUES = {
    option_kinds.FLAG: st.just(value=True),
    option_kinds.COUNT: st.integers(1, 99),
    option_kinds.NUMBER: FIGURE | st.floats(1, 1e9),
    option_kinds.DURATION: st.floats(0.1, 604_800),
    option_kinds.SHARE: FIGURE,
    option_kinds.ITEMS: st.integers(0, 1_000_000),
    option_kinds.COUNTS: st.lists(st.integers(1, 4096), min_size=1, max_size=3, unique=True).map(tuple),
    option_kinds.NUMBERS: st.lists(FIGURE, min_size=1, max_size=3, unique=True).map(tuple),
    option_kinds.NAME: WORD,
    option_kinds.WORDS: st.lists(WORD, min_size=1, max_size=3).map(tuple),
    option_kinds.SETTING: st.lists(WORD, min_size=1, max_size=3).map(tuple),
    option_kinds.PATH: st.text(min_size=1, max_size=9).filter(lambda text: "\0" not in text),
    options.CLUSTER: st.sampled_from(("ray", "slurm", "ray://head:10001")),
    options.PLACES: st.sampled_from(("ray", "torchrun")),
    options.PRICES: st.dictionaries(WORD, FIGURE, min_size=1).map(
        lambda prices: tuple(TypePrice(*each) for each in prices.items())
    ),
    tune_options.AIM: st.sampled_from(("time", "energy", "money")),
    sweep_options.COUNTS_AXIS: AXIS,
    sweep_options.NUMBERS_AXIS: AXIS,
    sweep_options.ITEMS_AXIS: AXIS | st.integers(0, 1_000_000),
}


TYPED = st.text(max_size=5).filter(lambda text: "\0" not in text)  # no system has a word with one


@st.composite
def asks(draw):
    """Draw a question and any options of it; those of a label and of a library's script are no part of the words."""
    question = draw(st.sampled_from(options.TRAINED))
    rows = [row for row in options_of(question) if row.fills and row.is_repeated and row.only != "library"]
    wanted = draw(st.lists(st.sampled_from(rows), unique_by=lambda row: row.name))
    values = {row.name: draw(VALUES[row.kind]) for row in wanted}
    subject = {"what": draw(st.sampled_from(("cifar-mlp", "my.py:training"))), "lanes": ("torch/cpu", "cuda/best")}
    if question in {"race", "why"}:
        subject |= {"what": draw(st.sampled_from(("train.py", ""))), "lanes": ("cpu",)}
        subject["command"] = ("--", "-x", *draw(st.lists(TYPED, max_size=2)))
    return question, options.make_ask(question, values, **subject)


@settings(max_examples=150, deadline=None)
@given(asks())
def test_no_option_is_lost(asked):
    """Whatever was asked of whichever question: its command, parsed again, asks the same."""
    question, ask = asked
    name = {"train": "full"}.get(question, question)
    again = repeat_words(replace(records.record((records.FIRST,)), question=name, ask=ask))
    assert ask_of(again) == (question, ask), again


ODD_WORDS = ("a\nb", "a  b", "it's\t\\n", "\x1b[31m", "\u202eabc", "\u0085", "\udcff", "$HOME `ls`", "")


@pytest.mark.parametrize("word", ODD_WORDS)
def test_a_command_is_one_line_whatever_is_in_its_words(word):
    """In Markdown and HTML a new line is a space, and a terminal acts on some characters."""
    ask = Ask(what="train.py", lanes=("cpu",), command=("--note", word))
    again = repeat_words(replace(records.record((records.FIRST,)), ask=ask))
    assert again.isprintable()
    assert typed_in_shell(again)[-2:] == ["--note", word]
    made = replace(records.record((records.FIRST,)), ask=ask)
    page = as_files([made], "md").files
    [markdown] = page.values()
    assert again in markdown.decode().splitlines()[-3].removeprefix("    ")
