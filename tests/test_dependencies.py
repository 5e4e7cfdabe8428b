"""The ranges of laptime's own dependencies, the versions that tests install, and the hashes of these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.dependency_ends import constrain, main, read_pins, read_ranges

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
VERSION = r"[\d.]+"
ROW = re.compile(
    rf"^\| (?P<name>[\w-]+) \| (?P<lowest>{VERSION}) \| (?P<pin>{VERSION}) \| (?P<limit>{VERSION}) \|$", re.MULTILINE
)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_the_lock_has_the_versions_of_the_constraints_and_a_hash_of_each():
    """Whatever the lock holds: pip refuses a file where one requirement has no hash."""
    pins, locked = read_pins(CONSTRAINTS), read_pins(LOCK)
    assert set(read_ranges(PROJECT)) <= set(locked)
    assert locked == {name: pins[name] for name in locked}
    parts = re.split(r"^(?=\w)", LOCK, flags=re.MULTILINE)[1:]
    assert len(parts) == len(locked)
    assert [each for each in parts if not re.search(r"--hash=sha256:[0-9a-f]{64}$", each, re.MULTILINE)] == []


def test_docs_have_the_ranges_and_the_tested_versions():
    """The lowest, the one in constraints.txt, and the first that is not allowed."""
    told = {row["name"]: row.groupdict() for row in ROW.finditer((ROOT / "docs/start.md").read_text(encoding="utf-8"))}
    pins = read_pins(CONSTRAINTS)
    ranges = {name: (lowest, pins[name]) for name, lowest in read_ranges(PROJECT).items()}
    assert {name: (row["lowest"], row["pin"]) for name, row in told.items()} == ranges
    for name, row in told.items():
        assert f'"{name}>={row["lowest"]},<{row["limit"]}"' in PROJECT
        assert numbers(row["lowest"]) < numbers(row["pin"]) < numbers(row["limit"])


def test_both_ends_are_made_of_the_ranges(capsys):
    """The lowest of each; for the newest, nothing is said of them. All else is as in constraints.txt."""
    main(["lowest"])
    lowest = read_pins(capsys.readouterr().out)
    main(["newest"])
    newest = read_pins(capsys.readouterr().out)
    own = read_ranges(PROJECT)
    assert {name: lowest[name] for name in own} == own
    assert not set(own) & set(newest)
    assert {**lowest, **read_pins(CONSTRAINTS)} == read_pins(CONSTRAINTS)
    assert {**newest, **{name: lowest[name] for name in own}} == lowest
    assert constrain("lowest", {"a": "1.0"}, {"a": "2.0", "b": "3.0"}) == ["a==1.0", "b==3.0"]


@pytest.mark.parametrize("written", ["click", "click>=8.1", "click<9", "click==8.1"])
def test_a_dependency_without_both_bounds_is_an_error(written):
    with pytest.raises(ValueError, match=rf"{written}: expected NAME>=LOWEST,<LIMIT"):
        read_ranges(f'[project]\ndependencies = ["{written}"]')
