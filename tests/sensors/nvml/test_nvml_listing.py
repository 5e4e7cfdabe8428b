"""The list of cards."""

from __future__ import annotations

from scripted_cards import FIRST, INSTANCES, NOT_SUPPORTED, SECOND, one, split, two

LIST = "tell(list_cards())"
NOT_TOLD = {"missing": "this card does not tell (NVML: Not Supported)"}
WHOLE = {"missing": "it is the whole card's affair"}


def test_a_card_is_listed_whole(watch):
    assert watch(one(), LIST) == [
        {
            "uuid": FIRST,
            "bus": "0000:3b:00",
            "name": "NVIDIA H200",
            "driver": "580.95.05",
            "cuda": "13.0",
            "capability": "9.0",
            "memory_bytes": 150754820096,
            "memory_used_bytes": 10727000000,
            "power_limit_mw": 700000,
            "pcie_generation": 5,
            "pcie_generation_most": 5,
            "pcie_width": 16,
            "pcie_width_most": 16,
            "sm_clock_most_mhz": 1980,
            "mig": False,
            "ecc": True,
            "persistence": True,
            "display": False,
            "processes": [{"pid": 2147483647, "memory_bytes": 500000000}],
            "parent": None,
            "maker": "NVIDIA",
            "busy_percent": 99.0,
            "reason": None,
            "module": "nvidia",
            "computes": True,
        }
    ]


def test_what_a_card_does_not_tell_is_missing(watch):
    silent = ("Name", "Capability", "NewMemory", "Mig", "Ecc", "Computing", "Use")
    (card,) = watch(one() | {(0, each, 0): NOT_SUPPORTED for each in silent}, LIST)
    assert card["capability"] == {"missing": "NVML does not tell"}
    names = ("name", "memory_bytes", "memory_used_bytes", "mig", "ecc", "processes", "busy_percent")
    assert {name: card[name] for name in names} == dict.fromkeys(names, NOT_TOLD)


def test_instances_follow_their_card(watch):
    card, *instances = watch(split(), LIST)
    assert (card["uuid"], card["parent"], card["mig"]) == (FIRST, None, True)
    assert [(each["uuid"], each["parent"], each["memory_bytes"]) for each in instances] == [
        (uuid, FIRST, 18000000000) for uuid in INSTANCES
    ]
    assert [(each["name"], each["power_limit_mw"]) for each in instances] == [("NVIDIA H200 MIG 1g.18gb", WHOLE)] * 2


def test_cards_are_listed_in_the_drivers_order(watch):
    assert [each["uuid"] for each in watch(two(), LIST)] == [FIRST, SECOND]
