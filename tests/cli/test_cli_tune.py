"""`laptime tune` end to end on a fake device, whose settings gain what is planted."""

from __future__ import annotations

import json
import re
import signal

import pytest

from laptime.store import files

pytestmark = pytest.mark.usefixtures("known_references")

PLANTED = """
["fake/*"]
compute_ms = 40.0
spread = 0.004
gains = { "malloc=keep" = 1.5, "threads=1" = 1.3, "compile" = 0.8, "fused" = 1.0, "bf16" = 2.0 }
"""
NOTHING = """
["fake/*"]
compute_ms = 40.0
spread = 0.01
gains = { "compile" = 0.9, "threads=1" = 0.8 }
"""
WORKS_TOGETHER = """
["fake/*"]
compute_ms = 40.0
spread = 0.002
gains = { "malloc=keep" = 0.97 }
["fake/cpu/*fused*malloc=keep*"]
compute_ms = 20.0
"""
FAILS = """
["fake/*"]
compute_ms = 40.0
spread = 0.002
gains = { "malloc=keep" = 1.2, "compile" = 3.0, "graph" = 4.0 }
["fake/*compile*"]
fail = { how = "raise", phase = "build" }
["fake/*graph*"]
stray = 0.1
"""
SLOW_START = 'fail = { how = "hang", phase = "build", seconds = 1.0 }\n'


def words_of(text):
    return " ".join(text.split())


def tuned(house, script, *words, budget="60s"):
    house.script(script)
    answer = house.done("tune", "cifar-mlp", *(words or ("fake/cpu",)), "--budget", budget, "-q")
    return answer, house.kept()["answer"]["tuning"]


def worth(tuning, word, lane=0):
    return next(each for each in tuning["lanes"][lane]["settings"] if each["word"] == word)


def test_what_is_planted_is_found_joined_and_confirmed(house, tmp_path):
    """Arithmetic stays as it is. What a setting alone is worth has an interval, and the page says how to set it."""
    answer, tuning = tuned(house, PLANTED)
    (lane,) = tuning["lanes"]
    assert (lane["standing"], lane["words"]) == ("confirmed", ["threads=1", "malloc=keep"])
    assert lane["gain"]["ratio"] == pytest.approx(1.95, rel=0.01)
    assert lane["gain"]["low"] < 1.95 < lane["gain"]["high"]
    assert lane["pairs"] >= 3
    assert worth(tuning, "malloc=keep")["alone"]["ratio"] == pytest.approx(1.5, rel=0.02)
    assert worth(tuning, "compile")["alone"]["ratio"] == pytest.approx(0.8, rel=0.02)
    assert not worth(tuning, "fused")["in_winner"], "what gains nothing is left out"
    assert abs(worth(tuning, "fused")["alone"]["ratio"] - 1) < 0.02
    check_path(lane)
    page = words_of(answer.out)
    assert "fake/cpu is 1.95x" in page
    assert "as fast with threads=1+malloc=keep." in page
    assert "In a training of your own: torch.set_num_threads(1); laptime.keep_memory()" in page
    assert "OMP_NUM_THREADS=1" in page
    assert "laptime race cifar-mlp fake/cpu fake/cpu/threads=1+malloc=keep" in page
    assert "bf16" not in page
    winner = next(each for each in house.kept()["lanes"] if each["name"] == lane["winner"])
    assert len(winner["heats"]) > lane["pairs"], "the gain has none of the heats of the search"
    assert "1.95x with threads=1+malloc=keep" in words_of(house.done("list").out)
    assert "as fast with threads=1+malloc=keep" in words_of(house.done("show").out)
    place = tmp_path / "tune.html"
    house.done("report", "-o", str(place))
    page = place.read_text()
    assert page.index("The search on fake/cpu, in its order") < page.index("What each setting is worth on fake/cpu")
    assert json.loads(house.done("show", "--json").out)["question"] == "tune"
    check_tuned_lanes(house)


