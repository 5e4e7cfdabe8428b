"""--details: every command that prints a page takes it, and prints all fields that --json has."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from laptime.cli.main import COMMANDS, find_command

# They print no page but a line: what was written, or removed. `help` and `completion` print the same for everybody.
A_LINE = {"apply", "report", "export", "remove", "board", "help", "completion"}
PAGES = {
    "what would run": ("race", "cifar-cnn", "fake/cpu", "--dry-run"),
    "list": ("list",),
    "history": ("history", "cifar-cnn"),
    "workloads": ("workloads",),
    "a workload": ("workloads", "cifar-mlp"),
    "devices": ("devices", "--framework", "fake"),
    "devices --check": ("devices", "--check", "--framework", "fake"),
    "data": ("data",),
    "validate": ("validate", "latest"),
}
CHANGING = {"devices", "devices --check"}  # how busy the machine is


@pytest.fixture(scope="module")
def raced(shared_house):
    shared_house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2")
    return shared_house


def takes(command: click.Command, option: str) -> bool:
    return any(option in each.opts for each in command.params)


def test_every_command_that_prints_a_page_takes_details():
    """The subcommands of `data` that show sets, too."""
    commands = {name: find_command(name) for name in COMMANDS}
    assert {name for name, each in commands.items() if not takes(each, "--details")} == A_LINE
    assert takes(commands["data"].commands["list"], "--details")


def names_in(value: object) -> Iterator[str]:
    """Yield the name of each field that says something."""
    for part in value if isinstance(value, list) else []:
        yield from names_in(part)
    for name, part in value.items() if isinstance(value, dict) else []:
        if name != "missing" and part not in (None, "", [], {}):
            yield name.replace("_", " ")
            yield from names_in(part)


@pytest.mark.parametrize("what", PAGES)
def test_details_have_the_page_and_then_every_field(raced, what):
    words = PAGES[what]
    page, whole = raced.done(*words).out, raced.done(*words, "--details").out
    if what in CHANGING:
        assert whole.splitlines()[0] == page.splitlines()[0]
    else:
        assert whole.startswith(page)
    below = whole.partition("\n\n")[2] if what in CHANGING else whole.removeprefix(page)
    lines = [line.strip() for line in below.splitlines()]
    for name in set(names_in(raced.done(*words, "--json").json)):
        assert any(line.startswith(f"{name}:") for line in lines), name
    assert max(map(len, whole.splitlines())) <= 100


def test_a_missing_figure_has_its_reason_and_a_long_one_six_digits(raced):
    """A fake machine has no card to be named, and its products take as long as they take."""
    told = " ".join(raced.done("devices", "--framework", "fake", "--details").out.split())
    assert "Apple: - (this is no Mac)" in told
    told = raced.done("race", "cifar-cnn", "fake/cpu", "--dry-run", "--details").out
    assert "  batch: 32\n  learning rate scale: 0.01\n" in told
