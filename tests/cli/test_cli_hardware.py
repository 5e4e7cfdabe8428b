"""`laptime forecast` end to end, from races on fake devices whose steps and loaders are planted."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from laptime.api import forecasts
from laptime.api.showing import View, as_text
from laptime.machine.hardware import known_efficiencies
from laptime.model.errors import ExitCode
from laptime.model.hardware import KnownDevice
from laptime.questions.forecast import run as forecast_checks
from laptime.questions.forecast import run as forecasting
from laptime.questions.forecast.lane import NO_PEAKS
from laptime.questions.forecast.page import card_sentence
from laptime.questions.forecast.reduce import CORES, REACHED
from laptime.questions.forecast.run import with_cards
from laptime.show.pages.words import rough
from laptime.store import schema

pytestmark = pytest.mark.usefixtures("known_references")

PLANTED = """
["fake/*"]
compute_ms = 400.0
spread = 0.002
"""
READS = """
["fake/*"]
loader_ms = 3200.0
compute_ms = 100.0
spread = 0.002
"""
MINE = """
[[device]]
name = "My card"
short = "my-card"
kind = "cuda"
architecture = "Ada"
fp32_tflops = 80.0
bandwidth_gb_s = 1000
memory_gb = 0.5
"""


FAKE_PER_S = 5e11  # what the fake processor does in products
T4 = forecasts.choose(["t4"])


def words_of(text):
    return " ".join(text.split())


@pytest.fixture
def raced(house, take_records_of):
    house.script(PLANTED)
    take_records_of(house, "race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--budget", "1s", "-q")
    return house


def test_a_record_says_what_common_devices_would_take_and_cost(raced):
    """As ranges, by time or by money, with what was measured here and the source of each price."""
    answer = raced.done("forecast", "latest")
    page = words_of(answer.out)
    assert page.startswith("cifar-cnn: ")
    assert "times as fast as fake/cpu/best here; 10 laps would cost about 0.00" in page
    assert "Measured here: fake/cpu/best" in page
    assert "RTX 4090" in answer.out
    told = json.loads(raced.done("forecast", "latest", "--json").out)
    rows = {each["device"]["short"]: each for each in told["rows"]}
    assert len(rows) == 8
    t4, h100 = rows["t4"], rows["h100-sxm"]
    row = next(line for line in answer.out.splitlines() if line.startswith("  T4 "))
    low, high, unit = re.search(r"([\d.]+)-([\d.]+) (s|min|h) +[\d.,]+-[\d.,]+x", row).groups()
    unit_s = {"s": 1, "min": 60, "h": 3600}[unit]
    assert [float(low) * unit_s, float(high) * unit_s] == pytest.approx(
        [t4["whole_s"]["low"], t4["whole_s"]["high"]], rel=0.05
    )
    assert t4["step_ms"]["low"] < t4["step_ms"]["middle"] < t4["step_ms"]["high"]
    assert t4["lap_s"]["middle"] == pytest.approx(500 * t4["step_ms"]["middle"] / 1e3)
    assert t4["cost"] == pytest.approx(0.526 * t4["whole_s"]["middle"] / 3600)
    assert t4["energy_wh"] == pytest.approx(70 * t4["whole_s"]["middle"] / 3600)
    assert h100["step_ms"]["middle"] < t4["step_ms"]["middle"]
    assert h100["factor"]["middle"] == pytest.approx(told["measured_ms"] / h100["step_ms"]["middle"])
    details = words_of(raced.done("forecast", "latest", "--by", "money", "--details").out)
    assert "Loader: this training reads no files." in details
    assert "RTX 3090: no Ampere device was measured in such arithmetic." in details, "of GeForce: theirs is TF32"
    assert "0.526 USD an hour: AWS g4dn.xlarge, 2026-02." in details
    fastest, cheapest = (raced.done("forecast", "latest", "--by", by).out for by in ("time", "money"))
    lines = [line for line in cheapest.splitlines() if "USD" in line and line.startswith("  ")]
    costs = [float(line.split()[-2]) for line in lines if line.endswith("USD")]
    assert costs == sorted(costs)
    assert fastest != cheapest


def test_what_this_machine_costs_is_compared(raced):
    """By --rate; without it, by that of the race, if it had one."""
    page = words_of(raced.done("forecast", "latest", "--on", "t4", "--rate", "0.36").out)
    assert re.search(r"10 laps here take 33 min \d+ s and cost 0\.2 USD\.", page)
    page = words_of(raced.done("forecast", "latest", "--on", "t4").out)
    assert re.search(r"10 laps here take 33 min \d+ s\.", page)


def test_only_an_architecture_that_nobody_measured_is_said_to_be_one(house):
    """In reduced precision, too, whose range is as wide."""
    house.script(PLANTED)
    house.done("race", "cifar-cnn", "fake/cpu/fastest", "--budget", "1s", "-q")
    page = words_of(house.done("forecast", "latest", "--on", "t4,rtx-5090", "--details").out)
    assert page.count("device was measured") == 1
    assert "RTX 5090: no Blackwell device was measured in such arithmetic" in page


def test_every_known_device_has_a_row_or_a_reason(raced):
    told = json.loads(raced.done("forecast", "latest", "fake/cpu", "--all", "--json").out)
    assert told["lane"] == "fake/cpu/as-written"
    assert len(told["rows"]) >= 55
    assert told["refused"]["tpu-v5e"] == "no step on a TPU was measured"
    page = words_of(raced.done("forecast", "latest", "--all", "--details").out)
    why = "tpu-v5e: not predicted, no step on a TPU was measured."
    assert why in page
    assert why in words_of(raced.done("forecast", "latest", "--on", "t4,tpu-v5e").out), "named, so said at once"
    short = words_of(raced.done("forecast", "latest", "--all").out)
    assert re.search(r"(\d+) more devices are not predicted, \d+ of them since ", short)
    assert "tpu-v5e" not in short


def test_a_processor_is_predicted_from_one_whose_large_products_are_known(raced):
    """By their rate and the number of cores: as it was measured, or as the name of the processor is known."""
    target = ("--on", "epyc-9r14,graviton4,xeon-8488c")
    refused = raced.run("forecast", "latest", *target)
    assert refused.code != 0
    assert "what the measured processor can do at most is not known: laptime devices --measure" in words_of(refused.err)
    raced.done("devices", "--measure", "--framework", "fake", "-q")
    told = json.loads(raced.done("forecast", "latest", *target, "--json").out)
    rows = {each["device"]["short"]: each for each in told["rows"]}
    record = read(raced)
    genoa, cores = rows["epyc-9r14"], record.machine.processor.cores_usable
    reached = REACHED * 8 * 32 * 3.7e9  # 8 cores, at the clock with all of them busy
    as_slow = FAKE_PER_S / reached * (8 / cores) ** (1 - CORES)
    assert genoa["step_ms"]["middle"] == pytest.approx(told["measured_ms"] * as_slow, rel=0.001)
    assert genoa["binds"] == "processor"
    assert genoa["memory_bytes"]["middle"] == record.lanes[1].peak_memory_bytes
    assert genoa["cost"] == pytest.approx(0.4637 * genoa["whole_s"]["middle"] / 3600)
    wide = [math.log(each["step_ms"]["high"] / each["step_ms"]["low"]) for each in (rows["graviton4"], genoa)]
    assert wide[0] > wide[1] + 0.1, "no step was measured on both kinds"
    page = words_of(raced.done("forecast", "latest", *target, "--details").out)
    assert "8 cores, as of AWS m7a.2xlarge: large products would reach 758 GFLOP/s; 0.4637 USD an hour" in page
    named = replace(record, machine=replace(record.machine, processor=replace(
        record.machine.processor, name="Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz", cores_usable=8)))  # fmt: skip
    own = forecasts.forecast(named, "fake/cpu/as-written", forecasts.choose(["i7-9700k"])).rows[0]
    assert own.factor.middle == pytest.approx(1.0), "it is as fast as itself"
    mine = KnownDevice("My chip 9", "mine", "cpu", "Zen", fp32_tflops=1.0, cores=8, threads=8, host_cores=8)
    named = replace(record, machine=replace(record.machine, processor=replace(
        record.machine.processor, name="My chip 9 CPU", cores_usable=8)))  # fmt: skip
    assert forecasts.forecast(named, "fake/cpu/as-written", [mine]).rows[0].factor.middle == pytest.approx(1.0)
    checked = forecast_checks.check_forecasts(
        [named, replace(record, id="r-2", machine=named.machine), record], lambda _label: None, known_efficiencies(),
        lambda _key: NO_PEAKS,
    )  # fmt: skip
    assert not checked, "of two processors, one is not known"


def test_steps_on_two_processors_are_held_against_each_other(raced):
    """A step on each is predicted from that on the other. Here they took the same time, so both are off, by as much."""
    record = read(raced)

    def ran_on(name, cores, identity):
        processor = replace(record.machine.processor, name=name, cores_usable=cores)
        return replace(record, id=identity, machine=replace(record.machine, processor=processor))

    records = [ran_on("AMD EPYC 9R14", 8, "r-one"), ran_on("Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz", 8, "r-two")]
    found = forecast_checks.check_forecasts(records, lambda _label: None, known_efficiencies(), lambda _key: NO_PEAKS)
    assert len(found) == 4, "two lanes, each on both"
    one, other = found[0], found[1]
    assert (one.device, one.source) == ("AMD EPYC 9R14 (8 cores)", "r-one; from r-two")
    assert 1 + one.off == pytest.approx(1 / (1 + other.off))
    assert 1 + one.off == pytest.approx(8 * 32 * 4.9e9 / (8 * 32 * 3.7e9))


def test_a_device_of_your_own_may_have_no_room(raced, tmp_path):
    place = tmp_path / "mine.toml"
    place.write_text(MINE)
    answer = raced.done("forecast", "latest", "--on", "my-card", "--device-file", str(place))
    assert "no device has room for it." in words_of(answer.out)
    assert "no room" in answer.out


SEEN = """
[[device]]
name = "Sibling"
short = "sibling"
kind = "cuda"
architecture = "Unheard"
aliases = ["H100 80GB HBM3"]
fp32_tflops = 67.0
tf32_tflops = 494.7
fp16_tflops = 989.0
bandwidth_gb_s = 3350
"""
BOARD = Path(__file__).parents[2] / "board"


def test_rows_of_a_board_move_what_is_predicted_on_their_card(raced, tmp_path):
    """The rows of a card by this name, in an architecture that nobody fitted."""
    place = tmp_path / "sibling.toml"
    place.write_text(SEEN)
    words = ("forecast", "latest", "--on", "sibling,t4", "--device-file", str(place))
    alone, moved = (
        json.loads(raced.done(*words, "--json", *more).out)["rows"] for more in ((), ("--board", str(BOARD)))
    )
    by_name = [{row["device"]["short"]: row for row in rows} for rows in (alone, moved)]
    assert by_name[0]["t4"] == by_name[1]["t4"]
    before, after = (rows["sibling"]["step_ms"] for rows in by_name)
    assert after["middle"] != before["middle"]
    assert math.log(after["high"] / after["low"]) == pytest.approx(
        math.sqrt(0.75) * math.log(before["high"] / before["low"])
    )
    moved_by = f"{after['middle'] / before['middle']:.2f}x"
    says = f"taken as {moved_by} as long, range narrower by 13 %: trainings measured there: 1 (r-2026-11-27-6664)"
    assert by_name[1]["sibling"]["notes"][-1] == says


def test_a_board_that_is_not_good_moves_nothing(raced, tmp_path):
    """Strangers may have sent its rows: one that was edited ends it in words."""
    board = tmp_path / "board"
    shutil.copytree(BOARD, board)
    row = next(board.glob("rows/cifar-mlp/h100-sxm/*.json"))
    row.write_text(row.read_text().replace('"batch": 32', '"batch": 16', 1))
    answer = raced.run("forecast", "latest", "--board", str(board))
    assert answer.code == 2
    assert "is not a good board: rows/cifar-mlp/h100-sxm/" in words_of(answer.err)
    assert "laptime board check" in words_of(answer.err)


def test_a_loader_that_was_timed_alone_binds_a_fast_card(house):
    """The authors' loader takes one core there, too: 32 images in 3.2 s."""
    house.script(READS)
    house.done("race", "scenes-cnn", "fake/cpu", "fake/cpu/input=only", "--budget", "1s", "-q")
    answer = house.done("forecast", "latest", "--on", "a100-40gb")
    assert "your loader" in answer.out
    record = read(house)

    def forecast_of(core_score):
        """Of a race on a machine with such cores: those of the card's host are scored 1,657."""
        processor = replace(record.machine.processor, core_score=core_score)
        there = replace(record, machine=replace(record.machine, processor=processor))
        return forecasts.forecast(there, devices=forecasts.choose(["a100-40gb"]))

    same, slower = (forecast_of(score) for score in (1_657.0, 2 * 1_657.0))
    assert "no device would surely be faster" in words_of(forecasts.as_text(same, View(100)))
    assert same.rows[0].binds == "loader"
    assert same.rows[0].step_ms.middle == pytest.approx(3200, rel=0.02)
    assert slower.rows[0].step_ms.middle == pytest.approx(2 * same.rows[0].step_ms.middle)


