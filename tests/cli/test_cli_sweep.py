"""`laptime sweep` end to end on fake devices, whose steps over batches are planted."""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

# A step takes 4 + 1.125 ms an item on the processor, 11.2 + 0.15 ms on the card, which is full at a batch of 500.
TWO_DEVICES = """
["fake/*"]
compute_ms = 40.0
spread = 0.004
batch_share = 0.9
["fake/cuda*"]
compute_ms = 16.0
batch_share = 0.3
["fake/cuda*batch=[5-9][0-9][0-9]"]
fail = { how = "memory", phase = "build" }
["fake/cuda*batch=[1-9][0-9][0-9][0-9]"]
fail = { how = "memory", phase = "build" }
"""
CROSSOVER = (11.2 - 4) / (1.125 - 0.15)
# A step takes 20 ms at width 0.25 and four times as long at twice the width; 80 ms on the card, whatever the width.
WIDTHS = """
["fake/*"]
compute_ms = 80.0
["fake/cpu*@0.25"]
compute_ms = 5.0
["fake/cpu*@0.5"]
compute_ms = 20.0
["fake/cpu*@2"]
compute_ms = 320.0
["fake/cuda*"]
compute_ms = 40.0
"""
# 1 GB and 5 MB an item in 24 GB: 4,600 items fit.
FULL = """
["fake/cuda"]
spread = 0.002
["fake/cuda*"]
item_mb = 5.0
["fake/cuda*batch=[5-9][0-9][0-9][0-9]"]
fail = { how = "memory", phase = "build" }
[cards]
"cuda:0" = { memory_gb = 24 }
"""
THREADS = """
["fake/*"]
compute_ms = 40.0
spread = 0.002
gains = { "threads=2" = 1.8 }
"""


def words_of(text):
    return " ".join(text.split())


def swept(house, script, *words, budget="40s"):
    house.script(script)
    answer = house.done("sweep", "cifar-mlp", *words, "--budget", budget)
    return answer, house.kept()["answer"]["sweep"]


@pytest.mark.long
def test_a_planted_crossover_the_largest_batch_and_an_empty_step_are_found(house, tmp_path):
    """A card without memory ends its own axis, and neither the sweep nor the command."""
    answer, sweep = swept(house, TWO_DEVICES, "fake/cpu", "fake/cuda", "--batch", "1..1024")
    (found,) = sweep["crossovers"]
    assert (found["lane"], found["against"]) == ("fake/cuda:0/as-written", "fake/cpu/as-written")
    assert found["at"]["value"] == pytest.approx(CROSSOVER, rel=0.03)
    assert found["at"]["low"] <= found["at"]["value"] <= found["at"]["high"]
    cpu, cuda = sweep["curves"]
    assert cpu["empty_ms"]["value"] == pytest.approx(4.0, rel=0.05)
    assert cuda["empty_ms"]["value"] == pytest.approx(11.2, rel=0.05)
    assert cpu["knee"] == "32"
    assert 475 <= cuda["largest"] <= 499, "to within 5 %"
    assert cpu["largest"] is None
    cells = {(each["of"], each["at"][0]): each for each in sweep["cells"]}
    assert cells["fake/cpu/as-written", "64"]["step_ms"] == pytest.approx(4 + 1.125 * 64, rel=0.01)
    assert cells["fake/cuda:0/as-written", "512"]["out_of_memory"]
    assert cells["fake/cuda:0/as-written", "1024"]["reason"] == "a smaller batch had no room in memory"
    page = words_of(answer.out)
    assert "fake/cuda:0 overtakes fake/cpu at batch 7." in page
    assert "The largest batch of fake/cuda:0 that fits into memory is" in page
    assert "overtakes" in words_of(house.done("list").out)
    details = words_of(house.done("show", "--details").out)
    assert "fake/cuda:0, 1024: a smaller batch had no room in memory" in details
    place = tmp_path / "sweep.html"
    house.done("report", "-o", str(place))
    assert "Rate over batch" in place.read_text()


