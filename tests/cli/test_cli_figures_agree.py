"""All figures on a page agree: step times steps is a lap, and a factor is the quotient of the figures next to it.

Each question is asked once of fake lanes whose heats vary by chance, and its page is read as a user reads it.
"""

from __future__ import annotations

import re

import pytest
from printed import find, number, time

from long_cases import cases

pytestmark = pytest.mark.usefixtures("known_references")

NOISY = """
["*"]
spread = 0.06
["*/cpu/*"]
warm = [1.3, 1.0, 1.0, 1.4, 1.0, 0.9, 1.0, 1.0, 1.0, 1.0]
["*/best*"]
warm = [1.0, 1.0, 1.0, 1.9, 1.0, 0.8, 1.0, 1.0, 1.0, 1.0]
"""
LANES = ("fake/cpu", "fake/cpu/best", "fake/cpu/threads=1")
CIFAR_CNN_STEPS, CIFAR_MLP_STEPS = 500, 1563


@pytest.fixture(scope="module")
def noisy_house(shared_house):
    shared_house.script(NOISY)
    yield shared_house
    shared_house.fake = "1"


def page(house, *words, **options):
    answer = house.run(*words, "--quiet", **options)
    assert answer.code == 0, answer.out + answer.err
    return answer.out


def rows(text):
    """Return the lines of lanes, without their bars."""
    return [re.sub(r"[█▏▎▍▌▋▊▉]+", "", line).strip() for line in text.splitlines() if line.startswith("  fake/")]


def check_rows(text, steps):
    """Check each row's lap against its step, and its factor against the first row. Return the count of factors."""
    first_s, factors = None, 0
    for line in rows(text):
        step_s, lap_s = (time(each) for each in find(r"<time>(?: a step)? +<time>", line).groups())
        assert step_s.times(steps).agrees(lap_s), line
        first_s = first_s or step_s
        if told := find(r"<number>x( slower)?", line):
            ratio = step_s.over(first_s) if told.group(2) else first_s.over(step_s)
            assert number(told.group(1)).agrees(ratio), line
            factors += 1
    return factors


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [(), *cases(long=[(("--alone",),), (("--heats", "3"),)])],
)
def test_a_race(noisy_house, how):
    """Whether lanes take turns or not, and however many heats there are; and the same in JSON."""
    text = page(noisy_house, "race", "cifar-cnn", *LANES, *how)
    assert check_rows(text, CIFAR_CNN_STEPS) >= 1
    record = noisy_house.raced("cifar-cnn", *LANES, *how)
    lanes = {each["name"]: each for each in record["lanes"]}
    for each in lanes.values():
        assert each["lap_s"]["median"] == pytest.approx(each["step_ms"]["median"] * CIFAR_CNN_STEPS / 1e3)
        assert each["items_per_s"]["median"] == pytest.approx(each["items_per_step"] * 1e3 / each["step_ms"]["median"])
    for each in record["answer"]["comparisons"]:
        quotient = lanes[each["reference"]]["step_ms"]["median"] / lanes[each["lane"]]["step_ms"]["median"]
        assert each["ratio"] == pytest.approx(quotient)


@pytest.mark.long
def test_a_race_of_two_batches(noisy_house):
    """A factor is of items: at four times the batch a lap is a quarter of the steps."""
    record = noisy_house.raced("cifar-cnn", "fake/cpu", "fake/cpu/batch=4x")
    first, other = record["lanes"]
    assert other["lap_s"]["median"] == pytest.approx(other["step_ms"]["median"] * CIFAR_CNN_STEPS / 4 / 1e3)
    (found,) = record["answer"]["comparisons"]
    assert found["ratio"] == pytest.approx(first["lap_s"]["median"] / other["lap_s"]["median"])


