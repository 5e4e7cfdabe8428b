"""The shape of a record: what is written is read again, and what cannot be read says where and why."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from math import inf, isnan, nan
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from store_records import record, records, with_losses

from laptime.api.showing import View, as_text
from laptime.model.errors import RecordError
from laptime.model.frameworks import upgrade_command
from laptime.model.record import SCHEMA
from laptime.store.schema import UPGRADES, decode, encode, upgrade

KNOWN = "race, why, watch, tune, verdict, sweep, scale, full, infer, profile"


def tree():
    return json.loads(encode(record()))


def read(changed):
    return decode(json.dumps(changed).encode(), "a.json")


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(records)
def test_any_record_is_read_as_it_was_written(any_record):
    """Nothing of a result may be lost or changed by keeping it."""
    assert any_record == decode(encode(any_record), "a.json")


@pytest.mark.long
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(records)
def test_any_record_is_strict_json(any_record):
    """Other programs need not know NaN or Infinity, which JSON has not."""

    def refuse(name):
        raise AssertionError(name)

    assert any_record.id == json.loads(encode(any_record), parse_constant=refuse)["id"]


def test_the_shape_is_the_one_that_is_promised():
    """Programs that read `--json` rely on these names."""
    lane = tree()["lanes"][0]
    assert {"schema", "tool", "id", "started", "question", "ask", "machine", "workload"} <= tree().keys()
    assert {"lanes", "answer", "findings", "overhead"} <= tree().keys()
    assert {"name", "framework", "device", "settings", "status", "reason", "step_ms", "lap_s"} <= lane.keys()
    assert {
        "items_per_s",
        "first_step_ms",
        "startup_s",
        "peak_memory_bytes",
        "parity",
        "heats",
    } <= lane.keys()
    assert lane["energy_j_per_lap"] == {"missing": "no sensor"}
    assert {"median", "low", "high", "p95"} == lane["step_ms"].keys()


KEPT = sorted((Path(__file__).parents[1] / "recordings").glob("schema-*/*.json.gz"))


@pytest.mark.parametrize("place", KEPT, ids=[f"{place.parent.name}-{place.name.split('.')[0]}" for place in KEPT])
def test_a_record_of_an_older_schema_is_shown_as_it_was_agreed(place):
    """With all details, but for what laptime itself took, which schema 1 never showed.

    Written again it is of this schema and holds the same. LAPTIME_REGOLD=1 writes the page again.
    """
    old = gzip.decompress(place.read_bytes())
    assert f"schema-{json.loads(old)['schema']}" == place.parent.name
    made = decode(old, place.name)
    page = place.with_name(place.name.replace(".json.gz", ".txt"))
    told = as_text(made, View(details=True)).splitlines()
    shown = [line for line in told if not line.startswith("laptime itself took")]
    if os.environ.get("LAPTIME_REGOLD") == "1":
        page.write_text("\n".join(shown) + "\n", encoding="utf-8")
    assert shown == page.read_text(encoding="utf-8").splitlines()
    assert decode(encode(made), place.name) == made
    assert json.loads(encode(made))["schema"] == SCHEMA


OLD_WORD = "not fore" + "told: "  # what is not predicted has its reason behind it


def test_nothing_of_a_record_of_an_older_schema_is_lost():
    """Every figure and text of the old file is in the new one; a heat's process knows what its lane alone did."""
    for place in KEPT:
        old = json.loads(gzip.decompress(place.read_bytes()))
        new = json.loads(encode(decode(gzip.decompress(place.read_bytes()), place.name)))
        gone = {("schema", old["schema"]), ("full", None), ("infer", None), ("why", None)}
        lost = {leaf for leaf in leaves(old) - leaves(new) if not str(leaf[1]).startswith(OLD_WORD)}
        assert lost <= gone, place.name


SECOND = KEPT[-1].parent / "race.json.gz"


