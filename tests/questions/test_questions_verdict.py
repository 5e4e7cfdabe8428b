"""KEEP, DISCARD or UNDECIDED: by the interval of a candidate's rounds, the wanted gain, and the same work."""

from __future__ import annotations

import math

import pytest

from laptime.model.ask import Ask
from laptime.model.errors import ExitCode, TrainingError, UsageError
from laptime.model.other_work import OtherWork
from laptime.model.plan import Subject
from laptime.model.quantities import Missing
from laptime.model.record import Comparison
from laptime.model.stats import log_mean_interval
from laptime.questions.subject import name_apart
from laptime.questions.verdict.nouns import ERRORS
from laptime.questions.verdict.reduce import alpha_at, is_refusal, judge_change, judge_left, looks, refuse_change
from laptime.questions.verdict.speed import names_the_candidate, pair_of, verdict_pace

FINE = (("old.py:f", None), ("new.py:f", None))


def comparison(ratio, half):
    """A factor whose interval reaches by `half` to both sides."""
    return Comparison(
        "new", "base", ratio, ratio / (1 + half), ratio * (1 + half), "faster", settled=True, pairs=9, same_work=True,
        alpha=0.02,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "half", "word", "cause"),
    [
        (1.05, 0.03, "KEEP", "faster"),
        (1.02, 0.015, "KEEP", "faster"),
        (1.012, 0.01, "KEEP", "faster"),  # nearer to the gain than to none, and may be all of it
        (1.008, 0.006, "DISCARD", "no gain"),
        (1.0, 0.01, "DISCARD", "no gain"),
        (0.95, 0.03, "DISCARD", "slower"),
        (1.0, 0.03, "UNDECIDED", "wide"),
        (1.05, 0.06, "UNDECIDED", "wide"),
        (0.99, 0.05, "UNDECIDED", "wide"),
    ],
)
def test_a_gain_of_two_per_cent(ratio, half, word, cause):
    found = judge_change(comparison(ratio, half), None, 0.02, gate=False)
    assert (found.word, found.cause) == (word, cause)
    assert f"{ratio:.3f}x" in found.says
    assert bool(found.needs) == (word == "UNDECIDED")


@pytest.mark.parametrize(
    ("ratio", "half", "word", "cause"),
    [
        (1.0, 0.01, "KEEP", "not slower"),
        (1.3, 0.1, "KEEP", "not slower"),
        (0.95, 0.03, "DISCARD", "slower"),
        (0.995, 0.002, "KEEP", "not slower"),  # slower for certain, and by too little to matter
        (0.97, 0.05, "UNDECIDED", "wide"),
    ],
)
def test_a_gate_keeps_what_is_not_slower(ratio, half, word, cause):
    found = judge_change(comparison(ratio, half), comparison(1.0, half / 2), 0.02, gate=True)
    assert (found.word, found.cause) == (word, cause)


def test_the_base_against_itself_widens_a_gate():
    """A machine that changes from round to round decides nothing."""
    alone = judge_change(comparison(0.95, 0.03), comparison(1.0, 0.03), 0.02, gate=True)
    beside = judge_change(comparison(0.95, 0.03), comparison(1.0, 0.08), 0.02, gate=True)
    assert (alone.word, beside.word) == ("DISCARD", "UNDECIDED")
    assert math.isclose(beside.factor.high / beside.factor.ratio, 1.08)
    moved = judge_change(comparison(0.95, 0.03), comparison(1.06, 0.03), 0.02, gate=True)
    assert (moved.word, moved.cause) == ("UNDECIDED", "busy")


def test_on_a_busy_machine_only_what_is_far_off_decides():
    """An interval that is three times as wide."""
    near = judge_change(comparison(1.05, 0.03), None, 0.02, gate=False, busy="others took 1.0 cores")
    assert (near.word, near.cause, near.needs) == ("UNDECIDED", "busy", "a quieter machine")
    assert "others took 1.0 cores" in near.says
    far = judge_change(comparison(1.5, 0.05), None, 0.02, gate=False, busy="others took 1.0 cores")
    assert (far.word, far.cause) == ("KEEP", "faster")
    assert math.isclose(far.factor.high / far.factor.ratio, 1.05**3)
    assert far.says.endswith("The machine was busy, so the interval is 3 times as wide.")


