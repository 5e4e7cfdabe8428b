"""Apple's graphics processor, asked through a program that prints what `ioreg` prints, or does not."""

from __future__ import annotations

import pytest
from trees import by_name, reasons

from laptime.machine.sensors.apple import AppleSensor, read_statistics
from laptime.model.errors import SensorError
from laptime.model.quantities import Missing

PRINTED = """+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x100000407, registered, matched, active, busy 0>
    {
      "IOClass" = "AGXAcceleratorG13X"
      "PerformanceStatistics" = {"In use system memory (driver)"=0,"Alloc system memory"=9232809984,"Tiler Utilization %"=3,"recoveryCount"=0,"Renderer Utilization %"=4,"Device Utilization %"=37,"In use system memory"=703643648}
      "gpu-core-count" = 8
    }
"""  # noqa: E501  as it is printed


@pytest.fixture
def ioreg(tmp_path):
    """Return a program in ioreg's place, which prints a file or fails."""
    program = tmp_path / "ioreg"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/printed"\n')
    program.chmod(0o755)
    (tmp_path / "printed").write_text(PRINTED)
    return program


def test_what_anybody_may_ask_is_shown(ioreg):
    """How busy it is and its memory; power and temperature are root's to ask."""
    sensor = AppleSensor(ioreg)
    assert sensor.probe() is None
    opened = sensor.open(1)
    assert by_name(opened, sensor.read()) == {
        ("apple-gpu", "busy_percent"): 37,
        ("apple-gpu", "memory_used_bytes"): 703643648,
    }
    assert set(reasons(opened).values()) == {"only root may ask for it here (powermetrics)"}
    sensor.close()


def test_a_figure_that_is_not_printed_is_absent(ioreg):
    """And one that is left out later has no figure."""
    printed = ioreg.with_name("printed")
    printed.write_text('"PerformanceStatistics" = {"Device Utilization %"=5}')
    sensor = AppleSensor(ioreg)
    opened = sensor.open(1)
    assert reasons(opened)["apple-gpu", "memory_used_bytes"] == "ioreg does not tell it"
    assert sensor.read() == (5,)
    printed.write_text("")
    assert sensor.read() == (None,)


def test_elsewhere_it_says_why(ioreg, tmp_path):
    """No Mac, no graphics processor, or a program that fails."""
    assert AppleSensor(tmp_path / "none").probe() == Missing(f"{tmp_path / 'none'} is not there: this is no Mac")
    ioreg.with_name("printed").write_text("")
    assert AppleSensor(ioreg).probe() == Missing("ioreg shows no graphics processor")
    ioreg.with_name("printed").unlink()
    probed = AppleSensor(ioreg).probe()
    assert "gave no answer" in probed.missing
    with pytest.raises(SensorError, match="gave no answer"):
        AppleSensor(ioreg).open(1)


def test_text_without_statistics_holds_none():
    """Whatever it says."""
    assert read_statistics('"gpu-core-count" = 8') == {}
