"""Candidates that only seem to gain: none is kept, and each is found out by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

CHEATS = Path(__file__).with_name("own_torch_cheats.py")
LANE = "torch/cpu/threads=1"  # on cores that other tests use, too, two threads wait for each other
# A plant, and the names by which it may be known; None where it gains nothing, and so is not kept.
KNOWN = {
    "half_clock": {"changed clock"},
    "half_clock_everywhere": {"changed clock"},  # also where laptime has taken it before
    "no_fence": {"changed fence"},
    "changed_laptime": {"changed laptime"},
    "fewer_steps": {"fewer items"},
    "smaller_batch": {"other batch size"},
    "repeated_batch": {"other data"},
    "leaked_labels": {"other data"},
    "frozen_layer": {"frozen weights"},
    "low_precision": {"other precision"},
    "evaluation": {"frozen weights"},
    "other_seed": {"other weights"},
    "loaded_weights": {"other weights"},
    "skipped_steps": {"skipped updates"},
    "early_stopping": {"skipped updates", "knows the judge"},
    "fewer_rows_later": {"knows the judge"},
    "smaller_batch_later": {"fewer items"},
    # By what is seen first: that few batches are different, that they are not the base's, or losses that fall too fast.
    "repeated_batch_later": {"repeated batches", "other data", "knows the judge"},
    "frozen_later": {"skipped updates", "knows the judge"},
    "judge_on_stack": {"knows the judge"},
    "low_precision_unless_judged": {"knows the judge"},
}


def judged(house, candidate, base="base"):
    words = ("verdict", f"{CHEATS}:{base}", f"{CHEATS}:{candidate}", LANE, "--budget", "20s", "--json", "-q")
    return house.run(*words).json


@pytest.mark.long
@pytest.mark.parametrize("candidate", [*KNOWN])
def test_a_cheat_is_discarded_by_its_name(torch_house, candidate):
    fields = judged(torch_house, candidate)
    if "error" in fields:  # it writes a file as it is imported, which the sandbox refuses
        assert fields["error"]["says"].startswith("UNDECIDED: it does not train"), fields
        return
    assert fields["verdict"] == "DISCARD", fields["reason"]
    assert fields["cheat"] in KNOWN[candidate], fields["reason"]


@pytest.mark.long
def test_work_on_a_thread_is_not_kept(torch_house):
    """It may or may not be done before the next step needs it: then nothing can be repeated, and nothing is proven."""
    fields = judged(torch_house, "on_a_thread")
    known = {"frozen weights", "other computation", "skipped updates", "knows the judge", "other update"}
    assert fields["verdict"] == "DISCARD" or fields["cause"] == "unproven", fields["reason"]
    assert fields["cheat"] in {None, *known}, fields["reason"]


@pytest.mark.long
def test_work_before_the_first_step_is_no_gain(torch_house):
    fields = judged(torch_house, "at_import", "slow_base")
    assert fields["verdict"] == "UNDECIDED", fields["reason"]


@pytest.mark.long
@pytest.mark.parametrize("candidate", ["same", "slows_the_base"])
def test_an_honest_candidate_and_one_that_reaches_for_the_base_are_not_accused(torch_house, candidate):
    """Each side has processes of its own: what one changes in its environment, the other does not see."""
    fields = judged(torch_house, candidate)
    assert fields["verdict"] != "KEEP", fields["reason"]
    assert fields["cheat"] is None, fields["reason"]


# Of the public suite (bench/cheats), the ones that a verdict once kept: each hides what it leaves out after the proof.
ONCE_KEPT = ("stops_training", "counted_in_the_state", "told_by_dropout")


@pytest.mark.long
@pytest.mark.parametrize("exhibit", ONCE_KEPT)
def test_an_exhibit_that_was_kept_is_other_work(torch_house, exhibit):
    file = Path(__file__).parents[2] / "bench" / "cheats" / f"{exhibit}.py"
    words = ("verdict", f"{file}:base", f"{file}:cheat", LANE, "--budget", "30s", "--json", "-q")
    fields = torch_house.run(*words).json
    assert (fields["verdict"], fields["cause"]) == ("DISCARD", "other work"), fields["reason"]
