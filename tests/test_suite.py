"""What `make test` keeps: something of each room, and a real race of each framework. The rest is marked `long`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from laptime.model.frameworks import FRAMEWORKS

TESTS = Path(__file__).parent
ROOMS = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")})
# What computes, and the test that races it by the command that users type.
REAL_RACES = {
    "torch": ("cli/test_cli_torch_races.py", "test_the_example_of_dict_batches_is_raced_where_no_lane_is_named"),
    "jax": ("cli/test_cli_jax.py", "test_an_example_is_raced_and_proven"),
    "tensorflow": ("cli/test_cli_keras.py", "test_a_race_across_frameworks_proves_the_same_work"),
    "python": ("cli/test_cli_python.py", "test_an_example_is_raced_and_proven"),
}


def is_long(marks: list[ast.expr]) -> bool:
    return any(ast.unparse(each) == "pytest.mark.long" for each in marks)


def short_tests(text: str) -> list[str]:
    """Return the tests of a file that `make test` runs, or some cases of which it runs."""
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marks = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            if is_long(marks):
                return []
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
    return [each.name for each in functions if not is_long(each.decorator_list)]


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_keeps_tests_in_make_test(room):
    files = (TESTS / room).rglob("test_*.py")
    assert any(short_tests(path.read_text(encoding="utf-8")) for path in files)


def test_each_framework_has_a_real_race_in_make_test():
    """A framework that comes needs a row, and the test that is named is there and is not long."""
    engines = {row.engine.name for row in FRAMEWORKS if row.name != "fake"}
    assert REAL_RACES.keys() == engines
    for engine, (place, name) in REAL_RACES.items():
        text = (TESTS / place).read_text(encoding="utf-8")
        assert name in short_tests(text)
        assert any(f'"{row.name}' in text for row in FRAMEWORKS if row.engine.name == engine)
        assert "torch_house.raced(" in text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("def test_a(): ...\n\n@pytest.mark.long\ndef test_b(): ...\n", ["test_a"]),
        ("pytestmark = pytest.mark.long\ndef test_a(): ...\n", []),
        ("pytestmark = [pytest.mark.framework, pytest.mark.long]\ndef test_a(): ...\n", []),
        ("pytestmark = pytest.mark.framework\ndef test_a(): ...\n", ["test_a"]),
    ],
)
def test_what_is_long_is_known_by_its_mark(text, kept):
    assert short_tests(text) == kept
