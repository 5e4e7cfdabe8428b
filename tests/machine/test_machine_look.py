"""The machine as a whole: memory, system, and which frameworks are installed, none of them imported."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata, util

import psutil

from laptime.machine.look import look_at_machine, time_core


def test_the_machine_is_described():
    """Memory as the system counts it, and the versions that run."""
    machine = look_at_machine()
    assert machine.memory_bytes == psutil.virtual_memory().total
    assert machine.python == ".".join(map(str, sys.version_info[:3]))
    assert machine.system
    timed = time_core(machine).processor.core_score
    assert 300 < timed < 6_000, "as public scores of cores are"


def test_an_installed_framework_is_named_with_its_version_and_not_asked():
    """What it sees is a scout's business."""
    found = {each.name: (each.version, each.devices) for each in look_at_machine().frameworks}
    assert found["torch"] == (metadata.version("torch"), ())
    assert found["python"] == (platform.python_version(), ())


def test_looking_imports_no_framework():
    """Not even to find out whether it is there."""
    program = (
        "import sys; from laptime.machine.look import look_at_machine; look_at_machine(); "
        "print([each for each in ('torch', 'keras', 'jax', 'tensorflow', 'numpy') if each in sys.modules])"
    )
    asked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert asked.stdout == "[]\n"


def test_a_framework_that_is_not_there_is_absent(monkeypatch):
    """Keras needs its engine, too; the fake one is there only where it was asked for."""
    there = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "tensorflow" else there(name))
    machine = look_at_machine()
    assert machine.framework("keras-tf") is None
    assert machine.framework("keras-torch") is not None
