"""Inference on the fake back end: the virtual clock makes every figure exact."""

from __future__ import annotations

import signal

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

INFER = ("infer", "cifar-cnn", "fake/cpu", "fake/cpu/best")
ONCE = (*INFER, "--heats", "1", "-q")
HEAT_KEYS = {
    *("process", "order", "round", "items_a_call", "first_call_ns", "calls_ns", "calls_noise", "calls_flag"),
    *("call_turns", "batches", "proofs", "marks"),
}


@pytest.fixture(scope="module")
def record(shared_house):
    """Ask two lanes once, for all who only read the record."""
    answer = shared_house.run(*INFER, "--json", "-q")
    assert answer.code == 0
    return answer.json


def lane_of(record, name="fake/cpu/as-written"):
    return next(lane for lane in record["answer"]["lanes"] if lane["lane"] == name)


def words_of(answer):
    return " ".join(answer.out.split())


def test_latency_is_exact(record):
    """A tenth of a step and a hundredth for the item: 11 ms of 100; half of that at its best."""
    for name, expected in (("fake/cpu/as-written", 11.0), ("fake/cpu/best", 5.5)):
        lane = lane_of(record, name)
        assert [lane[key]["median"] for key in ("p50_ms", "p95_ms", "p99_ms")] == pytest.approx([expected] * 3)
        assert lane["items_a_call"] == 1
        assert all(len(heat["calls_ns"]) >= 100 for heat in lane["heats"])


def test_throughput_is_exact(record):
    """N items in 100 ms * (0.1 + 0.01 N)."""
    found = {each["batch"]: each["items_per_s"]["median"] for each in lane_of(record)["batches"]}
    assert found == {size: pytest.approx(size / (0.1 * (0.1 + 0.01 * size))) for size in (1, 8, 64, 256)}


def test_the_first_answer_has_its_parts(record):
    """300 ms of first call, 200 of building; the process and the import take what they take here."""
    wait = lane_of(record)["wait"]
    assert (wait["first_call_s"], wait["network_s"]) == (pytest.approx(0.3), pytest.approx(0.2))
    assert wait["further_call_s"] == pytest.approx(0.011)
    assert wait["process_s"] > 0
    assert wait["import_s"] > 0


def test_heats_are_interleaved_and_kept_whole(record):
    """In turns: three heats of each, with all their calls and windows."""
    orders = {lane["lane"].split("/")[-1]: [heat["order"] for heat in lane["heats"]]
              for lane in record["answer"]["lanes"]}  # fmt: skip
    assert orders == {"as-written": [0, 2, 4], "best": [1, 3, 5]}
    heats = [heat for lane in record["answer"]["lanes"] for heat in lane["heats"]]
    assert all(heat.keys() == HEAT_KEYS for heat in heats)
    assert all(len(heat["call_turns"]) >= 4 for heat in heats)
    assert all(window["turn"] is not None for heat in heats for run in heat["batches"] for window in run["windows"])
    assert (record["question"], record["status"], record["ask"]["infer"]) == ("infer", "finished", True)


def test_heats_run_one_after_another_if_asked(house):
    """A B, B A, and the page says why."""
    answer = house.run(*INFER, "--heats", "2", "--alone", "--json", "-q")
    lanes = answer.json["answer"]["lanes"]
    assert [[heat["order"] for heat in lane["heats"]] for lane in lanes] == [[0, 3], [1, 2]]
    assert all(heat["call_turns"] == [] for lane in lanes for heat in lane["heats"])
    assert "the heats ran one after another: --alone asks for it" in words_of(house.run("show", "latest"))


def test_factors_are_twice_with_an_interval(record):
    """Of a single call, and at each batch size."""
    factors = record["answer"]["factors"]
    assert [each["batch"] for each in factors] == [None, 1, 8, 64, 256]
    for each in factors:
        assert each["ratio"] == pytest.approx(2.0)
        assert (each["verdict"], each["pairs"], each["same_work"]) == ("faster", 3, True)


def test_every_lane_is_proven_by_its_answers(record):
    """Against float64; the reference is in the record."""
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same", "same"]
    assert record["answer"]["reference"]["exact"]["precision"] == "fp64"


def test_the_report_is_shown_again_and_listed(house):
    """Latency, throughput, the parts, the proof; `show` says the same, `list` has it in a line."""
    answer = house.run(*INFER, "--details")
    words = words_of(answer)
    assert "fake/cpu/best 5.50 ms ±0 % 5.50 ms ±0 % 5.50 ms ±0 % 2.00x faster (2.00-2.00)" in words
    assert "fake/cpu 90.9 444 865 962" in words
    assert "same answers: fake/cpu, fake/cpu/best yes (5e-8 from float64, 2e-6 allowed)" in words
    assert "3 heats each in turns, " in words
    assert "round 1 of at most 3; " in answer.err
    assert " more" in answer.err
    assert house.run("show", "latest", "--details").out == answer.out
    (row,) = house.run("list", "--json").json
    assert (row["question"], row["summary"]) == ("infer", "2 lanes, answers, fake/cpu/best 2.00x faster than fake/cpu")