def test_a_crossover_of_one_heat_each_is_no_more_than_likely(house):
    """In no time every cell has one heat, which has no interval: it is not said as if it were sure."""
    answer, sweep = swept(house, TWO_DEVICES, "fake/cpu", "fake/cuda", "--batch", "1..64", budget="1s")
    cells = [line.split(";")[0] for line in answer.err.splitlines() if line.startswith("cell ")]
    batches = enumerate((1, 2, 4, 8, 16, 32, 64), 1)
    assert cells == [f"cell {number} of 7: batch {batch}" for number, batch in batches], "a line a cell"
    assert len(answer.err.splitlines()) <= 1 + len(cells)
    assert sweep["crossovers"][0]["at"]["low"] == {"missing": "one round alone gives no interval"}
    assert [each["at"] for each in sweep["factors"]][:4] == ["1", "2", "4", "8"]
    ratios = [each["ratio"] for each in sweep["factors"]]
    assert ratios == sorted(ratios)
    assert ratios[2] < 1 < ratios[3]
    page = words_of(answer.out)
    assert "fake/cuda:0 may overtake fake/cpu at batch about 7" in page
    drawn = house.done("report", "--format", "md", "-o", "-").out
    assert "fake/cuda:0 may overtake fake/cpu at batch about 7" in drawn
    assert "Each is of one heat, which shows no interval." in drawn
    assert "That is of one heat each: a longer --budget gives intervals." in page


@pytest.mark.long
def test_the_best_of_one_heat_each_only_seems_so(house):
    answer, _ = swept(house, TWO_DEVICES, "fake/cpu", "--batch", ",".join(map(str, range(1, 31))), budget="1s")
    assert "fake/cpu seems fastest at batch" in words_of(answer.out)
    assert "That is of one heat each" in words_of(answer.out)


def test_a_batch_whose_heat_would_take_longer_than_the_budget_is_left_out(house):
    """Steps of 22 and 76 ms at 16 and 64 items make 4.6 s at 4,096, and a heat has fourteen at least."""
    answer, sweep = swept(house, TWO_DEVICES, "fake/cpu", "--batch", "16,64,4096,8192", budget="20s")
    cells = {each["at"][0]: each for each in sweep["cells"]}
    assert [cells[at]["too_long"] for at in ("64", "4096", "8192")] == [False, True, True]
    assert cells["64"]["items_per_s"]
    assert re.fullmatch(r"a heat would take about 6\d s, and the budget is 20 s", cells["4096"]["reason"])
    assert f"fake/cpu was left out at batch 4096 and above: {cells['4096']['reason']}" in words_of(answer.out)
    assert "too slow" in answer.out
    assert sweep["curves"][0]["absent"]["largest"]["missing"] == "larger batches would take longer than the budget"


@pytest.mark.long
def test_a_large_batch_whose_steps_take_no_longer_is_raced(house):
    """Where starting the work takes all of a step, four thousand times the items do not make it too slow."""
    script = '["fake/*"]\ncompute_ms = 16.0\nspread = 0.0001\nbatch_share = 0.0\n'
    _, sweep = swept(house, script, "fake/cpu", "--batch", "1,64,4096", budget="5s")
    assert all(each["items_per_s"] for each in sweep["cells"])


@pytest.mark.long
def test_what_surely_does_not_fit_is_left_out_and_the_search_starts_at_the_estimate(house):
    """The line through two batches says what a third will hold; the largest that fits is then near its estimate."""
    answer, sweep = swept(house, FULL, "fake/cuda", "--batch", "1000,2000,4000,8000,16000", "--details", budget="5s")
    cells = {each["at"][0]: each for each in sweep["cells"]}
    assert "missing" in cells["1000"]["estimated_memory_bytes"]
    assert cells["4000"]["estimated_memory_bytes"] == cells["4000"]["memory_bytes"] == 21e9
    assert cells["8000"]["too_large"]
    assert cells["8000"]["reason"] == "it would need about 41.0 GB, and 24.0 GB are all that cuda:0 has"
    assert cells["16000"]["too_large"]
    assert sweep["curves"][0]["largest"] in range(4_750, 5_000), "to within 5 %"
    ran = [each["name"] for each in house.kept()["lanes"] if each["heats"]]
    assert "fake/cuda:0/batch=4600" in ran, "the largest by its estimate is tried first"
    assert not any(name.endswith(("=8000", "=16000")) for name in ran)
    assert "too large" in answer.out
    page = words_of(house.done("show").out)
    assert "fake/cuda:0 was left out at batch 8000 and above: it would need about 41.0 GB, and 24.0 GB are all" in page


