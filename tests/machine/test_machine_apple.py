"""Apple's graphics processor, asked through a program that prints what `ioreg` prints, or does not."""

from __future__ import annotations

import pytest

from laptime.machine.apple import describe_apple_cards
from laptime.model.quantities import Missing

PRINTED = """+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x100000407, registered, matched, active, busy 0>
    {
      "model" = "Apple M1 Max"
      "PerformanceStatistics" = {"Alloc system memory"=9232809984,"Device Utilization %"=37,"In use system memory"=70}
    }
"""


@pytest.fixture
def ioreg(tmp_path):
    """Return a program in ioreg's place, which prints a file or fails."""
    program = tmp_path / "ioreg"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/printed"\n')
    program.chmod(0o755)
    (tmp_path / "printed").write_text(PRINTED)
    return program


def test_what_anybody_may_ask_is_shown(ioreg):
    (card,) = describe_apple_cards(ioreg)
    assert (card.maker, card.name, card.busy_percent, card.memory_used_bytes) == ("Apple", "Apple M1 Max", 37.0, 70)


def test_a_machine_without_it_says_so(ioreg, tmp_path):
    assert describe_apple_cards(tmp_path / "none") == Missing("this is no Mac")
    (tmp_path / "printed").write_text("")
    assert describe_apple_cards(ioreg) == Missing("ioreg shows no graphics processor")
    (tmp_path / "printed").unlink()
    told = describe_apple_cards(ioreg)
    assert isinstance(told, Missing)
    assert "gave no answer" in told.missing