@pytest.mark.long
def test_whole_trainings(noisy_house):
    """The factor is of the laps next to it, and the sentence has both times of each."""
    text = page(noisy_house, "train", "cifar-mlp", *LANES[:2], "--laps", "3")
    first, second = rows(text)
    laps_s = [time(find(r"<time> a lap", line).group(1)) for line in (first, second)]
    assert number(find(r"<number>x", second).group(1)).agrees(laps_s[0].over(laps_s[1]))
    sentence = r"trains <number>x[^:]*: a later lap takes <time> against <time>; all 3 laps took <time> against <time>"
    told = find(sentence, " ".join(text.split()))
    ratio, fast, slow, fast_all, slow_all = told.groups()
    assert number(ratio).agrees(time(slow).over(time(fast)))
    totals_s = [time(find(r"<time> in all", line).group(1)) for line in (first, second)]
    assert (time(fast_all), time(slow_all)) == (totals_s[1], totals_s[0])


@pytest.mark.long
def test_answers(noisy_house):
    """The factor of single calls is the quotient of their medians."""
    text = page(noisy_house, "infer", "cifar-mlp", *LANES[:2])
    first, second = (line for line in text.splitlines() if line.startswith("  fake/"))
    p50 = [time(find(r"<time>", line).group(1)) for line in (first, second)]
    assert number(find(r"<number>x faster", second).group(1)).agrees(p50[0].over(p50[1]))
    record = noisy_house.run("infer", "cifar-mlp", *LANES[:2], "--json").json
    answering = record["answer"]["lanes"]
    by_batch = [{each["batch"]: each["items_per_s"]["median"] for each in lane["batches"]} for lane in answering]
    for each in record["answer"]["factors"]:
        if each["batch"] is not None:
            assert each["ratio"] == pytest.approx(by_batch[1][each["batch"]] / by_batch[0][each["batch"]])


@pytest.mark.long
def test_more_devices(noisy_house):
    """The speed-up is the quotient of the rates, and the parts of a step add up to it."""
    text = page(noisy_house, "scale", "cifar-cnn", "fake/cpu", "--devices", "1,2", is_wide=True)
    one, two, _ = (line for line in text.splitlines() if re.match(r"  (one|two|all) ", line))
    rates = [number(line.split()[-1]) for line in (one, two)]
    speedup = number(find(r"<number>x", two).group(1))
    assert speedup.agrees(rates[1].over(rates[0]))
    assert speedup.times(100 / 2).agrees(number(find(r"<number> %", two).group(1)))
    parts = [int(each) for each in re.findall(r"(\d+) %", re.search(r"A step on .*?\.\n", text, re.DOTALL).group())]
    assert sum(parts) == pytest.approx(100, abs=len(parts))


def test_a_sweep(noisy_house):
    """Items a second of a cell are its batch over its step."""
    record = noisy_house.run("sweep", "cifar-cnn", *LANES[:2], "--batch", "16,64", "--json", "--quiet").json
    lanes = {each["name"]: each for each in record["lanes"]}
    cells = record["answer"]["sweep"]["cells"]
    assert len(cells) == 4
    for each in cells:
        assert each["items_per_s"] == pytest.approx(int(each["at"][0]) * 1e3 / each["step_ms"])
        assert each["step_ms"] == pytest.approx(lanes[each["lane"]]["step_ms"]["median"])


@pytest.mark.long
def test_a_tuning(noisy_house):
    """The gain of the winner is the quotient of the steps of both lanes, over the fresh rounds."""
    record = noisy_house.run("tune", "cifar-mlp", "fake/cpu", "--budget", "12s", "--json", "--quiet").json
    (tuned,) = record["answer"]["tuning"]["lanes"]
    gain = tuned["gain"]
    assert gain is None or gain["ratio"] > 0


@pytest.mark.long
def test_why(noisy_house):
    """The parts of a step add up to it, and each measured remedy is the quotient of two steps."""
    record = noisy_house.run("why", "cifar-cnn", "fake/cpu", "--json", "--quiet").json
    why = record["answer"]["why"]
    assert sum(part["share"] for part in why["parts"]) == pytest.approx(1.0)
    lanes = {each["name"]: each for each in record["lanes"]}
    base = record["lanes"][0]
    compared = {each["lane"]: each for each in record["answer"]["comparisons"]}
    assert compared
    for name, each in compared.items():
        of_items = lanes[name]["items_per_s"]["median"] / base["items_per_s"]["median"]
        assert each["ratio"] == pytest.approx(of_items), name