def test_a_batch_without_memory_is_a_result(house):
    """Its size is a DNF with its reason, the next one is measured; killed for it, what came before is kept. Exit 0."""
    fail = '["fake/cpu{}"]\nfail = {{ how = "{}", phase = "batch 64" }}\n'
    house.script(fail.format("/best", "memory") + fail.format("/as-written", "kill"))
    answer = house.run(*ONCE, "--details")
    assert answer.code == 0
    words = words_of(answer)
    assert "fake/cpu/best 182 889 DNF 1,925" in words
    assert "fake/cpu/best batch 64: out of memory: planted: 64 GiB asked, 24 GiB there" in words
    assert "fake/cpu 90.9 444 DNF left out" in words
    assert "fake/cpu batch 64: killed by SIGKILL: most often the system ran out of memory" in words
    assert "fake/cpu batch 256: not tried after batch 64" in words


def test_a_batch_that_would_take_too_long_is_left_out(house):
    """It says how long a call would take, and what makes room for it."""
    house.script('["fake/*"]\nitem_share = 1.0\n')
    answer = house.run(*ONCE, "--details")
    assert answer.code == 0
    assert "fake/cpu batch 256: left out: a call would take about 26 s; a longer --budget" in words_of(answer)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ('fail = { how = "kill", phase = "single calls", heat = 0 }', "in single calls: killed by SIGKILL"),
        ('fail = { how = "raise", phase = "batch 64", heat = 0 }', "in batch 64: RuntimeError: planted"),
    ],
)
def test_a_lane_that_fails_does_not_stop_the_others(house, script, reason):
    """Exit 3; where and why it ended; the other lane is asked whole."""
    house.script(f'["fake/*"]\n{script}\n')
    answer = house.run(*ONCE)
    assert answer.code == 3
    assert f"fake/cpu did not finish, {reason}" in words_of(answer)
    assert len(lane_of(house.kept(), "fake/cpu/best")["heats"]) == 1
    assert [lane["status"] for lane in house.kept()["lanes"]] == ["dnf", "ok"]


def test_a_lane_that_answers_otherwise_is_found_out(house):
    """Exit 4, and no factor."""
    house.script('["fake/cpu/best"]\nstray = 1e-3\n')
    answer = house.run(*ONCE, "--details")
    assert answer.code == 4
    assert "fake/cpu/best no: its answers differ by 1e-03 in fp32 (2e-06 allowed)" in words_of(answer)
    assert "not the same work" in answer.out
    assert "x faster" not in answer.out


@pytest.mark.long
def test_ctrl_c_keeps_finished_heats(house):
    """Exit 130, and a report of the rounds that were done."""
    house.script('["fake/*"]\nfail = { how = "hang", phase = "build", heat = 3 }\n')
    process = house.start(*INFER)
    house.read_until(process, "round 2 of at most 3")
    process.send_signal(signal.SIGINT)
    answer = house.finish(process)
    assert answer.code == 130
    assert "interrupted: 2 of 6 heats kept, " in answer.out
    assert "2.00x (one pair, no interval)" in words_of(answer)
    assert house.kept()["status"] == "interrupted"
    assert house.is_empty_within(10)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--laps", "3"), "No such option '--laps'; laptime tune, laptime verdict and laptime train have it"),
        (("fake/cpu/input=only",), "only loads, and answers nothing"),
        (("fake/cpu/lr=0.1",), "names a learning rate, and nothing is trained"),
        (("fake/cpu/batch=8",), "names a batch, and every lane is asked in batches of 1, 8, 64, 256"),
    ],
)
def test_what_makes_no_sense_is_refused(house, words, says):
    """Exit 2 before anything runs, with the flag and the way out; nothing is kept."""
    answer = house.run("infer", "cifar-cnn", "fake/cpu", *words)
    assert answer.code == 2
    assert says in " ".join(answer.err.split())
    assert house.files() == []


def test_the_old_spelling_of_a_command_says_the_new_one(house):
    """`race --infer` is `infer`; both at once are two commands, which are named to be pasted."""
    answer = house.done("race", "cifar-cnn", "fake/cpu", "--infer", "--dry-run")
    assert "`laptime race --infer` is now `laptime infer`" in answer.err
    assert answer.out == house.done("infer", "cifar-cnn", "fake/cpu", "--dry-run").out
    assert "10 laps" in house.done("race", "cifar-cnn", "fake/cpu", "--full", "--dry-run").out
    words = ("train", "cifar-cnn", "fake/cpu", "--dry-run")
    told = house.done(*words, "--epochs", "3", "--batch-size=64", "--learning-rate", "1e-3").out
    assert told == house.done(*words, "--laps", "3", "--batch", "64", "--lr", "1e-3").out
    both = house.done("race", "cifar-cnn", "fake/cpu", "--full", "--infer", code=2)
    assert "laptime train cifar-cnn fake/cpu && laptime infer cifar-cnn fake/cpu" in " ".join(both.err.split())
