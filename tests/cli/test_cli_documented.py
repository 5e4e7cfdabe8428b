"""Every command exists, says what it is for, and is named where people look for it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click
import pytest

from laptime.cli.main import COMMANDS, FIRST_PAGE, OLDER_WORDS, find_command

ROOT = Path(__file__).parents[2]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINES_OF_HELP = 30
QUESTIONS = ("race", "train", "infer", "why", "profile")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_found_by_its_name(name):
    """The table names where it is, and it is called as it is listed."""
    assert name == find_command(name).name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_is_for(house, name):
    """The first line of its help is a sentence, as is its line in the list of commands."""
    first = find_command(name).help.splitlines()[0]
    assert 15 < len(first) <= 120
    assert first[0].isupper()
    assert first[-1] in ".?"
    assert COMMANDS[name][1][-1] in ".?"
    answer = house.run(name, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"Usage: laptime {name} ")


def test_laptime_alone_explains_itself(house):
    """As `laptime --help`: it is no wrong usage."""
    answer = house.done()
    assert answer.out == house.done("--help").out
    assert answer.out.startswith("Usage: laptime [OPTIONS] COMMAND")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    """An option without a word of help is one that nobody finds."""
    options = [each for each in find_command(name).params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_docs(name):
    """In the words in which it is typed."""
    assert any(f"laptime {name}" in each.read_text(encoding="utf-8") for each in DOCS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(house, name):
    """With examples of a question, and the page that says more; what is rare is in `laptime help COMMAND`."""
    short = house.run(name, "--help", env={"COLUMNS": "80"}).out
    assert len(short.splitlines()) < LINES_OF_HELP
    whole = house.run("help", name, env={"COLUMNS": "80"}).out
    if name in QUESTIONS:
        assert short.count("  laptime ") >= 2
        assert "More: docs/" in short
        assert f"All options: laptime help {name}." in short
        assert "--patience" not in short
        assert "--patience" in whole
    options = [each for each in find_command(name).params if isinstance(each, click.Option)]
    assert all(each.opts[0] in whole for each in options)


def test_there_is_help_on_topics(house):
    """What a lane is, with every setting; what exit codes mean; and a topic that there is not is refused."""
    assert "input=published input=fast" in house.done("help", "lanes").out
    assert "4    not to be relied on" in house.done("help", "exit-codes").out
    assert "topics: all, lanes, exit-codes, schema, race" in house.done("help", "lap", code=2).err
    assert "Topics: laptime help all, lanes, exit-codes, schema" in house.done("help").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete(house, shell):
    assert "_LAPTIME_COMPLETE" in house.done("completion", shell).out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("ra",), {"race"}),
        (("race", "plat"), {"plates-cnn"}),
        (("race", "cifar-cnn", "tor"), {"torch/"}),
        (("race", "cifar-cnn", "torch/cu"), {"torch/cuda", "torch/cuda:0"}),
        (("race", "cifar-cnn", "torch/cpu/best+mal"), {"torch/cpu/best+malloc=keep"}),
        (("show", "la"), {"latest"}),
        (("help", "la"), {"lanes"}),
        (("race", "--bud"), {"--budget"}),
    ],
)
def test_what_is_typed_is_completed(house, typed, offered):
    """By the protocol that bash uses: one word a line, after its kind."""
    words = " ".join(("laptime", *typed))
    asked = {"_LAPTIME_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(typed))}
    lines = house.run(env=asked).out.splitlines()
    assert offered <= {line.partition(",")[2] for line in lines}


@pytest.mark.parametrize("words", [("--help",), ("-h",), ()])
def test_the_first_page_has_twelve_lines_in_groups(house, words):
    """The commands that people use most, each with its one line; asking for nothing shows it, too."""
    answer = house.done(*words, env={"COLUMNS": "80"})
    heads = [f"{group}:" for group in FIRST_PAGE]
    lines = answer.out.split("Ask:\n")[1].splitlines()
    listed = [line for line in lines if line.startswith("  ")]
    names = [name for line in listed for name in line.split("  ")[1].split(", ")]
    assert len(listed) == 12
    assert heads == ["Ask:", "Records:", "Machine:"]
    assert all(head in answer.out for head in heads)
    assert names == [
        *("race", "why", "watch", "tune", "verdict", "sweep", "scale", "forecast", "train", "infer"),
        *("list", "show", "compare", "report"),
        "devices",
    ]
    assert "All commands: laptime help all." in answer.out


def test_one_page_lists_every_command(house):
    """With its one line; what an older word became, too."""
    said = " ".join(house.done("help", "all").out.split())
    assert all(f"{name} {text}" in said for name, (_, text, _) in COMMANDS.items())


def test_older_words_still_run_and_are_not_offered(house):
    """`profile` is what `race --profile` does at its end."""
    older = {name for name, (_, _, group) in COMMANDS.items() if group == OLDER_WORDS}
    assert older == {name for name in COMMANDS if find_command(name).hidden} == {"profile"}
    asked = {"_LAPTIME_COMPLETE": "bash_complete", "COMP_WORDS": "laptime p", "COMP_CWORD": "1"}
    assert house.run(env=asked).out.split() == []


def test_the_version_is_that_of_the_package(house):
    """One place says it."""
    assert house.run("--version").out == f"laptime, version {metadata.version('laptime')}\n"


def test_the_installed_command_is_the_one_that_is_tested_here():
    """`laptime` and `python -m laptime` begin at the same place."""
    (script,) = metadata.entry_points(group="console_scripts", name="laptime")
    assert script.value == "laptime.__main__:main"
