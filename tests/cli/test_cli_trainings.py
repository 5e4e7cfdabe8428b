"""Several trainings of your own in one race: one real run, and what its page, its record and the list say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_trainings.py"
LANES = ("before", "after", "careless")


@pytest.fixture(scope="module")
def raced(torch_house):
    """The three trainings of the example, raced once: `after` does the same work as `before`, `careless` does not.

    Of two heats the interval is wide where others are busy, and a gate then says what it cannot rule out.
    """
    whats = [f"{EXAMPLE}:{each}" for each in LANES]
    answer = torch_house.race(*whats, "python/cpu", "--heats", "4", "--budget", "1s", "--fail-above", "2%", "--json")
    record = {"exit code": answer.code, **answer.json}
    page = torch_house.run("show", record["id"]).out
    return SimpleNamespace(record=record, whats=whats, page=page, err=answer.err)


@pytest.mark.long
def test_each_lane_trains_each_training(raced):
    lanes = raced.record["lanes"]
    assert [lane["name"] for lane in lanes] == [f"python/cpu/as-written of two_trainings.py:{each}" for each in LANES]
    assert [lane["training"] for lane in lanes] == [f"two_trainings.py:{each}" for each in LANES]
    assert (raced.record["exit code"], {lane["status"] for lane in lanes}) == (0, {"ok"})


@pytest.mark.long
def test_each_is_proven_against_its_own_reference(raced):
    """`careless` would differ from the first one's."""
    assert {lane["parity"]["status"] for lane in raced.record["lanes"]} == {"same"}
    references = [raced.record["reference"], *(each["reference"] for each in raced.record["others"])]
    losses = [tuple(each["exact"]["losses"]) for each in references]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.long
def test_two_trainings_are_compared_and_it_is_said_whether_their_work_is_the_same(raced):
    after, careless = raced.record["answer"]["comparisons"]
    assert after["reference"] == careless["reference"] == "python/cpu/as-written of two_trainings.py:before"
    assert after["ratio"] > 1.5
    assert after["same_work"] is True
    assert "its loss differs by" in careless["same_work"]["missing"]


@pytest.mark.long
def test_the_record_holds_what_to_type_for_each(raced):
    assert [raced.record["ask"]["what"], *(each["what"] for each in raced.record["others"])] == raced.whats
    assert [each["subject"]["function"] for each in raced.record["others"]] == ["after", "careless"]


@pytest.mark.long
def test_the_page_compares_trainings(raced):
    words = " ".join(raced.page.split())
    assert "two_trainings.py:after on python/cpu is " in words
    assert "two_trainings.py:before, two_trainings.py:after and two_trainings.py:careless on " in words
    assert "Each training as on its own: proven (5 steps against float64)." in words
    assert "two_trainings.py:after does the same work as two_trainings.py:before." in words
    assert "two_trainings.py:careless does other work than two_trainings.py:before: its loss differs by" in words
    assert any(f"Next: laptime why {what} python/cpu" in words for what in raced.whats)


@pytest.mark.long
def test_a_gate_compares_each_with_the_first(torch_house, raced):
    """`careless` does other work, and is judged all the same: both are faster."""
    assert "Gate passed: no lane is slower by more than 2 % for certain." in " ".join(raced.err.split())
    found = torch_house.run("compare", raced.record["id"], "--json").json
    assert [each["training"] for each in found["lanes"]] == [f"two_trainings.py:{each}" for each in LANES[1:]]
    assert [each["same_work"] is True for each in found["lanes"]] == [True, False]
    assert any("careless does other work" in each for each in found["warnings"])


@pytest.mark.long
def test_a_gate_fails_where_the_second_is_slower(torch_house, raced):
    """The same trainings the other way round. The race above, in which the second is faster, ended with 0."""
    assert raced.record["exit code"] == 0
    whats = raced.whats[1::-1]
    answer = torch_house.run("race", *whats, "python/cpu", "--heats", "4", "--budget", "1s", "--fail-above", "5%", "-q")
    is_reliable = "NOT RELIABLE" not in answer.out
    assert answer.code == (1 if is_reliable else 0), answer.out  # what others did comes first, and may come in a test
    line = "Gate FAILED: slower by more than 5 %: python/cpu of two_trainings.py:before (by at least "
    assert line in " ".join(answer.out.split())
    judged = torch_house.done("compare", "latest", "--fail-above", "5%", code=1)
    assert line in " ".join(judged.out.split())


@pytest.mark.long
def test_the_list_names_all_trainings(torch_house, raced):
    rows = torch_house.run("list", "--json").json
    row = next(row for row in rows if row["id"] == raced.record["id"])
    assert row["workload"] == " and ".join(f"two_trainings.py:{each}" for each in LANES)


def test_a_training_that_fails_ends_the_race_with_its_own_line(torch_house, tmp_path):
    file = tmp_path / "my.py"
    file.write_text("import laptime\n\n\ndef fails() -> laptime.Training:\n    return 1 / 0\n")
    answer = torch_house.run("race", f"{EXAMPLE}:before", f"{file}:fails", "python/cpu", "--heats", "1")
    assert (answer.code, answer.out) == (3, "")
    assert "my.py, line 5, in fails: ZeroDivisionError: division by zero" in answer.err
    assert answer.err.count("ZeroDivisionError") == 1


@pytest.mark.long
def test_other_questions_take_one_training(torch_house, raced):
    for command in (("why",), ("train", "--laps", "1"), ("infer",), ("profile",)):
        answer = torch_house.run(*command, *raced.whats[:2])
        assert answer.code == 2
        assert f"'{raced.whats[1]}' is a second training, and only laptime race takes several" in answer.err
