"""`laptime history`: a lane over time from real records of the fake back end."""

from __future__ import annotations

import json
import sys

import pytest

SPREAD = "spread = 0.01\n"


@pytest.fixture(scope="module")
def kept(shared_house):
    """One race, copied to six days: slower from the third on, other versions on the fourth, a machine on the fifth."""
    house = shared_house
    house.script(f'["fake/cpu"]\nstep_ms = 100.0\n{SPREAD}')
    house.done("race", "cifar-cnn", "fake/cpu", "fake/cuda/best", "--heats", "3", "--quiet")
    first = house.kept()
    house.files()[0].unlink()
    house.ids = []
    for day in range(1, 7):
        record = json.loads(json.dumps(first))
        record["id"], record["started"] = f"r-2026-11-0{day}-aaaa", f"2026-11-0{day}T10:00:00+00:00"
        lane = record["lanes"][0]
        for heat in lane["heats"]:
            heat["step_ms"] *= 1.2 if day >= 3 else 1
        lane["framework"] = {"fake": "2" if day >= 4 else "1"}
        if day == 5:
            record["machine"]["processor"]["name"] = "another processor"
        record["ask"]["label"] = "main" if day == 6 else None
        (house.home / "records" / f"{record['id']}.json").write_text(json.dumps(record))
        house.ids.append(record["id"])
    return house


def followed(house, *words):
    return house.done("history", *words, "--json").json


def test_a_lane_has_a_point_a_record_the_oldest_first(kept):
    found = followed(kept, "cifar-cnn", "fake/cpu")
    assert kept.ids == [each["id"] for each in found["points"]]
    assert (found["lane"], found["others"]) == ("fake/cpu/as-written", ["fake/cuda:0/best"])
    assert [each["label"] for each in found["points"]] == [None] * 5 + ["main"]


def test_each_is_compared_with_the_last_on_its_machine(kept):
    """The third is slower; the fifth is the first of its machine, and the sixth is compared with the fourth."""
    points = followed(kept, "cifar-cnn", "fake/cpu")["points"]
    verdicts = [each["change"] and each["change"]["verdict"] for each in points]
    same = "not distinguishable"
    assert verdicts == [None, same, "slower", same, None, same]
    assert points[2]["change"]["ratio"] == pytest.approx(1 / 1.2, rel=0.02)


def test_what_changed_is_marked(kept):
    marks = [each["marks"] for each in followed(kept, "cifar-cnn", "fake/cpu")["points"]]
    assert marks[:4] == [[], [], [], ["fake 2"]]
    assert marks[4] == ["processor another processor"]


def test_the_page_is_newest_first_and_short(kept):
    out = kept.done("history", "cifar-cnn", "fake/cpu", env={"COLUMNS": "120"}).out
    lines = out.splitlines()
    assert lines[0].startswith("cifar-cnn on fake/cpu: ")
    assert "in the newest of 6 records." in lines[0]
    assert "Last change beyond noise: 1.20x slower on 2026-11-03 (r-2026-11-03-aaaa)." in out
    assert [line.split()[2] for line in lines if line.startswith("  2026-")] == kept.ids[::-1]
    assert "██▁▁▁▁" in out
    assert "Other lanes: fake/cuda:0/best." in out
    assert len(lines) <= 40


def test_no_line_is_wider_than_the_page(kept):
    for width in ("40", "80"):
        lines = kept.done("history", "cifar-cnn", env={"COLUMNS": width}).out.splitlines()
        assert (max(map(len, lines)) <= int(width), len(lines) <= 40) == (True, True)


def test_a_limit_takes_the_newest(kept):
    found = followed(kept, "cifar-cnn", "--limit", "2")
    assert (kept.ids[4:], 4) == ([each["id"] for each in found["points"]], found["older"])
    assert "4 older records not shown" in kept.done("history", "cifar-cnn", "--limit", "2").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("cifar-cn",), "did you mean cifar-cnn?"),
        (("cifar-cnn", "fake"), "'fake' may be 2 lanes: "),
        (("cifar-cnn", "mps"), "its lanes: fake/c"),
        (("cifar-cnn", "--question", "infer"), "no record of infer trained cifar-cnn"),
        (("cifar-cnn", "--limit", "-1"), "--limit"),
    ],
)
def test_what_has_no_history_is_refused(kept, words, says):
    assert says in kept.done("history", *words, code=2).err


def test_a_device_without_settings_is_its_lane_as_written(house):
    """As where a lane is raced."""
    house.done("race", "cifar-cnn", "fake/cpu/best", "fake/cpu", "--heats", "1", "-q")
    assert followed(house, "cifar-cnn", "cpu")["lane"] == "fake/cpu/as-written"


def test_a_file_is_its_one_training(house):
    """`laptime race my.py` finds the function on its own, and so does the history of what it left."""
    house.done("race", "cifar-cnn", "fake/cpu", "--heats", "1", "--quiet")
    record = house.kept()
    house.files()[0].unlink()
    for number, function in enumerate(("training", "training", "other")):
        record["id"], record["workload"]["name"] = f"r-2026-11-01-000{number}", f"my.py:{function}"
        (house.home / "records" / f"{record['id']}.json").write_text(json.dumps(record))
        if number == 1:
            assert len(followed(house, "my.py")["points"]) == 2
    assert "name one: my.py:other, my.py:training" in house.done("history", "my.py", code=2).err


def test_a_script_that_was_only_watched_is_followed_by_its_watches(house, tmp_path):
    (tmp_path / "train.py").write_text("import laptime\nfor each in laptime.steps(range(60)):\n    sum(range(20000))\n")
    for _ in range(2):
        house.run("watch", sys.executable, str(tmp_path / "train.py"))
    found = followed(house, "train.py")
    assert (found["question"], len(found["points"])) == ("watch", 2)
    assert all(each["step_ms"]["median"] > 0 for each in found["points"])
    assert "a watch has no lane 'cpu'" in house.done("history", "train.py", "cpu", code=2).err