@pytest.mark.parametrize(
    ("expected", "first_step_ms"), [(300.0, 300.0), (None, None), (None, {"missing": "not a finite number: nan"})]
)
def test_a_first_step_of_schema_2_is_the_same_in_ns(expected, first_step_ms):
    assert decode(with_first_step(first_step_ms), "a.json").lanes[0].heats[0].first_step_ms == expected


@pytest.mark.parametrize("first_step_ms", [1e300, "300", {"missing": "I forgot"}, [300.0]])
def test_a_first_step_of_schema_2_that_no_laptime_wrote_is_refused(first_step_ms):
    """An upgrade meets what hands have changed, and ends in no traceback."""
    with pytest.raises(RecordError, match="not of the shape of schema 2"):
        decode(with_first_step(first_step_ms), "a.json")


def with_first_step(first_step_ms):
    """Return a file of schema 2 with another first step in its first heat."""
    tree = json.loads(gzip.decompress(SECOND.read_bytes()))
    assert tree["schema"] == 2
    tree["lanes"][0]["heats"][0]["first_step_ms"] = first_step_ms
    return json.dumps(tree).encode()


def leaves(tree, name=""):
    """Return each value of a JSON tree with the name of its field."""
    if isinstance(tree, dict):
        return {leaf for key, part in tree.items() for leaf in leaves(part, "steady" if key == "class" else key)}
    if isinstance(tree, list):
        return {leaf for part in tree for leaf in leaves(part, name)}
    if name == "first_step_ns" and tree is not None:
        return {("first_step_ms", tree / 1e6)}
    return {(name, tree)}


def test_a_heat_holds_its_process():
    result = tree()["lanes"][0]["heats"][0]
    assert (result["steady"], result["heat"]["process"]["status"]) == ("flat", "ok")


@pytest.mark.parametrize("lost", [nan, inf, -inf])
def test_a_loss_that_is_no_number_comes_back(lost):
    """A lane that diverged cannot win, but its record must be readable."""
    kept = decode(encode(with_losses(2.3, lost)), "a.json").lanes[0].heats[0].heat.losses
    assert kept[0] == 2.3
    assert lost == kept[1] or (isnan(lost) and isnan(kept[1]))


def test_a_loss_that_is_no_number_says_so_in_json():
    """Absence has its reason in other people's programs too."""
    losses = json.loads(encode(with_losses(2.3, nan)))["lanes"][0]["heats"][0]["heat"]["losses"]
    assert losses == [2.3, {"missing": "not a finite number: nan"}]


def test_a_newer_schema_says_what_is_needed():
    """A record from a newer laptime is not damaged, and must not be called so."""
    with pytest.raises(RecordError) as caught:
        read({**tree(), "schema": SCHEMA + 1})
    expected = f"a.json was written by a newer laptime (schema {SCHEMA + 1}; this one reads up to {SCHEMA})"
    assert expected == caught.value.says
    assert upgrade_command() in caught.value.hint


def test_a_newer_schema_of_another_shape_says_the_same():
    """The number is looked at before anything else."""
    with pytest.raises(RecordError, match="newer laptime"):
        read({"schema": SCHEMA + 1, "racers": []})


def test_an_older_schema_is_brought_up_step_by_step():
    """Each upgrade knows only its own step, and none is left out."""
    steps = (lambda old: {**old, "b": old["a"] + 1}, lambda old: {**old, "c": old["b"] + 1})
    assert upgrade({"schema": 1, "a": 1}, "a.json", 3, steps) == {"schema": 3, "a": 1, "b": 2, "c": 3}
    assert upgrade({"schema": 2, "b": 5}, "a.json", 3, steps) == {"schema": 3, "b": 5, "c": 6}


def test_an_older_record_that_was_edited_is_damaged_not_a_crash():
    """An upgrade meets what hands have changed as well."""
    with pytest.raises(RecordError, match="not of the shape of schema 1"):
        upgrade({"schema": 1}, "a.json", 2, (lambda old: {**old, "b": old["a"]},))