def test_a_crossover_over_widths_is_of_networks_that_are_scaled(house):
    """Each width is a training of its own, with its parameters; half way from 20 to 80 ms is 40."""
    answer, sweep = swept(house, WIDTHS, "fake/cpu", "fake/cuda", "--width", "0.25..2", "--details", budget="1s")
    (found,) = sweep["crossovers"]
    assert found["lane"] == "fake/cuda:0/as-written"
    assert found["at"]["value"] == pytest.approx(2**-0.5, rel=0.01)
    cells = {(each["of"], each["at"][0]): each for each in sweep["cells"]}
    at_half = 3072 * 1500 + 1500 + 1500 * 500 + 500 + 500 * 10 + 10
    assert cells["fake/cpu/as-written", "0.5"]["parameters"] == at_half
    assert cells["fake/cpu/as-written", "1"]["parameters"] == house.kept()["workload"]["parameters"] == 12_230_010
    assert cells["fake/cuda:0/as-written", "2"]["lane"] == "fake/cuda:0/as-written of cifar-mlp@2"
    assert f"{at_half:,}" in answer.out


def test_two_axes_make_a_table_for_each_value_of_the_second(house):
    """Threads that the machine does not have are a cell without a result."""
    answer, sweep = swept(house, THREADS, "fake/cpu", "--batch", "8,32", "--threads", "1,2,4096", budget="10s")
    cells = {tuple(each["at"]): each for each in sweep["cells"]}
    assert set(cells) == {(batch, threads) for batch in ("8", "32") for threads in ("1", "2", "4096")}
    assert cells["32", "2"]["items_per_s"] == pytest.approx(1.8 * cells["32", "1"]["items_per_s"], rel=0.02)
    assert "this machine has" in cells["32", "4096"]["reason"]
    assert "fake/cpu is fastest at batch 32 with threads 2, and" in words_of(answer.out)
    assert "threads 1" in answer.out


@pytest.mark.long
def test_items_are_an_axis_and_one_number_of_them_is_for_all_cells(house):
    """From 4,000 on they no longer fit into memory, as is planted."""
    slow = THREADS + '["fake/cpu/items=[4-9]???"]\ncompute_ms = 100.0\n'
    answer, sweep = swept(house, slow, "fake/cpu", "--items", "1000..8000", budget="10s")
    rates = {each["at"][0]: each["items_per_s"] for each in sweep["cells"]}
    assert list(rates) == ["1000", "2000", "4000", "8000"]
    assert rates["2000"] == pytest.approx(2.5 * rates["4000"], rel=0.02)
    assert "fake/cpu is fastest at items" in words_of(answer.out)
    words = ("--items", "500", "--batch", "8,16", "--budget", "1s", "-q", "--json")
    told = json.loads(house.done("sweep", "cifar-mlp", "fake/cpu", *words).out)
    assert told["ask"]["items"] == 500
    assert [axis["name"] for axis in told["answer"]["sweep"]["axes"]] == ["batch"]


