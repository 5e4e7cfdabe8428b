"""The processor's name and features, from what Linux says of x86 and ARM processors."""

from __future__ import annotations

import os

import pytest

from laptime.machine.look import _from_cpuinfo, look_at_processor

X86 = """\
processor	: 0
vendor_id	: GenuineIntel
model name	: Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz
cpu MHz		: 3600.000
flags		: fpu vme de fma avx avx2
bugs		: spectre_v1

processor	: 1
model name	: another one
flags		: fpu avx512f
"""
ARM_SERVER = """\
processor	: 0
BogoMIPS	: 243.75
Features	: fp asimd evtstrm aes bf16 sve
CPU implementer	: 0x41
CPU part	: 0xd40
"""
ARM_BOARD = """\
processor	: 0
model name	: ARMv7 Processor rev 3 (v7l)
Features	: half thumb neon
Hardware	: BCM2835
"""


@pytest.mark.parametrize(
    ("text", "name", "flags"),
    [
        (X86, "Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz", {"fpu", "vme", "de", "fma", "avx", "avx2"}),
        (ARM_SERVER, "0xd40", {"fp", "asimd", "evtstrm", "aes", "bf16", "sve"}),
        (ARM_BOARD, "ARMv7 Processor rev 3 (v7l)", {"half", "thumb", "neon"}),
    ],
)
def test_a_processor_is_read_from_what_linux_says(text, name, flags):
    """Name and flags of the first core; ARM calls them by other words."""
    assert (name, flags) == _from_cpuinfo(text)


def test_a_text_without_any_name_still_gives_one():
    """The architecture is better than nothing."""
    name, flags = _from_cpuinfo("processor : 0\n")
    assert name == os.uname().machine
    assert flags == set()


def test_this_processor_is_described():
    """No more cores are usable than are there, and at least one is."""
    found = look_at_processor()
    assert found.name
    assert 1 <= found.cores_usable <= found.cores_visible == os.cpu_count()
    assert set(found.features) <= {
        *("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "amx_fp16", "amx_tile"),
        *("asimd", "asimdhp", "bf16", "fma", "sve", "sve_bf16"),
    }


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_cores_that_this_process_may_not_use_are_not_counted(house):
    """A race that is pinned to one core has one."""
    core = min(os.sched_getaffinity(0))
    machine = house.raced("cifar-cnn", "fake/cpu", "--heats", "1", preexec_fn=lambda: os.sched_setaffinity(0, {core}))[
        "machine"
    ]
    assert machine["processor"]["cores_usable"] == 1
    assert machine["processor"]["cores_visible"] == os.cpu_count()
