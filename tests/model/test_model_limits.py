"""By what a device's peaks are found again, whichever framework speaks of it."""

from __future__ import annotations

from laptime.model.hardware import DeviceKey, key_of
from laptime.model.machine import Device, Processor
from laptime.model.quantities import Missing

CHIP = Processor("AMD EPYC 9755", "x86_64", 4, 2, Missing("none"))


def card(name: str = "cuda:0", **details: str) -> Device:
    return Device(name, "cuda", "NVIDIA H100", usable=True, details=details)


def test_a_processor_is_its_name_and_the_cores_that_may_be_used():
    """As all frameworks mean it, under whatever label."""
    for framework, label in (("torch", "processor"), ("jax", "the processor"), ("python", "")):
        cpu = Device("cpu", "cpu", label, usable=True)
        assert key_of(cpu, framework, CHIP) == DeviceKey("AMD EPYC 9755, 2 cores", "AMD EPYC 9755 (2 cores)")


def test_a_card_is_its_uuid_whatever_its_number():
    """As CUDA and the driver write it; the driver is kept separate."""
    first = key_of(card(uuid="GPU-1F2E", bus="0000:3b:00", driver="580.1"), "torch", CHIP)
    second = key_of(card("cuda:1", uuid="1f2e"), "jax", CHIP)
    assert (first.device, second.device) == ("1f2e", "1f2e")
    assert (first.driver, second.driver, first.label) == ("580.1", "", "NVIDIA H100")


def test_a_card_without_uuid_is_its_place_on_the_bus_else_its_label_and_number():
    """ROCm's builds tell the one, MPS and TPUs neither."""
    assert key_of(card(bus="3B:00.0"), "torch", CHIP).device == "0000:3b:00"
    assert key_of(card("cuda:1"), "torch", CHIP).device == "NVIDIA H100 cuda:1"


def test_a_fake_device_is_never_a_real_one():
    """Its rates are scripted."""
    assert key_of(Device("cpu", "cpu", "fake processor", usable=True), "fake", CHIP).device == "fake cpu"
