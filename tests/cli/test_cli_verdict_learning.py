"""`laptime verdict --learning`: which of two trainings learns faster, whatever each of them says of itself."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from laptime.questions.verdict.nouns import VerdictFields

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "two_rates.py"
OTHERS = HERE / "own_learning.py"
STEPS = HERE.parents[1] / "examples" / "two_trainings.py"
SCHEMA = json.loads((HERE.parents[1] / "docs" / "verdict.schema.json").read_text(encoding="utf-8"))
LANE = "torch/cpu/threads=1"


def judged(house, candidate, *words, code=None, base=f"{EXAMPLE}:base"):
    """The fields of a verdict on a candidate. Laps and seeds are few, and the budget has room for a busy machine."""
    few = ("--learning", "--laps", "2", "--seeds", "5", "--budget", "3m")
    asked = ("verdict", base, candidate, LANE, *few, "--json", "-q", *words)
    fields = (house.run(*asked) if code is None else house.done(*asked, code=code)).json
    msgspec.convert(fields, VerdictFields, strict=True)
    assert list(fields) == SCHEMA["required"]
    assert fields["judged"] == "learning"
    assert (fields["ratio"], fields["low"], fields["high"], fields["rounds"]) == (None, None, None, 0)
    return fields


@pytest.mark.long
def test_a_rate_that_is_five_times_as_high_is_kept(torch_house):
    """As one that learns as well, faster; nothing says that it does the same work."""
    fields = judged(torch_house, f"{EXAMPLE}:higher_rate", code=0)
    assert (fields["verdict"], fields["cause"], fields["lane"]) == ("KEEP", "learns faster", LANE)
    assert fields["reason"].startswith("it learns as well, ")
    found = fields["learning"]
    assert found["low"] > 1
    assert found["candidate_s"] < found["base_s"]
    assert (found["loss_on"], found["seeds"] >= 4) == ("held-out", True)
    page = torch_house.done("show", fields["record"]).out
    said = " ".join(page.split())
    assert page.startswith("KEEP: it learns as well, ")
    assert "x as fast (" in said
    assert "same work" not in said
    assert "in its network, on 1,024 items that it holds out." in said
    assert "The work may differ." in said
    assert "At most one KEEP in 100 is of a change that learns no faster (p < 0.01)." in said
    assert "KEEP, learns faster" in torch_house.done("list", "--question", "verdict").out
    details = torch_house.done("show", fields["record"], "--details").out
    assert "steps in 24 legs from each of" in " ".join(details.split())
    report = torch_house.done("report", fields["record"], "--format", "html", "-o", "-").out
    assert "A curve a seed, judged alike for both." in report


@pytest.mark.long
def test_a_rate_that_is_lower_is_slower(torch_house):
    fields = judged(torch_house, f"{EXAMPLE}:lower_rate", code=1)
    assert (fields["verdict"], fields["cause"]) == ("DISCARD", "learns slower")
    assert fields["learning"]["high"] < 1


@pytest.mark.long
def test_a_twin_is_never_kept(torch_house):
    assert judged(torch_house, f"{OTHERS}:twin")["verdict"] != "KEEP"


@pytest.mark.long
@pytest.mark.parametrize(
    ("candidate", "word", "causes"),
    [
        ("tenth_of_the_loss", "DISCARD", {"learns slower", "learns worse"}),
        ("labels_in_the_inputs", "DISCARD", {"learns worse", "learns slower"}),
        ("four_batches", "DISCARD", {"learns worse", "learns slower"}),
        ("trained_before", "DISCARD", {"trained before"}),
        ("narrower", "UNDECIDED", {"other network"}),
        ("seed_of_its_own", "UNDECIDED", {"one seed"}),
    ],
)
def test_what_a_candidate_says_of_its_own_loss_counts_for_nothing(torch_house, candidate, word, causes):
    fields = judged(torch_house, f"{OTHERS}:{candidate}", code={"DISCARD": 1, "UNDECIDED": 3}[word])
    assert fields["verdict"] == word
    assert fields["cause"] in causes
    assert bool(fields["needs"]) == (word == "UNDECIDED")


def test_a_candidate_that_raises_is_discarded(torch_house):
    words = ("verdict", f"{EXAMPLE}:base", f"{OTHERS}:raises", LANE, "--learning", "--budget", "20s", "-q")
    answer = torch_house.done(*words, code=1)
    assert "DISCARD: it does not train: own_learning.py, line " in answer.err
    assert "RuntimeError: no loss here" in answer.err


def test_steps_of_their_own_are_undecided_and_it_says_what_would_decide(torch_house):
    words = ("verdict", f"{STEPS}:before", f"{STEPS}:after", "python/cpu", "--learning", "-q")
    page = " ".join(torch_house.done(*words, code=3).out.split())
    assert page.startswith("UNDECIDED: no loss can be judged alike for both: python/cpu/as-written")
    assert "What would decide: a base with a model and a loss of PyTorch" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--seeds", "5"), "--seeds 5: a verdict on the work is on the steps of one seed"),
        (("--laps", "2"), "--laps 2: a verdict on the work is on the steps of one seed"),
        (("--learning", "--gate"), "--gate with --learning"),
        (("--learning", "--alone"), "--alone with --learning"),
        (("--learning", "--seeds", "3"), "4 to 100"),
    ],
)
def test_options_of_the_other_verdict_are_refused(shared_house, words, says):
    asked = ("verdict", f"{EXAMPLE}:base", f"{EXAMPLE}:higher_rate", *words)
    assert says in " ".join(shared_house.done(*asked, code=2).err.split())