def test_too_few_rounds_decide_nothing():
    missing = Missing("one pair")
    bare = Comparison("new", "base", 2.0, missing, missing, "faster", settled=False, pairs=1, same_work=True, alpha=1)
    for found in (None, bare):
        verdict = judge_change(found, None, 0.02, gate=False)
        assert (verdict.word, verdict.cause) == ("UNDECIDED", "early")


def test_what_needs_no_factor_comes_first():
    assert refuse_change(FINE, None) is None
    other = OtherWork("other network", "their dropout is 0.1 and 0.2")
    assert refuse_change(FINE, other).says == "it does other work: their dropout is 0.1 and 0.2."
    smaller = OtherWork("other batch size", "its batches have 32 items, and those of the base 64")
    assert refuse_change(FINE, smaller).cheat == "other batch size"
    differs = OtherWork("other computation", "its loss differs by 1e-3 at step 1")
    trick = refuse_change(FINE, differs, OtherWork("changed clock", "it replaced time.time, by which it is judged"))
    assert (trick.word, trick.cause, trick.cheat) == ("DISCARD", "cheat", "changed clock")
    assert refuse_change(FINE, Missing("no proof was taken")).cause == "unproven"
    assert refuse_change((FINE[0], ("new.py:f", "out of memory")), None).word == "DISCARD"
    assert refuse_change((("old.py:f", "out of memory"), FINE[1]), None).word == "UNDECIDED"


REFUSED = (
    "own.py, line 15: PermissionError: [Errno 13] Permission denied: 'last.pt'",
    "own.py, line 15: OSError: [Errno 30] Read-only file system: 'last.pt'",
    "RuntimeError: [enforce fail at inline_container.cc:747] . open file failed with strerror: Read-only file system",
    "own.py, line 3: OSError: [Errno 101] Network is unreachable",
    "own.py, line 3: gaierror: [Errno -3] Temporary failure in name resolution",
    "the sandbox of the heat could not be set: No space left on device",
)


@pytest.mark.parametrize("why", REFUSED)
def test_what_a_sandbox_refuses_is_no_fault_of_a_candidate(why):
    """The path is named, the rule, and what to do; and of a base it says the same."""
    for lanes in ((FINE[0], ("new.py:f", why)), (("old.py:f", why), FINE[1])):
        found = refuse_change(lanes, None)
        assert (found.word, found.cause) == ("UNDECIDED", "sandbox")
        assert why in found.says
        assert found.says.endswith("In a verdict, a training can write temporary files alone, and has no network.")
        assert "tempfile.gettempdir()" in found.needs
    assert not is_refusal("own.py, line 15: RuntimeError: there are no data here")


def test_an_error_of_a_candidate_discards_it_unless_its_sandbox_caused_it():
    for says, word, code in (("it broke", "DISCARD", ExitCode.NO), (REFUSED[0], "UNDECIDED", ExitCode.UNFINISHED)):
        with pytest.raises(TrainingError, match=rf"^{word}: it does not train: ") as error, names_the_candidate("new"):
            raise TrainingError(says, "", "new")
        assert error.value.exit_code == code
    with pytest.raises(TrainingError, match=r"^it broke$"), names_the_candidate("new"):
        raise TrainingError("it broke", "", "old")
    with pytest.raises(TrainingError, match=r"^UNDECIDED: the base does not train: "), names_the_candidate("new"):
        raise TrainingError(REFUSED[0], "", "old")


def test_what_is_left_behind_is_named():
    found = judge_left(("/dev/shm/kept", "/dev/shm/more"))
    assert (found.word, found.cause) == ("UNDECIDED", "sandbox")
    assert "/dev/shm/kept" in found.says