def test_a_training_is_raced_first(house):
    house.script(PLANTED)
    answer = house.done("forecast", "cifar-mlp", "fake/cpu", "--on", "t4", "--budget", "1s", "-q")
    assert words_of(answer.out).startswith("cifar-mlp: T4 would take")
    assert house.kept()["question"] == "race"


@pytest.mark.parametrize(
    ("what", "lane", "lanes"),
    [
        ("cifar-cnn", None, ("cpu", "cpu/best")),
        ("scenes-cnn", None, ("cpu", "cpu/best", "cpu/best+input=only")),
        ("scenes-cnn", "torch/cpu", ("torch/cpu", "torch/cpu/input=only")),
        ("scenes-cnn", "cpu/as-written", ("cpu/as-written", "cpu/as-written+input=only")),
        ("scenes-cnn", "cpu/best+input=fast", ("cpu/best+input=fast",)),
        ("mine.py:training", None, ("cpu", "cpu/input=only")),
    ],
)
def test_a_loader_is_timed_alone_where_there_is_one(what, lane, lanes):
    assert forecasting.lanes_to_race(what, lane) == lanes


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--on", "rtx-309"), "no device 'rtx-309' is known"),
        (("--on", "tpu-v5e"), "nothing can be said of tpu-v5e: no step on a TPU was measured"),
        (("--on", "t4", "--all"), "--on names devices, and --all is all of them"),
        (("fake/cuda",), "has no measured lane fake/cuda"),
        (("--budget", "5s"), "--budget is of the race before a forecast, and a record is named"),
        (("--rate", "-1"), "--rate -1: expected 0 or more"),
        (("--check", "--on", "t4"), "--check is of all records and published results"),
        (("--board", "/nowhere"), "/nowhere is no folder"),
        (("--check", "--board", "/nowhere"), "--check is of all records and published results"),
        (("--device-file", "/nowhere.toml"), "--device-file /nowhere.toml cannot be read"),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_words(raced, words, says):
    answer = raced.run("forecast", "latest", *words)
    assert answer.code != 0
    assert says in words_of(answer.err)