def check_path(lane):
    """All sets in the order in which they ran, each with its factor; the search went on from the winner."""
    path = [(each["words"], each["factor"]["ratio"], each["kept"]) for each in lane["path"] if each["factor"]]
    words = [each for each, _, _ in path]
    assert words.index(["malloc=keep"]) < words.index(lane["words"])
    assert ([each for each, _, kept in path if kept] or [[]])[-1] == lane["words"]
    assert len(path) == len(lane["path"]) == lane["tried"] - 1
    assert {tuple(each): ratio for each, ratio, _ in path}["malloc=keep",] == pytest.approx(1.5, rel=0.02)
    assert not any(kept for each, _, kept in path if each == ["compile"]), "it is slower"


def check_tuned_lanes(house):
    """A lane may be named as it was tuned, with other settings of its own, until cores or versions change."""
    outline = house.done("race", "cifar-mlp", "fake/tuned", "fake/cpu/tuned+malloc=system", "--dry-run", "--json").json
    assert [each["name"] for each in outline["lanes"]] == [
        "fake/cpu/threads=1+malloc=keep",
        "fake/cpu/malloc=system+threads=1",
    ]
    for words, says in (
        (("cifar-mlp", "fake/cuda/tuned"), "no tuning of cifar-mlp on it was confirmed here"),
        (("cifar-cnn", "fake/cpu/tuned"), "no tuning of cifar-cnn on it was confirmed here"),
        (("cifar-mlp", "fake/cpu/best+tuned"), "best and tuned both name all settings"),
    ):
        refused = house.run("race", *words, "--dry-run")
        assert refused.code == 2
        assert says in words_of(refused.err)
    (place,) = house.files()
    was = json.loads(place.read_text())
    was["machine"]["processor"]["cores_usable"] += 1
    del was["signature"]
    place.write_bytes(files.sign(json.dumps(was).encode(), house.home))
    refused = house.run("race", "cifar-mlp", "fake/cpu/tuned", "--dry-run")
    assert refused.code == 2
    assert "it was tuned in" in words_of(refused.err)
    assert "tune it again: laptime tune cifar-mlp fake/cpu" in words_of(refused.err)


@pytest.mark.long
def test_what_changes_the_learning_is_tried_only_where_it_is_allowed_and_shows_what_it_learns(house):
    """Next to its speed is what else it changes: how far the proof is off, and loss and accuracy after whole laps.

    With SGD, eight times the batch gets eight times the learning rate, in a word of the lane.
    """
    skill = '["fake/cuda*"]\nbatch_share = 0.1\n["fake/*bf16*lr=*"]\nskill = -0.3\n'
    allowed = ("--allow", "precision,batch,learning", "--laps", "1")
    answer, tuning = tuned(house, PLANTED + skill, "fake/cuda", *allowed, budget="15s")
    (lane,) = tuning["lanes"]
    assert {"bf16", "batch=8x", "lr=0.08"} <= set(lane["words"])
    assert worth(tuning, "bf16")["changes"] == "arithmetic"
    assert worth(tuning, "batch=8x+lr=0.08")["changes"] == "learning"
    assert 0 < house.kept()["beyond_budget_s"] < house.kept()["elapsed_s"]
    asked, winner = lane["learned"]
    assert [asked["lane"], winner["lane"]] == [lane["asked"], lane["winner"]]
    assert (asked["laps"], asked["over"], asked["items"]) == (1, "test", 10_000)
    assert asked["accuracy"] - winner["accuracy"] > 0.3
    page = words_of(answer.out)
    assert "bf16 changes the arithmetic: in the proof's 10 steps its loss is off by up to 1e-3 (allowed" in page
    assert "learned in 1 lap test loss test accuracy" in page
    assert f"{asked['accuracy']:.4f}" in page
    details = words_of(house.done("show", "--details").out)
    assert "batch=8x+lr=0.08 changes the learning." in details
    assert "learning differs: fake/cuda:0/" in details
    assert "--laps 1 --seeds 3 shows whether seeds explain it." in details
    assert not list((house.home / "checkpoints").rglob("*.npz")), "nothing can be resumed"
    (other,) = house.done("race", "cifar-mlp", "fake/cuda/tuned+batch=64", "--dry-run", "--json").json["lanes"]
    assert "lr=" not in other["name"], "the winner's learning rate is that of its batch"


