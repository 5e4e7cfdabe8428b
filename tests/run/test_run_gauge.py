"""A child measures what a device can do at most; what it reported before it failed is kept."""

from __future__ import annotations

from heat_orders import environment_for

from laptime.engine.run.scout import ask_peaks
from laptime.model.hardware import COPY_EXERCISE, Peak, PeakOrder
from laptime.model.machine import Device
from laptime.model.quantities import Missing

CPU = Device("cpu", "cpu", "fake processor", usable=True)


def ask(folder, script: str = "", framework: str = "fake", patience_s: float = 60.0) -> dict[str, Peak | Missing]:
    (folder / "fake.toml").write_text(f"[peaks]\n{script}\n")
    order = PeakOrder(framework, CPU, ("fp32", "bf16"), 2048, 1 << 28)
    environment = environment_for(folder, LAPTIME_FAKE=str(folder / "fake.toml"))
    return ask_peaks(order, environment, patience_s)


def test_a_child_tells_every_limit(tmp_path):
    """Best and middle of its windows, who reached them, and with what."""
    told = ask(tmp_path, '"cpu/fp32" = 2e11')
    assert list(told) == ["fp32", "bf16", COPY_EXERCISE]
    assert isinstance(told["fp32"], Peak)
    assert (told["fp32"].by, told["fp32"].of) == ("fake 1", "product of 2,048 rows")
    assert 1.999e11 < told["fp32"].median_per_s <= told["fp32"].best_per_s < 2.001e11


def test_what_a_child_told_before_it_died_stands(tmp_path):
    """The limit at which it died, and those that would have followed, have the end of its process for a reason."""
    told = ask(tmp_path, '"cpu/bf16" = "kill"')
    assert isinstance(told["fp32"], Peak)
    assert told["bf16"] == told[COPY_EXERCISE] == Missing("its process ended: SIGKILL")


def test_a_framework_that_cannot_measure_says_why(tmp_path):
    """Plain Python has no products of its own; a name that no room has is no room."""
    assert "a plain function has no products of its own" in ask(tmp_path, framework="python")["fp32"].missing
    assert ask(tmp_path, framework="nonsense")[COPY_EXERCISE].missing.startswith("no back end for 'nonsense'")


def test_a_child_that_does_not_answer_is_given_up(tmp_path, house):
    """No process can start within a thousandth of a second, and none is left."""
    assert ask(tmp_path, patience_s=0.001)["fp32"] == Missing("no answer within 0.001 s")
    assert house.is_empty_within(10)
