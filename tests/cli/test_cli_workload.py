"""`laptime workloads NAME`: one training whole, for people and for programs."""

from __future__ import annotations

import pytest

from laptime import api
from laptime.api import showing
from laptime.model.frameworks import installed_version
from laptime.trainings.workloads import CATALOGUE


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_workload_is_shown_whole(shared_house, name):
    """Layers with their total, loss, optimizer, protocol and what was published; no line beyond the page."""
    answer = shared_house.run("workloads", name, env={"COLUMNS": "80"})
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    (total,) = [line for line in lines if line.startswith("total ")]
    assert total.split() == ["total", f"{CATALOGUE[name].parameters:,}"]
    facts = {"loss", "optimizer", "batch", "a lap", "data", "published"}
    assert facts == {fact for fact in facts for line in lines if line.startswith(f"{fact}  ")}
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_workload_is_an_object(shared_house, name):
    """The list's object, but with its layers as rows and its optimizer named."""
    answer = shared_house.run("workloads", name, "--json")
    assert (answer.code, answer.err) == (0, "")
    whole = answer.json
    listed = {row["name"]: row for row in shared_house.run("workloads", "--json").json}[name]
    assert listed.keys() == whole.keys()
    assert all(row.keys() == {"layer", "output_shape", "parameters"} for row in whole["layers"])
    assert whole["parameters"] == sum(row["parameters"] for row in whole["layers"])
    assert whole["optimizer"] == {"name": "sgd" if name == "cifar-mlp" else "adam", **listed["optimizer"]}
    assert {key: listed[key] for key in listed.keys() - {"layers", "optimizer"}}.items() <= whole.items()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_unknown_name_is_answered_with_the_nearest(shared_house, more):
    """Exit code 2, and nothing on stdout but the same error for programs, where they asked for JSON."""
    answer = shared_house.run("workloads", "scene-cnn", *more)
    assert answer.code == 2
    assert "unknown workload 'scene-cnn'; nearest: scenes-cnn" in answer.err
    assert (answer.json["error"]["says"] in answer.err) if more else (answer.out == "")


def test_the_environment_block_is_joined_from_this_machine():
    """Every part that the rooms tell, in one page; the frameworks were not asked, so only their versions stand."""
    page = showing.environment_as_text(api.devices(()), ["torch"], "scenes-cnn", None, 80)
    names = [name for line in page.splitlines() if (name := line.split("  ")[0])]
    assert names[:7] == ["laptime", "Python", "system", "processor", "memory", "torch", "images"]
    assert f"laptime    {installed_version()}" in page
    assert "(as published; not counted" in " ".join(page.split())
    assert page.splitlines()[-1].split() == ["total", "42,520,584"]
