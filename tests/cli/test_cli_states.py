"""States of a training that cost time, by the commands that users type: in a race, in why, and in a watched script."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from house import EXIT_UNTRUSTED

HERE = Path(__file__).parents[1] / "backends"
MEMORISED, GROWS = (f"{HERE / 'own_memorised.py'}:{name}" for name in ("memorised", "grows"))
FLOWS_BACK = ("gradients of its weights", "gradients between its layers", "sums of its optimizer")


def is_intel() -> bool:
    """Whether this processor computes denormal numbers many times as slowly as others."""
    return "GenuineIntel" in Path("/proc/cpuinfo").read_text(encoding="utf-8")


def finding(record, *rules):
    return next(each for each in record["findings"] if each["rule"] in rules)


@pytest.mark.long
def test_steps_that_become_slow_are_named_with_their_first_one(torch_house):
    """Five times as slow from the twelfth step on, in each heat; and no numbers are denormal.

    Windows that other processes disturbed are left out: then a step soon after it is the first that was seen slow.
    """
    lanes = ("torch/cpu/threads=1", "torch/cpu/threads=1+malloc=keep")
    record = torch_house.raced(GROWS, *lanes, "--heats", "2", "--budget", "20s", "--sensors", "none")
    found = finding(record, "steps that become slow")
    step = found["evidence"]["step"]
    assert 12 <= step <= 20
    assert found["says"].startswith(f"torch/cpu/threads=1: from step {step} on a step takes ")
    assert (found["evidence"]["agree"], found["sure"]) == (2, "proven")
    assert found["evidence"]["times"][0] > 3
    assert "denormal numbers are not the reason" in found["says"]


@pytest.mark.long
def test_denormal_numbers_are_named_with_what_they_cost(torch_house):
    """The census finds them on any processor; a lane that takes them as 0 shows what they cost on this one."""
    lanes = ("torch/cpu/threads=1", "torch/cpu/threads=1+denormals=flush")
    record = torch_house.raced(MEMORISED, *lanes, "--heats", "2", "--budget", "2s", "--sensors", "none")
    plain, flushed = (lane["heats"][0]["heat"]["census"] for lane in record["lanes"])
    assert max(plain["shares"][each] for each in FLOWS_BACK) > 0.001
    assert (plain["flushed"], plain["types"], flushed["flushed"]) == (False, ["float32"], True)
    assert not any(flushed["shares"].values())
    found = finding(record, "denormal numbers", "steps that become slow")
    assert found["says"].startswith("torch/cpu/threads=1: ")
    assert "are denormal numbers" in found["says"]
    if is_intel():
        assert found["evidence"]["measured"] > 1.25
        assert found["advice"].startswith("torch.set_flush_denormal(True) (measured: ")


@pytest.mark.long
def test_why_names_denormal_numbers_first(torch_house):
    """And proves them on a processor that they slow down, once it had time for three pairs.

    Next to other tests a step may vary so much that it concludes nothing, and its exit code is that of such a record
    (or 0 where the house pardons it, because other processes were busy). That others share the processor may come
    first there: they do.
    """
    words = ("--budget", "20s", "--sensors", "none", "--json")
    answer = torch_house.run("why", MEMORISED, "torch/cpu/threads=1", *words)
    record = answer.json
    why = record["answer"]["why"]
    assert answer.code in ({0} if why["trusted"] else {0, EXIT_UNTRUSTED})
    oddity = next(each for each in why["causes"] if each["cause"] == "processor oddities")
    assert oddity["evidence"]["denormal numbers"]["share"] > 0.001
    if is_intel() and why["trusted"]:
        assert next(each for each in why["first"] if each != "device shared") == "processor oddities"
        assert oddity["evidence"]["oddity"] == "denormal numbers"
        pairs = sum(len(each["heats"]) for each in record["lanes"] if each["settings"]["denormals"] == "flush")
        assert oddity["standing"] in ({"proven"} if pairs > 2 else {"proven", "likely"})


@pytest.mark.long
def test_watch_names_them_in_a_script_that_nobody_changed(torch_house, tmp_path):
    place = tmp_path / "watched.json"
    words = ("watch", "--json", str(place), "--", sys.executable, str(HERE / "own_memorising.py"))
    torch_house.done(*words)
    record = json.loads(place.read_bytes())
    found = finding(record, "denormal numbers", "steps that become slow")
    assert "are denormal numbers" in found["says"]
    assert "torch.set_flush_denormal(True)" in found["advice"]
    census = record["answer"]["processes"][0]["census"]
    assert max(census["shares"].get(each, 0.0) for each in FLOWS_BACK) > 0.001
    assert not census["flushed"]