TRAIN = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 4))
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(int(sys.argv[2])):
    for rows, labels in DataLoader(TensorDataset(torch.randn(512, 64), torch.randint(0, 4, (512,))), batch_size=32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
"""


@pytest.mark.long
@pytest.mark.framework
def test_a_script_is_forecast_unchanged(house, tmp_path):
    """It is raced with its arguments, and its operators are counted inside; then its record is asked again."""
    place = tmp_path / "train.py"
    place.write_text(TRAIN)
    words = ("--budget", "4s", "--on", "t4,h100-sxm", "--json", "-q", "--", "--epochs", "99999")
    answer = house.run("forecast", str(place), *words)
    assert answer.code in {0, ExitCode.NOT_RELIABLE}, answer.err  # of the race: a busy machine disturbs its windows
    found = json.loads(answer.out)
    assert (found["what"], found["per"]) == ("train.py", "lap")
    assert [row["device"]["short"] for row in found["rows"]] == ["h100-sxm", "t4"]
    assert all(row["binds"] == "launches" for row in found["rows"])
    assert all(row["memory_bytes"]["low"] > 450_000_000 for row in found["rows"])
    again = json.loads(house.done("forecast", "latest", "--on", "t4", "--json").out)
    assert again["rows"][0]["step_ms"] == found["rows"][1]["step_ms"]


SLOW_LOADER = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64), index % 4

model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 4))
optimizer = torch.optim.AdamW(model.parameters())
for rows, labels in DataLoader(Slow(), batch_size=10):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(rows), labels).backward()
    optimizer.step()
"""


@pytest.mark.long
@pytest.mark.framework
def test_a_script_that_waits_for_its_loader_is_forecast_with_it(house, tmp_path):
    """Ten items of 2 ms are made in each step, and are no faster on any card."""
    place = tmp_path / "train.py"
    place.write_text(SLOW_LOADER)
    answer = house.run("forecast", str(place), "--budget", "4s", "--on", "h100-sxm,rtx-4090", "-q", "--json")
    assert answer.code in {0, ExitCode.NOT_RELIABLE}, answer.err
    found = json.loads(answer.out)
    known = next(row for row in found["rows"] if row["device"]["short"] == "rtx-4090")
    assert [row["binds"] for row in found["rows"]] == ["loader", "loader"]
    assert 20 <= known["loader_ms"] < known["step_ms"]["middle"]
    assert known["factor"]["middle"] < found["measured_ms"] / 20
    page = words_of(house.done("forecast", "latest", "--on", "rtx-4090").out)
    assert "The loader binds RTX 4090: 2" in page


def test_a_watch_counts_no_operators(house, tmp_path):
    place = tmp_path / "nothing.py"
    place.write_text("print(1)\n")
    house.run("watch", sys.executable, str(place))
    answer = house.run("forecast", "latest")
    assert answer.code == 2
    assert "is of a watch, which counts no operators" in words_of(answer.err)


def test_arguments_of_a_script_need_a_script(house):
    answer = house.run("forecast", "latest", "--", "--epochs", "3")
    assert answer.code == 2
    assert "words behind -- are a script's arguments" in words_of(answer.err)


def read(house, which="latest"):
    return schema.decode(house.done("show", which, "--json").out.encode(), "this record")


def without_a_card(house, which="latest"):
    """Return a record as if it were of a machine without a card: the fake framework sees one.

    How fast one core is differs by machine, and with it how fast a loader is on the hosts of cards.
    """
    record = read(house, which)
    assert record.cards is None
    processor = replace(record.machine.processor, core_score=None, name="a processor")
    return replace(record, machine=replace(record.machine, processor=processor, cards=(), frameworks=()))


def test_a_race_without_a_card_says_what_some_would_bring(raced):
    """From the fastest lane. Where no lane finished, nothing is predicted."""
    record = without_a_card(raced)
    found = with_cards(record)
    assert [each.card for each in found.cards.rows] == [
        "NVIDIA T4", "NVIDIA GeForce RTX 4090", "NVIDIA H100 SXM5 80GB"
    ]  # fmt: skip
    t4 = found.cards.rows[0].factor
    (told,) = card_sentence(found)
    lane = found.cards.lane.removesuffix("/as-written")
    assert told.startswith(f"Cards, as predicted: T4 {rough(t4.low)}-{rough(t4.high)}x as fast as {lane}, RTX 4090 ")
    assert told.endswith(f"(laptime forecast {record.id}).")
    assert "RTX 4090" in as_text(found, View(100, details=True))
    assert with_cards(replace(record, lanes=tuple(replace(each, status="dnf") for each in record.lanes))).cards is None


def test_a_card_does_not_help_a_training_that_waits_for_its_loader(house):
    """`why` has timed the loader alone. In a race it was not timed, which is said."""
    house.script(READS)
    house.done("why", "scenes-cnn", "fake/cpu", "--budget", "1s", "-q")
    found = with_cards(without_a_card(house))
    (told,) = card_sentence(found)
    assert told == "A card would hardly help, since the loader would bind it: T4 0.75-1.4x as fast."
    raced = house.raced("scenes-cnn", "fake/cpu", "--budget", "1s", "-q")
    (told,) = card_sentence(with_cards(without_a_card(house, raced["id"])))
    assert ", if the loader keeps up (laptime forecast" in told


def test_predictions_are_held_against_what_was_published(house):
    """The cards of the second experiment were all slower by one factor, and are within their ranges with it.

    So is one processor, by the share of its peak that these cards reach. The other and the TPU are not explained.
    """
    checked = json.loads(house.done("forecast", "--check", "--json").out)
    found = {(each["what"], each["device"]): each for each in checked}
    card = found["cifar-cnn", "NVIDIA GeForce GTX 1080 Ti"]
    assert card["measured_ms"] == 8.0
    assert 1 < card["software"] < 5
    assert len(found) == 6
    outside = {
        each["device"] for each in checked
        if not each["predicted_ms"]["low"] <= each["measured_ms"] <= each["predicted_ms"]["high"]
    }  # fmt: skip
    assert outside == {"Intel Core i5-8250U", "Google TPU v2 (one chip)"}
    assert found["cifar-cnn", "Intel Core i7-9700K"]["share"] == pytest.approx(0.28, abs=0.02)
    page = words_of(house.done("forecast", "--check").out)
    assert page.startswith("6 steps, off by")
    assert page.count("not explained by the hardware") == 2
    assert "published; by 28 % of its peak, as the cards" in page
