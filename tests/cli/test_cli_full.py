"""Whole trainings on the fake back end: the virtual clock and a scripted curve make every figure exact."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

FULL = ("train", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--laps", "3", "--steps-per-lap", "100")
RUN_KEYS = {
    *("process", "seed", "order", "laps", "test", "predictions", "reached", "first_step_ms", "proofs", "processes"),
    *("watched", "sources", "changed", "census"),
}


def wrong(steps):
    """Return what the fake has not learned by then."""
    return 0.5 ** (steps / 500)


@pytest.fixture(scope="module")
def record(shared_house):
    """Train two lanes whole once, for all who only read the record."""
    answer = shared_house.run(*FULL, "--until-accuracy", "30%", "--json", "-q")
    assert answer.code == 0
    return answer.json


def run_of(record, lane="fake/cpu/as-written"):
    return next(run for run in record["answer"]["runs"] if run["process"]["lane"] == lane)


def test_the_record_holds_the_protocol_and_the_order(record):
    """What was asked, what was published, which lane came first and why."""
    assert (record["question"], record["status"], record["schema"]) == ("full", "finished", 3)
    assert record["answer"]["protocol"] == {
        "laps": 3,
        "steps_per_lap": 100,
        "validation_items": 1_000,
        "evaluation_items": 10_000,
        "predictions": 20,
        "seeds": 1,
        "until_accuracy": 0.3,
    }
    assert [run["order"] for run in record["answer"]["runs"]] == [0, 1]
    assert record["answer"]["order"].startswith("one lane after another, as they were named: ")
    asked = {"laps": 3, "steps_per_lap": 100, "seeds": 1, "until_accuracy": 0.3}
    assert record["ask"]["full"] == {**asked, "learning_rates": [], "batches": []}
    assert all(run.keys() == RUN_KEYS for run in record["answer"]["runs"])


def test_a_training_is_not_accused_by_one_chance_event(house):
    """Its first proof differed, a second from another seed did not."""
    house.script('["fake/cpu/best"]\nchance = 1e-3\n')
    answer = house.done(*FULL, "-q", "--json")
    _, best = answer.json["lanes"]
    assert (best["parity"]["status"], best["appeal"]["seed"]) == ("same", 1_000_003)
    assert "proven at the second try" in house.done("show", "latest", "--details").out


def test_laps_are_exact(record):
    """300 ms of first step and 99 of 100 ms; then 100 of 100 ms; half of that at its best."""
    assert [lap["train_s"] for lap in run_of(record)["laps"]] == pytest.approx([10.2, 10.0, 10.0])
    assert [lap["train_s"] for lap in run_of(record, "fake/cpu/best")["laps"]] == pytest.approx([5.25, 5.0, 5.0])
    assert [lap["fresh"] for lap in run_of(record)["laps"]] == [True, False, False]


def test_curves_are_exact_and_alike(record):
    """Training's mean is of the lap's middle, validation of its end, the test of the last step."""
    for run in record["answer"]["runs"]:
        for place, lap in enumerate(run["laps"]):
            assert lap["score"]["loss"] == pytest.approx(2.3 * wrong(100 * place + 50))
            assert lap["score"]["items"] == 10_000
            assert lap["validation"]["score"]["accuracy"] == pytest.approx(1 - 0.9 * wrong(100 * place + 100))
            assert lap["validation"]["seconds"] == pytest.approx(0.1)
        assert run["test"]["score"] == {
            "items": 10_000,
            "loss": pytest.approx(2.3 * wrong(300)),
            "accuracy": pytest.approx(1 - 0.9 * wrong(300)),
            "whole": {"missing": "an item has one label"},
        }
        assert len(run["predictions"]["predicted"]) == len(run["predictions"]["truth"]) == 20


def test_the_accuracy_that_was_asked_for_is_reached_in_its_lap(record):
    """0.3 is between the validations of the second and the third lap (0.318 after 200 steps)."""
    assert run_of(record)["reached"] == {
        "wanted": 0.3,
        "lap": 2,
        "train_s": pytest.approx(20.2),
        "accuracy": pytest.approx(1 - 0.9 * wrong(200)),
    }


def test_the_factor_sets_the_first_lap_apart(record):
    """Twice as fast in later laps; a little less in the one that holds the first step."""
    (factor,) = record["answer"]["factors"]
    assert (factor["lane"], factor["reference"], factor["same_work"]) == ("fake/cpu/best", "fake/cpu/as-written", True)
    assert factor["later_laps"] == pytest.approx(2.0)
    assert factor["first_lap"] == pytest.approx(10.2 / 5.25)


def test_every_lane_is_proven_once_before_it_is_trained(record):
    """The same proof as in a heat, against the same reference."""
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same", "same"]
    assert [len(run["proofs"]) for run in record["answer"]["runs"]] == [1, 1]
    assert record["reference"]["exact"]["precision"] == "fp64"


def test_lanes_have_the_figures_that_all_records_have(record):
    """Step, lap and rate of the later laps; first step and start-up apart; no heats."""
    first, best = record["lanes"]
    assert (first["step_ms"]["median"], best["step_ms"]["median"]) == (pytest.approx(100.0), pytest.approx(50.0))
    assert (first["lap_s"]["median"], first["items_per_s"]["median"]) == (pytest.approx(10.0), pytest.approx(1_000.0))
    assert (first["first_step_ms"], first["heats"]) == (300.0, [])
    assert "missing" in first["lap_s"]["low"]
    assert first["startup_s"] > 0.2


def test_one_line_a_lap_goes_to_stderr_and_the_report_ends_with_totals_predictions_and_its_name(house):
    """A line has time, ms a step, loss and accuracy, and those of the validation.

    The record on disk says the same as the report by `show`; `list` has it in a line.
    """
    answer = house.run(*FULL, "--until-accuracy", "0.9", "--details")
    laps = [line for line in answer.err.splitlines() if " of 3: " in line]
    assert len(laps) == 6
    assert laps[0] == (
        "fake/cpu lap 1 of 3: 10.2 s, 102 ms a step, loss 2.1460, accuracy 0.1603, "
        "validation loss 2.0023, accuracy 0.2165"
    )
    assert "\x1b" not in answer.err
    assert "lap 1 of 3" not in answer.out
    words = " ".join(answer.out.split())
    assert "fake/cpu 30.2 s 10.2 s 10.0 s 1 1.5174 0.4062" in words
    assert "fake/cpu/best 15.2 s 5.25 s 5.00 s 2.00x faster 1.5174 0.4062" in words
    assert "in the first, with the first step in it: fake/cpu/best 1.94x faster" in words
    assert "Accuracy 0.9 in validation: fake/cpu never reached; the best was 0.4062" in words
    assert re.search(r"truth +0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9\n", answer.out)
    assert "same work: yes (proof: 10 steps, worst 5e-8), all lanes" in words
    assert house.run("show", "latest", "--details").out == answer.out
    (row,) = house.run("list", "--json").json
    assert row["question"] == "full"
    assert row["summary"] == "2 lanes, 6 whole laps, fake/cpu/best 2.00x faster than fake/cpu"


def test_what_is_published_is_the_default(house):
    """cifar-mlp: ten laps of 1,563 steps, no validation, a test at the end."""
    answer = house.run("train", "cifar-mlp", "fake/cuda", "--json", "-q")
    (run,) = answer.json["answer"]["runs"]
    assert [lap["steps"] for lap in run["laps"]] == [1_563] * 10
    assert {None} == {lap["validation"] and 1 for lap in run["laps"]}
    assert run["test"]["score"]["items"] == 10_000


def test_another_batch_takes_as_many_steps_as_see_the_same_items(house):
    """Four times the batch, a quarter of the steps."""
    record = house.run("train", "cifar-cnn", "fake/cpu/batch=4x", "--laps", "1", "--json", "-q").json
    (lap,) = record["answer"]["runs"][0]["laps"]
    assert (lap["steps"], lap["score"]["items"]) == (125, 50_000)


def test_lanes_whose_learning_parts_company_are_told(house):
    """Two points of accuracy in 10,000 items are more than chance."""
    house.script('["fake/cpu/best"]\nskill = 0.03\n')
    answer = house.run(*FULL, "-q")
    words = " ".join(answer.out.split())
    assert (answer.code, answer.err) == (0, "")
    assert "learning differs: fake/cpu/best ends at an accuracy of 0.4362" in words
    assert "chance in 10,000 items explains 0.0140. --seeds 3 shows whether seeds explain it." in words
    assert house.kept()["findings"][0]["evidence"]["items"] == 10_000


def test_a_difference_that_chance_explains_is_not_accused(house):
    """A thousandth is less than two standard errors."""
    house.script('["fake/cpu/best"]\nskill = 0.001\n')
    assert "differs" not in house.run(*FULL, "-q").out


def test_seeds_are_run_in_turns_and_explain_a_spread(house):
    """A B, B A, A B; Welch's t on what they end with."""
    record = house.run(*FULL, "--seeds", "3", "--seed", "5", "--json", "-q").json
    runs = record["answer"]["runs"]
    assert [(run["process"]["lane"].split("/")[-1], run["seed"]) for run in runs] == [
        *(("as-written", 5), ("best", 5), ("best", 6), ("as-written", 6), ("as-written", 7), ("best", 7))
    ]
    assert [len(run["proofs"]) for run in runs] == [1, 1, 0, 0, 0, 0]
    assert "every other seed in reverse order" in record["answer"]["order"]
    assert record["findings"] == []
    (factor,) = record["answer"]["factors"]
    assert factor["low"] <= factor["later_laps"] <= factor["high"]


