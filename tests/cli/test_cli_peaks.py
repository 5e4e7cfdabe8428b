"""`laptime devices --measure` on the fake back end: measured, kept, shown again, and held against a race's lanes."""

from __future__ import annotations

import json
import re
import shutil
import signal

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

MEASURE = ("devices", "--measure", "--framework", "fake")
FAKE_CARD = {"fp32": 5e13, "tf32": 4e14, "bf16": 8e14, "fp16": 8e14, "copy": 3e12}


def peaks_files(house):
    return sorted((house.home / "peaks").glob("*.json"))


def limits_of(rows, device):
    (row,) = [row for row in rows if (row["framework"], row["name"]) == ("fake", device)]
    return row["limits"]


@pytest.fixture(scope="module")
def measured(shared_house):
    """Measure once in the house that this module shares."""
    shared_house.said = shared_house.done(*MEASURE)
    return shared_house


def test_every_usable_device_is_measured_and_kept(measured):
    """A file each; progress on stderr says which is measured, and when it ends once a device's turn has shown that."""
    assert len(peaks_files(measured)) == 2
    first, second = measured.said.err.splitlines()
    assert first == "1 of 2: fake/cpu (fp32, tf32, bf16, fp16, copy)"
    limits = "(fp32, tf32, bf16, fp16, copy)"
    as_fast_as_the_first = re.fullmatch(rf"2 of 2: fake/cuda:0 {re.escape(limits)}; about (\d) s to go", second)
    assert int(as_fast_as_the_first[1]) < 8
    assert "500 GFLOP/s" in measured.said.out
    assert "3.00 TB/s" in measured.said.out
    assert "fake 1, product of 8,192 rows" in measured.said.out


@pytest.mark.long
def test_what_was_measured_is_kept_when_the_rest_is_interrupted(house):
    process = house.start(*MEASURE)
    house.read_until(process, "2 of 2")
    process.send_signal(signal.SIGINT)
    assert house.finish(process).code == 130
    assert len(peaks_files(house)) == 1
    assert "500 GFLOP/s" in house.done("devices", "--framework", "fake").out


def without_use(page):
    """Leave out what the machine had to do at that moment."""
    return [line for line in page.splitlines() if not line.startswith(("  now ", "memory "))]


def test_what_was_measured_is_shown_without_measuring(measured):
    """The same rows, nothing on stderr, and no new file."""
    before = [place.stat().st_mtime_ns for place in peaks_files(measured)]
    answer = measured.done("devices", "--framework", "fake")
    assert answer.err == ""
    assert without_use(answer.out) == without_use(measured.said.out)
    assert before == [place.stat().st_mtime_ns for place in peaks_files(measured)]


def test_other_programs_get_the_same_rates(measured):
    """Each usable device has its limits; one that is out of order has none."""
    rows = measured.done("devices", "--framework", "fake", "--json").json
    found = limits_of(rows, "cuda:0")
    assert {limit: peak["best_per_s"] for limit, peak in found["peaks"].items()} == pytest.approx(FAKE_CARD, rel=1e-3)
    assert (found["device"], found["absent"]) == ("fake cuda:0", {})
    (broken,) = [row for row in rows if (row["framework"], row["name"]) == ("fake", "cuda:1")]
    assert "limits" not in broken


def test_a_race_then_says_how_near_each_lane_comes(measured):
    """By its own precision's peak, in the record and on the page."""
    record = measured.raced("cifar-cnn", "fake/cpu", "fake/cuda/fastest", "--heats", "2")
    (first, second) = [lane["roofline"] for lane in record["lanes"]]
    flops = first["work"]["flops"]
    assert flops == second["work"]["flops"] > 1e9
    assert first["flops_per_s"] == pytest.approx(flops / 0.1, rel=1e-6)
    assert first["product_share"] == pytest.approx(flops / 0.1 / 5e11, rel=1e-3)
    assert (first["precision"], second["precision"]) == ("fp32", "bf16")
    assert second["copy_share"] == pytest.approx(second["work"]["bytes"] / 0.0025 / 3e12, rel=1e-3)
    assert second["work"]["bytes"] < first["work"]["bytes"]
    page = measured.done("show", record["id"], "--details").out
    assert "limit: fake/cpu " in page
    assert "GFLOP/s fp32; " in page


