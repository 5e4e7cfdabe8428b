"""`laptime report` as people type it: every format, where it is written, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import re
import resource
import xml.etree.ElementTree as ET

import pytest


@pytest.fixture(scope="module")
def reported(shared_house):
    """One race and one whole training on fake lanes, which need no framework."""
    shared_house.done("race", "cifar-cnn", "fake/cpu", "fake/cuda/best", "--heats", "3", "-q")
    shared_house.done("train", "cifar-cnn", "fake/cpu", "--laps", "2", "--steps-per-lap", "5", "-q")
    return shared_house


def by_question(house, question):
    return next(row["id"] for row in house.run("list", "--json").json if row["question"] == question)


def test_a_file_of_no_format_is_refused(reported, tmp_path):
    """A page of HTML that is called boss.pdf opens nowhere."""
    answer = reported.done("report", "-o", str(tmp_path / "boss.pdf"), code=2)
    assert "boss.pdf' ends with .pdf, and no report does" in answer.err
    reported.done("report", "-o", str(tmp_path / "charts.svg"))
    assert [each.is_dir() for each in tmp_path.iterdir()] == [True]


def test_a_report_is_one_file_that_asks_for_nothing(reported, tmp_path):
    place = tmp_path / "new" / "race.html"
    answer = reported.run("report", by_question(reported, "race"), "-o", str(place))
    assert (answer.code, answer.out, answer.err) == (0, "", f"written: {place}\n")
    html = place.read_text(encoding="utf-8")
    assert "src=" not in html
    assert re.findall(r'href="(?!data:)', html) == []
    assert "fake/cuda:0/best is 20.0x as fast as fake/cpu" in html
    for title in ("A lap on each lane", "Steps of fake/cpu", "Equal work: the losses of the proof", "To repeat it"):
        assert title in html
    assert "laptime race cifar-cnn fake/cpu fake/cuda/best --heats 3" in html
    assert [each.name for each in place.parent.iterdir()] == ["race.html"]


def test_several_records_are_one_page(reported):
    ids = [by_question(reported, question) for question in ("race", "full")]
    html = reported.run("report", *ids, "-o", "-").out
    assert html.count('<section class="record"') == 2
    assert "Loss of each lap" in html


@pytest.mark.long
def test_without_a_name_the_file_is_named_by_the_record(reported, tmp_path):
    identity = by_question(reported, "race")
    reported.done("report", identity, cwd=tmp_path)
    reported.done("report", identity, "--format", "svg", cwd=tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [f"{identity}-svg", f"{identity}.html"]
    pictures = sorted((tmp_path / f"{identity}-svg").iterdir())
    assert pictures[1].name.endswith("-02-a-lap-on-each-lane.svg")
    assert {ET.parse(each).getroot().tag for each in pictures} == {"{http://www.w3.org/2000/svg}svg"}


def test_a_card_and_a_badge_show_the_answer(reported, tmp_path):
    """SVG by default, opaque and titled; PNG by its name; one record, and only one with a number."""
    identity = by_question(reported, "race")
    card = ET.fromstring(reported.run("report", identity, "--card", "-o", "-").out)
    assert (card.get("width"), card.get("height")) == ("1200", "630")
    said = " ".join(each.text or "" for each in card.iter() if each.tag.endswith("text"))
    for words in ("20.0x", "fake/cuda:0/best is faster than fake/cpu", identity, "race of cifar-cnn"):
        assert words in said
    assert card.find("{*}rect").get("fill") == "#ffffff"
    dark = ET.fromstring(reported.run("report", identity, "--card", "--dark", "-o", "-").out)
    assert dark.find("{*}rect").get("fill") == "#16161a"
    badge = reported.run("report", identity, "--badge", "-o", "-").out
    assert "laptime: 20.0x" in ET.fromstring(badge).find("{*}title").text
    reported.done("report", identity, "--badge", cwd=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [f"{identity}-badge.svg"]
    for words, said in (
        (["--card", "-o", "card.gif"], "Name a .svg or a .png file."),
        (["--dark"], "dark is for a card"),
        (["--card", "--format", "csv"], "a card shows one record"),
    ):
        assert said in reported.done("report", identity, *words, code=2).err
    assert "shows one record" in reported.done("report", identity, identity, "--badge", code=2).err


def test_csv_has_every_number_that_is_drawn(reported):
    identity = by_question(reported, "race")
    record = reported.run("show", identity, "--json").json
    rows = list(csv.DictReader(io.StringIO(reported.run("report", identity, "--format", "csv", "-o", "-").out)))
    laps = {row["name"]: float(row["y"]) for row in rows if row["figure"] == "A lap on each lane" and row["low"]}
    assert laps == {lane["name"].removesuffix("/as-written"): lane["lap_s"]["median"] for lane in record["lanes"]}
    steps = [float(row["y"]) for row in rows if row["figure"] == "Steps of fake/cpu"]
    windows = [window for result in record["lanes"][0]["heats"] for window in result["heat"]["windows"]]
    assert steps == [ns / 1e6 for window in windows for ns in window["step_ns"]]


def test_markdown_and_json_say_the_same(reported, tmp_path):
    identity = by_question(reported, "race")
    markdown = reported.run("report", identity, "-o", "-", "--format", "md").out
    assert markdown.startswith("## cifar-cnn on ")
    assert re.search(r"^fake/cpu +█+ +50\.0 s", markdown, re.MULTILINE)
    place = tmp_path / "race.json"
    reported.done("report", identity, "-o", str(place))
    assert json.loads(place.read_bytes()) == reported.run("show", identity, "--json").json


@pytest.mark.long
def test_a_terminal_has_bars_and_sparklines(reported):
    answer = reported.run("show", by_question(reported, "full"), "--charts", env={"COLUMNS": "60"})
    assert max(map(len, answer.out.splitlines())) <= 60
    assert "Loss of each lap" in answer.out
    assert "█" in answer.out
    plain = reported.run("show", "latest", "--charts", env={"PYTHONIOENCODING": "ascii", "COLUMNS": "40"})
    assert plain.out.isascii()
    assert "#" in plain.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("report", "r-none"), "there is no record 'r-none'"),
        (("report", "latest", "--format", "pdf"), "'pdf' is not one of 'html', 'md', 'csv', 'svg', 'png', 'json'"),
        (("report", "latest", "--format", "svg", "-o", "-"), "pictures are several files, and cannot be printed"),
    ],
)
def test_what_cannot_be_reported_is_refused(reported, words, says):
    answer = reported.run(*words)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


@pytest.mark.long
def test_a_full_disk_leaves_nothing_half_written(reported, tmp_path):
    def full_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))

    place = tmp_path / "race.html"
    answer = reported.run("report", by_question(reported, "race"), "-o", str(place), preexec_fn=full_disk)
    assert answer.code == 3
    assert f"{place} could not be written" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_without_a_browser_the_address_is_printed(reported, tmp_path):
    place = tmp_path / "race.html"
    answer = reported.run("report", "latest", "-o", str(place), "--open", env={"BROWSER": "false", "DISPLAY": ""})
    assert answer.code == 0
    assert f"no browser was found; open {place.as_uri()}" in answer.err