@pytest.mark.long
def test_seeds_that_do_not_explain_a_difference_say_so(house):
    """A hundredth on top of seeds that part by a thousandth."""
    house.script('["fake/cpu/best"]\nskill = 0.01\n')
    answer = house.run(*FULL, "--seeds", "3", "-q")
    assert "3 seeds do not explain it (Welch's t" in " ".join(answer.out.split())


def test_lanes_that_fail_do_not_stop_the_others(house):
    """Exit 3; where and why each ended; the other lane is trained whole."""
    failing = {
        "fake/cpu/best": ('how = "nan", phase = "lap 2"', "in lap 2: the loss became nan in lap 2"),
        "fake/cpu/bf16": ('how = "kill", phase = "lap 2"', "in lap 2: killed by SIGKILL"),
        "fake/cpu/threads=1": ('how = "raise", phase = "evaluation 2"', "in validation 2: RuntimeError: planted"),
        "fake/cpu/channels_last": ('how = "exit", phase = "build"', "in build: the process ended on its own"),
    }
    house.script("".join(f'["{lane}"]\nfail = {{ {fail} }}\n' for lane, (fail, _) in failing.items()))
    answer = house.run("train", "cifar-cnn", *failing, "fake/cpu", *FULL[4:], "--details", "-q")
    assert answer.code == 3
    words = " ".join(answer.out.split())
    for lane, (_, reason) in failing.items():
        assert f"{lane} did not finish, {reason}" in words
    *failed, other = house.kept()["answer"]["runs"]
    assert [run["process"]["status"] for run in failed] == ["dnf"] * 4
    assert (other["process"]["status"], len(other["laps"])) == ("ok", 3)
    assert f"to go on: laptime resume {house.kept()['id']}" in words


