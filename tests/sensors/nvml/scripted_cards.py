"""Scripts for scripted_nvml.c: cards as an H200 describes itself, and what is different about them."""

from __future__ import annotations

FIRST, SECOND = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
INSTANCES = ("MIG-cccccccc-0000-0000-0000-000000000003", "MIG-dddddddd-0000-0000-0000-000000000004")
NOT_SUPPORTED, NO_PERMISSION, UNKNOWN, LOST = "!3", "!4", "!999", "!15"
HANGS = "~"

Script = dict[tuple[object, str, int], str]

H200 = {
    ("Name", 0): "NVIDIA_H200",
    ("Capability", 0): "9,0",
    ("Use", 0): "99,26",
    ("NewMemory", 0): "150754820096,10727000000",
    ("Temperature", 0): "61",
    ("PowerUsage", 0): "470925",
    ("Field", 186): "483310",
    ("Field", 185): "470925",
    ("ClockInfo", 1): "1980",
    ("Reasons", 0): "4",
    ("Energy", 0): "5000000 5000700 5001400",
    ("Gpm", 0): "1",
    ("Metric", 2): "88.5",
    ("Computing", 0): "2147483647,500000000",
    ("Drawing", 0): NOT_SUPPORTED,
    ("EnforcedPowerLimit", 0): "700000",
    ("MaxClockInfo", 1): "1980",
    ("CurrPcieLinkGeneration", 0): "5",
    ("CurrPcieLinkWidth", 0): "16",
    ("MaxPcieLinkGeneration", 0): "5",
    ("MaxPcieLinkWidth", 0): "16",
    ("Mig", 0): "0,0",
    ("Ecc", 0): "1,1",
    ("Persistence", 0): "1",
    ("Display", 0): "0",
}
DRIVER: Script = {(-1, "DriverVersion", 0): "580.95.05", (-1, "CudaVersion", 0): "13000"}


def cards(*identities: tuple[str, str]) -> Script:
    """Return N H200, by UUID and bus, in NVML's order."""
    script: Script = {**DRIVER, (-1, "Count", 0): str(len(identities))}
    script |= {("*", name, argument): told for (name, argument), told in H200.items()}
    for number, (uuid, bus) in enumerate(identities):
        script |= {(number, "UUID", 0): uuid, (number, "Bus", 0): bus}
    return script


def one() -> Script:
    return cards((FIRST, "00000000:3B:00.0"))


def two() -> Script:
    return cards((FIRST, "00000000:3B:00.0"), (SECOND, "00000000:5E:00.0"))


def split() -> Script:
    """Return a card in MIG mode with two instances: the cards 100 and 102 of the script; number 1 was destroyed."""
    script = one() | {(0, "Mig", 0): "1,1", (0, "MigMost", 0): "7", (0, "Use", 0): NOT_SUPPORTED}
    for place, (number, uuid) in enumerate(zip((100, 102), INSTANCES, strict=True)):
        script |= {
            (0, "MigDevice", 2 * place): str(number),
            (0, "GpuInstance", 0): NOT_SUPPORTED,
            (0, "GpmInstance", 5 + place): str(number),
            (number, "GpuInstance", 0): str(5 + place),
            (number, "UUID", 0): uuid,
            (number, "Name", 0): "NVIDIA_H200_MIG_1g.18gb",
            (number, "NewMemory", 0): f"18000000000,{place + 1}000000000",
            (number, "Metric", 2): f"{10 * (place + 1)}",
        }
    return script


def lines(script: Script) -> str:
    return "".join(f"{card} {name} {argument} {told}\n" for (card, name, argument), told in script.items())