def test_there_is_an_upgrade_for_every_older_schema():
    """A schema may not be raised without a way from the one before."""
    assert len(UPGRADES) == SCHEMA - 1


def without_steady(**instead):
    made = tree()
    heat = made["lanes"][0]["heats"][0]
    del heat["steady"]
    heat.update(instead)
    return made


def with_value(value, *path):
    made = tree()
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("expected", "changed"),
    [
        ("$: object missing required field `machine`", {k: v for k, v in tree().items() if k != "machine"}),
        ("$.lanes[0].heats[0]: object missing required field `steady`", without_steady()),
        ("$.lanes[0].heats[0].steady: expected `str`, got `int`", with_value(3, "lanes", 0, "heats", 0, "steady")),
        (
            f"$.question: no question 'where'; known: {KNOWN}",
            with_value("where", "question"),
        ),
        (
            f"$.question: no question '3'; known: {KNOWN}",
            with_value(3, "question"),
        ),
        ("$.answer: expected `object`, got `null`", with_value(None, "answer")),
        ("$.answer.comparisons: expected `array`, got `int`", with_value(3, "answer", "comparisons")),
        ("$.lanes[0].step_ms: expected `object | null`, got `str`", with_value("92", "lanes", 0, "step_ms")),
        ("$.lanes[0].status: invalid enum value 'won'", with_value("won", "lanes", 0, "status")),
        ("$.lanes: expected `array`, got `int`", with_value(3, "lanes")),
        ("$.schema: expected the number of a schema", with_value("1", "schema")),
        ("$.schema: expected the number of a schema", with_value(True, "schema")),
        ("$.schema: expected the number of a schema", with_value(0, "schema")),
        ("$.schema: expected the number of a schema", []),
        ("$.schema: expected the number of a schema", {}),
    ],
)
def test_a_hand_edited_record_says_where_and_what_was_expected(expected, changed):
    """A person who edits a file by hand wants to repair it."""
    with pytest.raises(RecordError) as caught:
        read(changed)
    assert f"a.json cannot be read as a record: {expected}" == caught.value.says
    assert caught.value.hint


@pytest.mark.parametrize("data", [b"", b"{", b"not json", b"\xff\xfe", b"[" * 100_000, b'{"schema": NaN}', b"null"])
def test_what_is_no_json_is_a_record_error(data):
    """No file's content may end in a traceback."""
    with pytest.raises(RecordError, match=r"a\.json cannot be read as a record"):
        decode(data, "a.json")


def test_a_truncated_record_is_a_record_error_wherever_it_ends():
    """A copy that was broken off is recognized, whatever its length."""
    whole = encode(record())
    for length in range(0, len(whole), 37):
        with pytest.raises(RecordError):
            decode(whole[:length], "a.json")


def test_a_key_that_nobody_knows_is_passed_over():
    """A later laptime may add keys without raising the schema."""
    assert record() == read({**tree(), "mood": "good"})


def test_a_lane_that_failed_comes_back():
    """A DNF is a result like any other."""
    lane = record().lanes[0]
    failed = replace(record(), lanes=(replace(lane, status="dnf", step_ms=None, lap_s=None, heats=()),))
    assert failed == decode(encode(failed), "a.json")


@pytest.mark.parametrize(
    ("number", "is_refused"),
    [
        (b"0.0019999999999999996", False),
        (b"-0.00019999999999999996e2", False),
        (b"9223372036854775809", True),
        (b"-92233720368547758080", True),
        (b"0.25,9223372036854775809", True),
    ],
)
def test_a_whole_number_of_more_than_64_bits_is_refused_and_a_small_figure_is_not(number, is_refused):
    """Both have 19 digits in a row."""
    with pytest.raises(RecordError) as error:
        decode(b'{"a":[1,' + number + b"]}", "a file")
    assert ("more than 64 bits" in error.value.says) is is_refused
    assert ("expected the number of a schema" in error.value.says) is not is_refused
