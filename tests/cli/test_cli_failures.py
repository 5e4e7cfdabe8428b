"""A lane that fails is a result: it says where and why, and the others go on."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

PHASES = ("build", "proof", "first step", "timing")
GOOD, BAD = "fake/cpu/as-written", "fake/cpu/best"
OTHERS = ("fake/cpu/bf16", "fake/cpu/batch=2x", "fake/cpu/batch=4x")


def script_for(how, phase="timing", heat=None, lane=BAD):
    """Let the second lane fail in this way, or another."""
    when = "" if heat is None else f", heat = {heat}"
    return f'["{lane}"]\nfail = {{ how = "{how}", phase = "{phase}"{when} }}\n'


def lanes_of(record):
    return {lane["name"]: lane for lane in record["lanes"]}


def words_of(answer):
    """Return what was printed as one line, however it was broken."""
    return " ".join(answer.out.split())


def race(house, *words):
    return house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2", *words)


@pytest.mark.parametrize(
    ("how", "said", "last"),
    [
        ("raise", "RuntimeError: planted failure, exit code 1", "| RuntimeError: planted failure"),
        ("exit", "the process ended on its own, exit code 7", "| planted exit"),
        ("kill", "killed by SIGKILL: most often the system ran out of memory", "peak memory "),
        ("memory", "out of memory: planted: 64 GiB asked, 24 GiB there", "peak memory "),
    ],
)
def test_a_lane_that_fails_has_its_row_and_the_other_its_figures(house, how, said, last):
    """Phase, reason, signal or exit code, memory and last words; exit code 3; the other lane runs all its heats."""
    failing = dict(zip(PHASES, (BAD, *OTHERS), strict=True))
    house.script("".join(script_for(how, phase, lane=lane) for phase, lane in failing.items()))
    answer = house.race("cifar-cnn", "fake/cpu", *failing.values(), "--heats", "2")
    assert answer.code == 3
    lanes = lanes_of(house.kept())
    assert [result["heat"]["process"]["status"] for result in lanes[GOOD]["heats"]] == ["ok", "ok"]
    assert lanes[GOOD]["step_ms"]["median"] == pytest.approx(100.0)
    for phase, lane in failing.items():
        assert f"{lane} DNF in {phase} " in words_of(answer)
        _, found, told = words_of(answer).partition(f"{lane} did not finish, in {phase}: {said}")
        assert found
        assert last in told.partition(" did not finish, in ")[0]
        assert (lanes[lane]["status"], lanes[lane]["step_ms"]) == ("dnf", None)
        (result,) = lanes[lane]["heats"]
        assert result["heat"]["process"]["dnf"]["phase"] == phase
        assert result["heat"]["process"]["dnf"]["signal"] == ("SIGKILL" if how == "kill" else None)
    assert house.kept()["status"] == "finished"


@pytest.mark.long
def test_lanes_that_chat_are_like_any_other(house):
    """What a framework prints, in whatever phase, reaches neither the table nor the messages."""
    chatting = dict(zip(PHASES, (BAD, *OTHERS), strict=True))
    house.script("".join(script_for("print", phase, lane=lane) for phase, lane in chatting.items()))
    answer = house.race("cifar-cnn", "fake/cpu", *chatting.values(), "--heats", "2")
    assert (answer.code, answer.err) == (0, "")
    assert "a framework that chats" not in answer.out
    assert "2.00x faster" in answer.out
    assert [lane["status"] for lane in house.kept()["lanes"]] == ["ok"] * 5


def test_a_loss_that_is_no_number_cannot_win(house):
    """However fast the lane was."""
    house.script(script_for("nan"))
    answer = race(house)
    assert answer.code == 3
    assert "in timing: the loss became nan in window 1: this lane does not learn, and cannot win" in words_of(answer)
    assert house.kept()["answer"]["comparisons"] == []


@pytest.mark.long
def test_lanes_that_hang_are_ended_when_patience_is_used_up(house):
    """Each one's whole group is gone before the race goes on, and nothing of it is left at the end."""
    hanging = dict(zip(PHASES[:3], (BAD, *OTHERS), strict=False))
    house.script("".join(script_for("hang", phase, lane=lane) for phase, lane in hanging.items()))
    answer = house.race("cifar-cnn", "fake/cpu", *hanging.values(), "--heats", "2", "--patience", "1s")
    assert answer.code == 3
    for phase, lane in hanging.items():
        assert f"{lane} did not finish, in {phase}: no message for 1 s; stopped" in words_of(answer)
    assert house.processes() == []
    assert len(lanes_of(house.kept())[GOOD]["heats"]) == 2


@pytest.mark.long
def test_heats_that_were_finished_before_a_failure_are_kept(house):
    """The lane did not finish, and what it measured before is shown and compared."""
    house.script(script_for("kill", "timing", heat=3))
    answer = house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "3")
    lane = lanes_of(house.kept())[BAD]
    assert answer.code == 3
    assert [result["heat"]["process"]["status"] for result in lane["heats"]] == ["ok", "dnf"]
    assert lane["step_ms"]["median"] == pytest.approx(50.0)
    assert len(lanes_of(house.kept())[GOOD]["heats"]) == 3
    assert "fake/cpu/best: 1 of 2 heats did not finish, in timing" in words_of(answer)


def test_a_first_lane_that_fails_leaves_the_others_to_each_other(house):
    """They are held against the first that is still in the race."""
    house.script('["fake/cpu/as-written"]\nfail = { how = "raise", phase = "build" }\n')
    answer = house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "fake/cuda", "--heats", "1")
    assert answer.code == 3
    assert "against fake/cpu/best" in answer.out
    (found,) = house.kept()["answer"]["comparisons"]
    assert (found["lane"], found["reference"]) == ("fake/cuda:0/as-written", "fake/cpu/best")
    assert found["ratio"] == pytest.approx(5.0)


def test_a_race_in_which_nobody_finishes_is_still_a_record(house):
    """Exit code 3, and the reasons of all."""
    house.script('["fake/*"]\nfail = { how = "memory", phase = "build" }\n')
    answer = race(house)
    assert answer.code == 3
    assert "No heat finished, " in answer.out
    assert [lane["status"] for lane in house.kept()["lanes"]] == ["dnf", "dnf"]


def test_a_lane_that_did_other_work_weighs_more_than_one_that_failed(house):
    """A result that cannot be trusted comes before one that is not whole."""
    house.script('["fake/cpu/best"]\nstray = 1e-3\n["fake/cuda:0/*"]\nfail = { how = "kill" }\n')
    assert house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "fake/cuda", "--heats", "1").code == 4


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ('["fake/*"]\nspeed = 1\n', 3, "LAPTIME_FAKE: unknown key speed"),
        ("this is no TOML", 2, "cannot be read: "),
    ],
)
def test_a_script_that_cannot_be_read_fails_in_words(house, script, code, said):
    """A mistake in a fake lane's script is that lane's failure; of a file that is none, nothing can be raced."""
    house.script(script)
    answer = house.race("fake/cpu", "--heats", "1")
    assert answer.code == code
    assert said in " ".join((answer.out + answer.err).split())
