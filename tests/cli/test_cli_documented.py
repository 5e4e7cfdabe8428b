"""Every command exists, says what it is for, and is named where people look for it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click
import pytest

from laptime.cli.main import COMMANDS, find_command

README = Path(__file__).parents[2] / "README.md"


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    """An option without a word of help is one that nobody finds."""
    options = [each for each in find_command(name).params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help] == []


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"help", "completion"}))
def test_every_command_speaks_json(name):
    """Other programs get the same answers."""
    assert "--json" in [flag for each in find_command(name).params for flag in each.opts]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_readme(name):
    """In the words in which it is typed."""
    assert f"laptime {name}" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [("--help",), ("-h",), ()])
def test_the_help_lists_every_command(house, words):
    """With its one line; asking for nothing shows it too, as a slip."""
    answer = house.run(*words)
    said = " ".join((answer.out + answer.err).split())
    assert answer.code == (0 if words else 2)
    assert all(f"{name} {text}" in said for name, (_, text) in COMMANDS.items())


def test_the_version_is_that_of_the_package(house):
    """One place says it."""
    assert house.run("--version").out == f"laptime, version {metadata.version('laptime')}\n"


def test_the_installed_command_is_the_one_that_is_tested_here():
    """`laptime` and `python -m laptime` begin at the same place."""
    (script,) = metadata.entry_points(group="console_scripts", name="laptime")
    assert script.value == "laptime.__main__:main"
