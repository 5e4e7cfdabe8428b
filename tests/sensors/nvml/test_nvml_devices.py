"""`laptime devices` on a machine with five cards: crossed numbers, instances, one unseen, one lost, one that hangs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from scripted_cards import FIRST, HANGS, INSTANCES, LOST, SECOND, cards, lines, split

SPLIT, UNSEEN = "GPU-eeeeeeee-0000-0000-0000-000000000005", "GPU-ffffffff-0000-0000-0000-000000000006"
PLACES = (
    (FIRST, "00000000:3B:00.0"),
    (SECOND, "00000000:5E:00.0"),
    (SPLIT, "00000000:86:00.0"),
    ("GPU-99999999-0000-0000-0000-000000000007", "00000000:A0:00.0"),
    (UNSEEN, "00000000:AF:00.0"),
)
# What the fake framework counts: the fastest first, an instance by its own UUID, and two cards not at all.
SEEN = f"""\
[cards]
"cuda:0" = {{ uuid = "{SECOND}", bus = "0000:5e:00" }}
"cuda:2" = {{ bus = "3B:00.0" }}
"cuda:3" = {{ uuid = "{INSTANCES[0]}" }}
"cuda:4" = {{ uuid = "GPU-of-another-machine" }}
"""
# On this machine nobody has installed a framework.
BARE = """\
from importlib import util

there = util.find_spec
util.find_spec = lambda name, package=None: (
    None if name.partition(".")[0] in {"torch", "keras", "jax", "tensorflow"} else there(name, package)
)
"""


def machine():
    """Return the script: the split card and its instances are number 2, and number 3 does not answer."""
    third = {(2 if key[0] == 0 else key[0], *key[1:]): told for key, told in split().items() if key[0] in {0, 100, 102}}
    identity = {(2, "UUID", 0): SPLIT, (2, "Bus", 0): PLACES[2][1]}
    return cards(*PLACES) | third | identity | {(-1, "Handle", 3): LOST, (4, "Use", 0): "0,0"}


@pytest.fixture(scope="module")
def scripted(library, tmp_path_factory, shared_house):
    """Return the command on that machine."""
    folder = tmp_path_factory.mktemp("five")
    (folder / "machine").write_text(lines(machine()))
    (folder / "sitecustomize.py").write_text(BARE)
    shared_house.script(SEEN)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    hidden = {"LD_LIBRARY_PATH": str(library), "LAPTIME_TEST_NVML": str(folder / "machine"), "PYTHONPATH": path}
    return lambda *words, **more: shared_house.done("devices", *words, env={**hidden, **more})


@pytest.fixture(scope="module")
def rows(scripted):
    return scripted("--json").json


def by_uuid(rows):
    return {row["uuid"]: row for row in rows if row["kind"] == "card" and isinstance(row["uuid"], str)}


def test_every_device_is_matched_to_its_card(rows):
    """By UUID, else by place, whatever its number is."""
    found = {row["name"]: row["card"] for row in rows if row["framework"] == "fake"}
    assert found["cpu"] is found["cuda:1"] is None, "a processor, and one that cannot be used"
    assert found["cuda:0"] == {"name": "NVIDIA H200", "uuid": SECOND, "bus": "0000:5e:00"}
    assert (found["cuda:2"]["uuid"], found["cuda:3"]["uuid"]) == (FIRST, INSTANCES[0])
    assert "GPU-of-another-machine" in found["cuda:4"]["missing"]


def test_every_card_says_who_uses_it(rows):
    """The split card by its instance; one that nothing counts is not usable, with that reason."""
    told = by_uuid(rows)
    assert {name: told[name]["users"] for name in told} == {
        FIRST: ["fake cuda:2"],
        SECOND: ["fake cuda:0"],
        SPLIT: [],
        INSTANCES[0]: ["fake cuda:3"],
        INSTANCES[1]: [],
        UNSEEN: [],
    }
    assert (told[SECOND]["usable"], told[SECOND]["reason"]) == (True, None)
    assert (told[UNSEEN]["usable"], told[UNSEEN]["reason"]) == (False, "no framework here uses it")
    assert [told[name]["parent"] for name in INSTANCES] == [SPLIT, SPLIT]


def test_a_lost_card_is_listed_with_its_reason(rows):
    """It has no name and no place, but a reason, and the others are not hidden by it."""
    (lost,) = [row for row in rows if row["kind"] == "card" and not isinstance(row["uuid"], str)]
    assert (lost["name"], lost["usable"]) == ("NVML's card 3", False)
    assert lost["reason"] == "the card was lost (NVML: GPU is lost)"


def test_a_card_is_told_with_what_it_has_to_do_now(rows):
    told = by_uuid(rows)[FIRST]
    assert (told["busy_percent"], told["memory_used_bytes"], told["memory_bytes"]) == (99.0, 10727000000, 150754820096)
    assert [each["pid"] for each in told["processes"]] == [2147483647]
    assert (told["pcie_generation"], told["pcie_width"], told["ecc"], told["power_limit_mw"]) == (5, 16, True, 700000)
    assert by_uuid(rows)[UNSEEN]["busy_percent"] == 0.0


@pytest.mark.long
def test_variables_that_hide_cards_are_told(scripted):
    """The page names them as they are set; cards, their users and the lost one are on it."""
    page = scripted(CUDA_VISIBLE_DEVICES="1,0", COLUMNS="200").out
    assert "CUDA_VISIBLE_DEVICES=1,0" in page
    assert "NVIDIA driver" in page
    assert page.count("580.95.05") == 1
    assert "used by its instances" in page
    assert page.count("no framework here uses it") == 3
    assert "no framework here uses it: the card was lost (NVML: GPU is lost)" in page


def test_a_driver_that_hangs_holds_up_nobody(library, tmp_path):
    """Its silence is its reason; the rest of the machine is reported all the same."""
    (tmp_path / "machine").write_text(lines({**machine(), (-1, "Init", 0): HANGS}))
    program = (
        "import json, sys\nfrom laptime import api\n"
        "machine = api.devices((), patience_s=0.5)\n"
        "json.dump([machine.absent['NVIDIA'].missing, len(machine.cards), machine.processor.name], sys.stdout)"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "LAPTIME_TEST_NVML": str(tmp_path / "machine")}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=30
    )
    reason, _, processor = json.loads(ended.stdout)
    assert reason.startswith("NVIDIA's library (NVML) gave no answer for 0.")
    assert processor