def test_a_lane_that_trains_nothing_has_no_limit(measured):
    """Its loader is no step."""
    record = measured.raced("cifar-cnn", "fake/cpu/input=only", "fake/cpu", "--heats", "1")
    assert [lane["roofline"] is None for lane in record["lanes"]] == [True, False]
    assert record["lanes"][0]["absent"] == {"roofline": {"missing": "this lane trains nothing"}}
    assert "fake/cpu/input=only - (this lane trains nothing)" in measured.done("show", record["id"], "--details").out


def test_a_race_where_nothing_was_measured_says_nothing(house):
    """No line, no reason in the record: nobody asked."""
    record = house.raced("cifar-cnn", "fake/cpu", "--heats", "1")
    assert (record["lanes"][0]["roofline"], record["lanes"][0]["absent"]) == (None, {})
    assert "limit" not in house.done("show").out


def test_a_limit_that_failed_is_absent_with_its_reason(house):
    """So are those that a child did not live to tell; the others are kept, and a lane in that precision has none."""
    house.script('[peaks]\n"cpu/tf32" = "memory"\n"cpu/fp16" = "kill"')
    answer = house.done(*MEASURE, "--json")
    found = limits_of(answer.json, "cpu")
    assert sorted(found["peaks"]) == ["bf16", "fp32"]
    assert found["absent"] == {
        "tf32": {"missing": "fake: out of memory: planted: 64 GiB asked, 24 GiB there"},
        "fp16": {"missing": "fake: its process ended: SIGKILL"},
        "copy": {"missing": "fake: its process ended: SIGKILL"},
    }
    assert (
        "(fake processor, fp16: fake: its process ended: SIGKILL)" in house.done("devices", "--framework", "fake").out
    )
    lane = house.raced("cifar-cnn", "fake/cpu", "--heats", "1")["lanes"][0]
    assert "in a copy is not known: fake: its process ended: SIGKILL" in lane["absent"]["roofline"]["missing"]


@pytest.mark.long
def test_a_damaged_file_is_said_and_measured_anew(house, measured):
    """A race reports it too, because the device was measured; then all is well again."""
    shutil.copytree(measured.home / "peaks", house.home / "peaks")
    (place, _) = peaks_files(house)
    place.write_text("{")
    assert json.loads(house.race("fake/cpu", "--heats", "1", "--json").out)["lanes"][0]["absent"]["roofline"]
    shown = " ".join(house.done("devices", "--framework", "fake").out.split())
    assert (
        "- (fake processor: the file of its peaks is damaged; laptime devices --measure measures them again)" in shown
    )
    answer = house.done(*MEASURE)
    assert answer.err.startswith("fake processor: the file of its peaks is damaged;")
    assert without_use(house.done("devices", "--framework", "fake").out) == without_use(answer.out)


def test_peaks_that_cannot_be_kept_are_shown_all_the_same(house):
    """With the reason, the way out, and the exit code of what was not saved."""
    house.home.mkdir()
    (house.home / "peaks").write_text("a file is where a folder is needed")
    answer = house.run(*MEASURE, "-q")
    assert answer.code == 3
    assert "500 GFLOP/s" in answer.out
    assert "could not be saved" in answer.err
    assert "LAPTIME_HOME" in answer.err


def test_nothing_measured_yet_is_a_line_with_the_command(house):
    """And --json has the reason."""
    assert "What each can do at most: laptime devices --measure" in house.done("devices", "--framework", "fake").out
    rows = house.done("devices", "--framework", "fake", "--json").json
    assert "not measured" in limits_of(rows, "cpu")["missing"]


def test_a_framework_that_is_not_there_is_refused(house):
    """With those that are."""
    answer = house.run("devices", "--framework", "torhc")
    assert answer.code == 2
    assert "--framework torhc: it is not installed here" in answer.err
    assert "fake" in answer.err
