"""What a device can do at most is kept by device and driver; what does not fit is a reason to measure again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from laptime.model.errors import StoreError
from laptime.model.hardware import NOT_MEASURED, DeviceKey, DevicePeaks, Peak
from laptime.model.quantities import Missing
from laptime.store.references import load_peaks, save_peaks

KEY = DeviceKey("1f2e3d4c-0000-0000-0000-000000000001", "NVIDIA H100", "580.65.06")
PEAKS = DevicePeaks(
    KEY.device,
    KEY.label,
    KEY.driver,
    "2026-11-22T10:00:00+00:00",
    {"fp32": Peak(5e13, 4.9e13, "torch 2.13.0", "product of 8,192 rows"), "copy": Peak(3e12, 2.9e12, "jax 1")},
    {"fp16": Missing("torch: out of memory")},
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Return every test a home of its own."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "peaks"


def test_peaks_come_back_as_they_were_kept(home):
    """Rates, who reached them, and what is absent; in one file, named so that it is known by eye."""
    path = save_peaks(PEAKS)
    assert load_peaks(KEY) == PEAKS
    assert list(home.iterdir()) == [path]
    assert path.name.startswith("1f2e3d4c-")


def test_a_device_that_nobody_measured_is_absent(home):
    """As long as there is no file of its own."""
    save_peaks(PEAKS)
    assert load_peaks(DeviceKey("another", "NVIDIA H100", KEY.driver)) == NOT_MEASURED


def test_another_driver_is_another_device():
    """A card is faster or slower under it; where no driver is known, none is another."""
    save_peaks(PEAKS)
    found = load_peaks(replace(KEY, driver="590.10"))
    assert "measured with driver 580.65.06, and this is 590.10" in found.missing
    assert load_peaks(replace(KEY, driver="")) == PEAKS


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b'{"shape": "one"}', b'{"peaks": {}}', b"[" * 100_000])
def test_a_damaged_file_is_one_to_measure_anew(data):
    """It is reported, and is replaced."""
    path = save_peaks(PEAKS)
    path.write_bytes(data)
    assert "damaged; laptime devices --measure measures them again" in load_peaks(KEY).missing
    save_peaks(PEAKS)
    assert load_peaks(KEY) == PEAKS


@pytest.mark.parametrize("change", [{"shape": 0}, {"shape": 99, "peaks": None}, {"peaks": None}])
def test_a_file_of_another_version_is_one_to_measure_anew(change):
    """Its rates may mean something else."""
    path = save_peaks(PEAKS)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert "kept by another version of laptime" in load_peaks(KEY).missing


def test_a_file_of_another_device_is_not_believed():
    """One that was renamed by hand must not speak for this device."""
    path = save_peaks(PEAKS)
    save_peaks(replace(PEAKS, device="other")).rename(path)
    assert isinstance(load_peaks(KEY), Missing)


@pytest.mark.parametrize("device", ["a/b", "../up", "", ".", "AMD EPYC (R) 9755, 2 cores", "x" * 300, "плата"])
def test_a_device_never_leaves_the_folder(device, home):
    """Whatever it is called."""
    save_peaks(replace(PEAKS, device=device))
    assert load_peaks(DeviceKey(device, "")) == replace(PEAKS, device=device)
    assert len(list(home.iterdir())) == 1


def test_a_folder_that_cannot_be_written_is_an_error_with_its_way_out(home):
    """Nothing is lost but the next race's limits; it is said all the same."""
    home.parent.mkdir()
    home.write_text("a file")
    with pytest.raises(StoreError, match=r"the peaks of NVIDIA H100 could not be saved in .*peaks") as caught:
        save_peaks(PEAKS)
    assert "LAPTIME_HOME" in caught.value.hint