@pytest.mark.long
def test_a_lane_that_is_faster_everywhere_overtakes_nobody(house):
    answer, sweep = swept(house, THREADS, "fake/cpu", "fake/cpu/threads=2", "--batch", "16,32,64", budget="10s")
    assert sweep["crossovers"] == []
    assert "no lane overtakes another" in words_of(answer.out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--batch", "64..8"), "--batch 64..8: the first value has to be less than the last"),
        (("--batch", "1,two"), "--batch 1,two: 'two' cannot be"),
        (("--batch", "8,8"), "--batch 8,8: a value is named twice"),
        (("--batch", "8"), "--batch 8: expected 2 to 40 values"),
        (("--batch", "1,2", "--threads", "1,2", "--workers", "0,1"), "one axis or two, and 3 are given"),
        (("fake/cpu/batch=4",), "--batch: the lane names batch itself"),
        (("fake/cpu", "--threads", "5000,6000"), "laptime sweep: no cell can be"),
        (("--width", "0..2"), "--width 0..2: '0' cannot be"),
        (("--width", "1,1.0"), "--width 1,1.0: a value is named twice"),
        (("--items", "2,4"), "laptime sweep: no cell can be: items=2: cifar-mlp has items of 10 classes"),
        (("--items", "many"), "'many' is no count"),
        (("--items", "all,500"), "--items all,500: 'all' cannot be"),
        (("--batch", "0.5..8"), "--batch 0.5..8: '0.5' cannot be"),
    ],
)
def test_axes_that_cannot_be_are_refused(house, words, says):
    house.script(THREADS)
    answer = house.run("sweep", "cifar-mlp", *words)
    assert answer.code == 2
    assert says in words_of(answer.err)


def test_the_network_of_a_training_of_your_own_has_no_widths(house, tmp_path):
    place = tmp_path / "own.py"
    place.write_text("import laptime\ndef training(): return laptime.Training(model=None)\n")
    answer = house.run("sweep", str(place), "torch/cpu", "--width", "0.5,1")
    assert answer.code == 2
    assert "--width: laptime knows the layers of built-in trainings" in words_of(answer.err)
    assert "a width is an axis of laptime sweep" in words_of(house.run("race", "cifar-mlp@2", "fake/cpu").err)


def test_a_plan_has_a_lane_for_each_cell(house):
    house.script(THREADS)
    outline = json.loads(house.done("sweep", "cifar-mlp", "fake/cpu", "--batch", "1..4", "--dry-run", "--json").out)
    assert [each["name"] for each in outline["lanes"]] == [f"fake/cpu/batch={batch}" for batch in (1, 2, 4)]


OWN = """
import laptime, torch
from torch import nn

def training(data=None):
    model = nn.Linear(20, 5)
    rows = torch.randn(8, 16, 20)
    data = data or list(zip(rows, rows[..., :5].argmax(-1)))
    return laptime.Training(model=model, loss=nn.functional.cross_entropy,
                            optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data=data)

def made():
    batches = training().data
    return training(lambda: iter(batches))
"""
MADE = "batch=8: the batches of own.py:made cannot be changed: its data are no DataLoader and no list of batches"


@pytest.mark.long
@pytest.mark.framework
def test_batches_of_your_own_are_cut_by_one_rule_in_every_question(torch_house, tmp_path):
    """A list is cut to each value, and proven on its batches as they are written. What cannot be is refused alike."""
    place = tmp_path / "own.py"
    place.write_text(OWN)
    words = ("torch/cpu", "--batch", "8,32,1024", "--budget", "1s", "--json", "-q")
    record = torch_house.done("sweep", f"{place}:training", *words).json
    lanes = {lane["settings"]["batch"]: lane for lane in record["lanes"]}
    assert [(batch, lane["items_per_step"]) for batch, lane in lanes.items()] == [(8, 8), (32, 32)]
    assert {lane["parity"]["status"] for lane in lanes.values()} == {"same"}
    words = words_of(torch_house.done("show", record["id"], "--details").out)
    assert "batch=1024: the batches of own.py:training cannot be changed: a lap of it has 128 items" in words
    for question, *asked in (("race", "torch/cpu/batch=8"), ("forecast", "torch/cpu/batch=8"), ("sweep", "torch/cpu")):
        refused = torch_house.run(question, f"{place}:made", *asked, *(("--batch", "8,16") * (question == "sweep")))
        assert (refused.code, MADE in words_of(refused.err)) == (2, True), question
        assert "set the batch in its own data, and race two functions" in words_of(refused.err)
