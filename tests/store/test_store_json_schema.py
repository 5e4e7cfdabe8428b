"""The published JSON Schema is that of the types, and a real validator accepts what is written and little else."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from math import nan
from pathlib import Path

import pytest
from sound_records import literals
from store_records import record, with_losses

from laptime.model.questions import QUESTIONS
from laptime.store.schema import decode, encode, record_schema, schema_text

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[2]
KEPT = sorted((ROOT / "tests" / "recordings").glob("schema-*/*.json.gz"))


@pytest.fixture(scope="module")
def faults() -> Callable[[object], list[str]]:
    """Return a function that lists what a validator finds wrong, each with its place."""
    kind = jsonschema.Draft202012Validator
    kind.check_schema(record_schema())
    validator = kind(record_schema())
    return lambda tree: [f"{each.json_path}: {each.message}" for each in validator.iter_errors(tree)]


def written(made):
    return json.loads(encode(made))


def test_the_file_in_the_docs_is_that_of_the_types():
    """`make schema` writes it again."""
    assert schema_text() == (ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", KEPT, ids=[place.name.split(".")[0] for place in KEPT])
def test_a_real_record_is_valid(place, faults):
    """The kept ones, as they are written now: a race, whole trainings, inference, why and a profile."""
    assert faults(written(decode(gzip.decompress(place.read_bytes()), place.name))) == []


def test_a_record_of_every_question_is_valid(faults):
    """With every kind of failure that a page knows."""
    made = {name: json.loads(data) for name, data in literals().items()}
    assert {row.name for row in QUESTIONS} == {tree["question"] for tree in made.values()}
    assert {name: faults(tree) for name, tree in made.items() if faults(tree)} == {}


def test_a_number_that_is_not_finite_is_valid_as_it_is_written(faults):
    assert faults(written(with_losses(2.3, nan))) == []


def test_an_answer_of_a_question_that_a_package_added_is_any_object(faults):
    assert faults({**written(record()), "question": "where", "answer": {"here": True}}) == []


@pytest.mark.parametrize(
    ("place", "path", "value"),
    [
        ("$.schema", ("schema",), 1),
        ("$.id", ("id",), "../r-2026-11-20-a1b2"),
        ("$.status", ("status",), "won"),
        ("$.answer.comparisons", ("answer", "comparisons"), 3),
        ("$.lanes[0].step_ms", ("lanes", 0, "step_ms"), "92"),
        ("$.lanes[0].heats[0].heat.windows[0].steps", ("lanes", 0, "heats", 0, "heat", "windows", 0, "steps"), 0),
        ("$.elapsed_s", ("elapsed_s",), -1),
        ("$.elapsed_s", ("elapsed_s",), {"missing": "I forgot"}),
    ],
)
def test_what_laptime_refuses_is_not_valid(place, path, value, faults):
    """The validator names the place."""
    tree = written(record())
    held = tree
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    assert [fault.partition(":")[0] for fault in faults(tree)] == [place]