@pytest.mark.parametrize("planned", [3, 4, 5, 20, 101, 200])
def test_all_looks_together_spend_the_errors(planned):
    """Whenever it ends: at an early look, or at the last."""
    early = looks(planned)
    assert all(each < planned for each in early)
    spent = [alpha_at(each, planned, final=False) for each in early]
    for end in range(1, planned + 1):
        before = sum(alpha for each, alpha in zip(early, spent, strict=True) if each < end)
        assert before + alpha_at(end, planned, final=True) == pytest.approx(ERRORS)


def test_an_early_look_spends_little_however_long_the_verdict_may_take():
    """A budget may have room for more rounds than were expected, and the last look has most of the errors."""
    assert {alpha_at(4, planned, final=False) for planned in (5, 20, 200)} == {0.02 * ERRORS}
    assert alpha_at(20, 40, final=True) == pytest.approx(0.9 * ERRORS)
    forked, gate = (verdict_pace(Ask("train.py:f", budget_s=budget_s), lanes, forks=True).heats_max
                    for budget_s, lanes in ((90.0, 2), (600.0, 3)))  # fmt: skip
    assert (forked, gate) == (44, 200)


def test_four_rounds_that_agree_by_chance_are_not_kept():
    """An edit that changes nothing, on NumPy with two threads: 1.027x, whose rounds differed by 0.8 %."""
    rounds = [1.027 * each for each in (0.9912, 1.0065, 0.9957, 1.0066)]

    def judged(alpha):
        found = log_mean_interval(rounds, alpha)
        return judge_change(
            Comparison("new", "base", found.estimate, found.low, found.high, "faster", settled=False, pairs=4,
                       same_work=True, alpha=alpha), None, 0.02, gate=False,
        ).word  # fmt: skip

    assert judged(0.5 * ERRORS) == "KEEP"
    assert judged(alpha_at(4, 10, final=False)) == "UNDECIDED"


@pytest.mark.parametrize(
    ("given", "pair"),
    [
        (("a.py:f", "b.py:f"), ("a.py:f", "b.py:f")),
        (("git:main", "b.py:f"), ("git:main:b.py:f", "b.py:f")),
        (("git:main:a.py:f", "git:HEAD"), ("git:main:a.py:f", "git:HEAD:a.py:f")),
        (("a.py:f", "git:HEAD"), ("a.py:f", "git:HEAD:a.py:f")),
        (("a.py:f", "it.patch"), ("a.py:f", "patch:it.patch:a.py:f")),
        (("a.py", "it.patch"), ("a.py", "patch:it.patch:a.py")),
        (("git:main:a.py", "git:HEAD"), ("git:main:a.py", "git:HEAD:a.py")),
    ],
)
def test_a_commit_alone_has_the_file_of_the_other(given, pair):
    assert pair_of(*given) == pair


def test_two_scripts_of_one_name_are_called_by_their_folders():
    scripts = [
        Subject("train.py", "", None, None, None, None, "items", file=f"/work/{folder}/train.py", command=("python",))
        for folder in ("old", "new")
    ]
    named = name_apart(["old/train.py", "new/train.py"], scripts)
    assert [each.name for each in named] == ["old/train.py", "new/train.py"]
    named = name_apart(["train.py", "git:HEAD:train.py"], scripts)
    assert [each.name for each in named] == ["train.py", "HEAD:train.py"]


@pytest.mark.parametrize("given", [("git:main", "git:HEAD"), ("cifar-mlp", "b.py:f"), ("cifar-mlp", "git:HEAD")])
def test_what_is_no_pair_of_trainings_is_refused(given):
    with pytest.raises(UsageError) as refused:
        pair_of(*given)
    assert refused.value.hint


def test_rounds_that_have_nothing_in_common_decide_nothing():
    """On a busy machine an interval is three times as wide, and e to the power of it was no number."""
    found = judge_change(comparison(1.2, 500.0), None, 0.02, gate=False, busy="other processes took 1.9 cores")
    assert (found.word, found.cause) == ("UNDECIDED", "busy")
    assert found.factor is not None
    assert (found.factor.low, found.factor.high) == (0.0, float("inf"))
