"""Labels of records, and the choices of `laptime list`."""

from __future__ import annotations

import json

import pytest

FAST = ("--heats", "1", "--budget", "5s", "--quiet")


@pytest.fixture(scope="module")
def labelled(shared_house):
    """Three records: an older and a newer one of a label with a slash, and one without a label."""
    made = shared_house.done("race", "cifar-cnn", "fake/cpu", "--label", "fix/loader", "--json", *FAST).json
    trained = shared_house.done("train", "cifar-mlp", "fake/cpu", "--laps", "1", "--json", "--quiet").json
    card = json.loads(json.dumps(made))
    card["ask"]["what"] = card["workload"]["name"] = "cifar-mlp"
    card["lanes"][0] |= {"name": "fake/cuda:0/best", "device": {**card["lanes"][0]["device"], "kind": "cuda"}}
    shared_house.ids = []
    for day, record in enumerate((made, card, trained)):
        identity = f"r-2026-11-2{day}-aaaa"
        kept = {**record, "id": identity, "started": f"2026-11-2{day}T10:00:00+00:00"}
        (shared_house.home / "records" / f"{record['id']}.json").unlink(missing_ok=True)
        (shared_house.home / "records" / f"{identity}.json").write_text(json.dumps(kept))
        shared_house.ids.append(identity)
    return shared_house


def listed(house, *words):
    return [each["id"] for each in house.done("list", *words, "--json").json]


def test_a_label_names_the_newest_record_that_has_it(labelled):
    assert labelled.ids[1] == labelled.done("show", "@fix/loader", "--json").json["id"]


def test_a_record_and_its_row_keep_the_label(labelled):
    assert labelled.done("show", labelled.ids[0], "--json").json["ask"]["label"] == "fix/loader"
    assert [each["label"] for each in labelled.done("list", "--json").json] == [None, "fix/loader", "fix/loader"]
    assert "@fix/loader" in labelled.done("list").out


def test_a_label_that_there_is_not_names_the_nearest(labelled):
    answer = labelled.done("show", "@fix/loder", code=2)
    assert "no record has the label 'fix/loder'" in answer.err
    assert "Nearest: @fix/loader." in answer.err


@pytest.mark.parametrize("label", ["", "  ", "x" * 101, "a\tb", "\x1b[31m"])
def test_a_label_that_cannot_be_typed_is_refused(house, label):
    answer = house.done("race", "cifar-cnn", "fake/cpu", "--label", label, code=2)
    assert "--label" in answer.err
    assert "\x1b" not in answer.err
    assert house.files() == []


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ((), [2, 1, 0]),
        (("--workload", "cifar-mlp"), [2, 1]),
        (("--label", "fix/loader"), [1, 0]),
        (("--lane", "fake/cpu"), [2, 0]),
        (("--lane", "cuda/best"), [1]),
        (("--lane", "cuda:0"), [1]),
        (("--lane", "best"), []),
        (("--device", "gpu"), [1]),
        (("--device", "cpu", "--question", "race"), [0]),
        (("--question", "train"), [2]),
        (("--since", "2026-11-21"), [2, 1]),
        (("--since", "2026-11-21 10:01"), [2]),
        (("--status", "interrupted"), []),
        (("--limit", "1"), [2]),
        (("--limit", "0"), [2, 1, 0]),
    ],
)
def test_a_list_shows_what_fits(labelled, words, places):
    assert [labelled.ids[each] for each in places] == listed(labelled, *words)


def test_a_short_list_says_how_many_more_there_are(labelled):
    out = labelled.done("list", "--limit", "1").out
    assert "2 older records not shown: --limit 0 shows all." in out
    assert "not shown" not in labelled.done("list").out


def test_no_record_that_fits_is_no_empty_store(labelled):
    assert "No record fits all of these options" in labelled.done("list", "--device", "tpu").out


@pytest.mark.parametrize("words", [("--since", "yesterday"), ("--limit", "-1"), ("--device", "gpus")])
def test_a_choice_that_cannot_be_is_refused(house, words):
    assert words[1] in house.done("list", *words, code=2).err


def test_a_shell_completes_labels(labelled):
    answer = labelled.run(
        env={"_LAPTIME_COMPLETE": "bash_complete", "COMP_WORDS": "laptime show @f", "COMP_CWORD": "2"}
    )
    assert "@fix/loader" in answer.out