@pytest.mark.long
def test_what_keeps_a_lane_from_its_laps_is_said(house):
    """The gain stays. Ctrl-C in the laps keeps what is there, and a lane that fails in them has its reason."""
    fails = '["fake/cpu/as-written"]\nfail = { how = "raise", phase = "lap 1" }\n'
    hangs = '["fake/cpu/*malloc*"]\nfail = { how = "hang", phase = "lap 1" }\n'
    house.script(PLANTED + fails + hangs)
    process = house.start("tune", "cifar-mlp", "fake/cpu", "--budget", "1s", "--laps", "1")
    house.read_until(process, "malloc=keep: begins")
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    (lane,) = house.kept()["answer"]["tuning"]["lanes"]
    assert lane["standing"] == "confirmed"
    why = [each["loss"]["missing"] for each in lane["learned"]]
    assert why == [
        "it ended in lap 1 of 1: RuntimeError: planted failure",
        "it ended in lap 1 of 1: it was stopped",
    ]
    assert "No loss and accuracy of fake/cpu: it ended in lap 1 of 1: RuntimeError" in words_of(answer.out)


@pytest.mark.long
def test_ctrl_c_keeps_the_best_so_far_and_calls_it_unconfirmed(house):
    """One single setting hangs, after the heats of the preset."""
    house.script(PLANTED + '["fake/cpu/compile"]\nfail = { how = "hang", phase = "build" }\n')
    process = house.start("tune", "cifar-mlp", "fake/cpu", "--budget", "60s")
    house.read_until(process, "search, round 2")
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    assert "which no fresh heats have confirmed" in words_of(answer.out)
    assert house.kept()["answer"]["tuning"]["lanes"][0]["standing"] == "not confirmed"


@pytest.mark.long
def test_ctrl_c_before_anything_gains_says_that_nothing_is_known(house):
    """It said that no settings make the lane faster, and `LANE/tuned` was the lane as asked."""
    house.script(NOTHING + '["fake/cpu/compile"]\nfail = { how = "hang", phase = "build" }\n')
    process = house.start("tune", "cifar-mlp", "fake/cpu", "--budget", "60s")
    house.read_until(process, "search, round 2")
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    assert "fake/cpu was not tuned: the search was interrupted" in words_of(answer.out)
    assert house.kept()["answer"]["tuning"]["lanes"][0]["standing"] == "not compared"


def test_a_lane_that_does_not_finish_is_not_tuned(house):
    house.script('["fake/*"]\nfail = { how = "raise", phase = "build" }\n')
    answer = house.run("tune", "cifar-mlp", "fake/cpu", "-q")
    assert answer.code == 3
    assert "fake/cpu was not tuned: RuntimeError: planted failure" in words_of(answer.out)


def test_a_lane_that_does_other_work_is_not_tuned(house):
    """There is nothing to compare its settings with."""
    house.script('["fake/*"]\nstray = 0.1\n')
    answer = house.run("tune", "cifar-mlp", "fake/cpu", "-q")
    assert answer.code == 4
    assert "fake/cpu was not tuned: it did other work." in words_of(answer.out)


@pytest.mark.long
def test_what_fails_or_does_other_work_is_out_with_its_reason(house):
    answer, tuning = tuned(house, FAILS, "fake/cpu", "--details")
    assert tuning["lanes"][0]["words"] == ["malloc=keep"]
    assert worth(tuning, "graph")["reason"] == "it did other work"
    assert "planted" in worth(tuning, "compile")["reason"]
    assert "graph: it did other work" in words_of(answer.out)


@pytest.mark.long
def test_the_lanes_own_settings_stay(house):
    """A setting that the lane names is not tuned."""
    _, tuning = tuned(house, PLANTED, "fake/cpu/threads=2")
    assert tuning["lanes"][0]["words"] == ["malloc=keep"]
    assert tuning["lanes"][0]["winner"] == "fake/cpu/threads=2+malloc=keep"