@pytest.mark.long
def test_a_lane_that_hangs_is_ended_by_the_watchdog(house):
    """Between two words of progress; the other lane is trained whole."""
    house.script('["fake/*"]\nfail = { how = "hang", phase = "lap 2", heat = 0 }\nfirst_ms = 1\nstep_ms = 0.1\n')
    answer = house.run(*FULL, "-q", "--watchdog", "1s")
    assert answer.code == 3
    assert "in lap 2: no message for 1 s; stopped" in " ".join(answer.out.split())
    assert house.is_empty_within(10)


def test_a_lane_that_does_other_work_is_found_out(house):
    """The proof of a heat is the proof here; exit 4."""
    house.script('["fake/cpu/best"]\nstray = 1e-3\n')
    answer = house.run(*FULL, "-q")
    assert answer.code == 4
    assert "not the same work" in answer.out
    assert "x faster" not in answer.out


@pytest.mark.usefixtures("record")
def test_a_finished_training_leaves_no_checkpoint(shared_house):
    """What is finished needs no way back; half a gigabyte a lane would be much to leave."""
    assert [each for each in (shared_house.home / "checkpoints").rglob("*") if each.is_file()] == []


def test_no_line_is_wider_than_the_page(house):
    """COLUMNS is taken at its word, from a narrow page on; the same record is shown on a wider one."""
    trained = house.run(*FULL, "-q", "--until-accuracy", "0.2", env={"COLUMNS": "40"})
    shown = house.done("show", env={"COLUMNS": "80"})
    for page, width in ((trained, 40), (shown, 80)):
        assert "fake/cpu/best" in page.out
        assert max(map(len, page.out.splitlines())) <= width


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--heats", "3"), "No such option '--heats'; laptime race, laptime scale and laptime infer have it"),
        (("--margin", "3%"), "No such option '--margin'; laptime race and laptime scale have it"),
        (
            ("--alone",),
            "No such option '--alone'; laptime race, laptime why, laptime tune, laptime verdict, laptime sweep, ",
        ),
        (("--laps", "0"), "--laps 0: expected a whole number from 1"),
        (("--seeds", "0"), "--seeds 0: expected a whole number from 1 to 100"),
        (("--until-accuracy", "70"), "'70' is 7000%; did you mean 70%?"),
    ],
)
def test_what_makes_no_sense_is_refused(house, words, says):
    """Exit 2 before anything runs, with the flag and the way out; nothing is kept."""
    answer = house.run("train", "cifar-cnn", "fake/cpu", *words)
    assert answer.code == 2
    assert says in " ".join(answer.err.split())
    assert house.files() == []


def test_a_loader_alone_cannot_be_trained_whole(house):
    """It trains nothing."""
    answer = house.run("train", "cifar-cnn", "fake/cpu/input=only")
    assert answer.code == 2
    assert "trains nothing" in answer.err


def test_a_training_of_ones_own_needs_its_laps(house):
    """Nobody published them."""
    (house.folder / "my.py").write_text("def training(): ...\n")
    answer = house.run("train", "my.py:training")
    assert answer.code == 2
    assert "add --laps N" in answer.err