@pytest.mark.long
def test_several_lanes_are_compared_at_their_best(house):
    """In items per second, on the same fresh rounds."""
    script = PLANTED + '["fake/cuda*"]\ncompute_ms = 4.0\n'
    answer, tuning = tuned(house, script, "fake/cpu", "fake/cuda")
    (best,) = tuning["at_best"]
    assert best["factor"]["ratio"] == pytest.approx(10 * 0.8 / (1.95 * 0.8), rel=0.1)
    assert "as fast as fake/cpu at its best" in words_of(answer.out)


@pytest.mark.long
def test_the_cheapest_lane_at_its_best_is_not_the_fastest(house):
    """The card is ten times as fast, and an hour of it costs forty times as much."""
    gains = 'compute_ms = 40.0\nspread = 0.004\ngains = { "malloc=keep" = 1.5 }\n'
    house.script(f'["fake/*"]\n{gains}["fake/cuda*"]\ncompute_ms = 4.0\n')
    prices = ("--for", "money", "--prices", "cpu=0.5,cuda=20")
    answer = house.done("tune", "cifar-mlp", "fake/cpu", "fake/cuda", *prices, "--budget", "1s", "-q")
    tuning = house.kept()["answer"]["tuning"]
    gain = tuning["lanes"][0]["gain"]["ratio"]
    assert gain > 1.4, "one price: the cheapest is the fastest"
    assert tuning["at_best"][0]["factor"]["ratio"] == pytest.approx(10 / gain / 40, rel=0.05)
    page = words_of(answer.out)
    assert "fake/cpu does 1." in page
    assert "as much for the money with" in page
    assert "At its best, fake/cpu does the most for the money; fake/cuda:0 does 0.1" in page
    assert "Money a lap: fake/cpu" in page


@pytest.mark.long
def test_a_budget_that_is_too_small_is_said(house):
    """Something is always raced: the lane and what the preset sets."""
    answer, tuning = tuned(house, PLANTED + SLOW_START, budget="1s")
    assert tuning["lanes"][0]["standing"] in {"confirmed", "not confirmed"}
    assert "the budget had no room for it" in {each["reason"] for each in tuning["lanes"][0]["settings"]}
    assert answer.code == 0


@pytest.mark.long
def test_the_time_that_was_given_is_spent_and_what_was_not_tried_is_in_the_headline(house):
    """Nothing seems better, so no time has to be kept for a confirming race: more is tried."""
    script, budget_s = NOTHING + SLOW_START.replace("1.0", "0.3"), 4
    answer, tuning = tuned(house, script, "fake/cpu", "--allow", "precision,batch", budget=f"{budget_s}s")
    (lane,) = tuning["lanes"]
    untried = [each for each in lane["settings"] if each["reason"] == "the budget had no room for it"]
    assert untried, "the budget is too long for this test"
    record = house.kept()
    heats = sum(len(each["heats"]) for each in record["lanes"])
    assert record["elapsed_s"] * (1 + 1.3 * 2 / heats) >= budget_s, "another pair would have fitted"
    assert re.search(r"\d+ of \d+ sets of settings were tried: there was no time for the others\.$", tuning["says"])
    assert tuning["says"] in words_of(answer.out)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--allow", "speed"), "--allow speed: expected some of precision, batch, learning"),
        (("--allow", "learning"), "--allow learning: the learning rate changes no time, it goes with another batch"),
        (("--frameworks", "caffe"), "--frameworks caffe: it cannot run this here"),
        (("--for", "speed"), "--for speed: expected time, money, energy"),
        (("fake/cpu", "--for", "money"), "--for money: what an hour of cpu costs is not known"),
        (("fake/cpu", "--for", "energy"), "--for energy: the power of cpu cannot be read: fake lanes have a clock of"),
        (("--laps", "0"), "--laps 0: expected a whole number from 1 to 100,000"),
        (("fake/1xcpu",), "fake/1xcpu"),
    ],
)
def test_words_that_cannot_be_are_refused(house, words, says):
    house.script(PLANTED)
    answer = house.run("tune", "cifar-mlp", *words)
    assert answer.code == 2
    assert says in words_of(answer.err)
