"""A framework that cannot be used makes its own lanes unusable, with the cause, and harms no other."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from laptime.model.frameworks import FRAMEWORKS
from long_cases import cases

# Keras is planted, whether it is installed or not.
KERAS_ROOMS = [
    row.name for row in FRAMEWORKS if row.family == "keras" and all(map(find_spec, {*row.modules} - {"keras"}))
]
BROKEN = {
    "raises": ('raise ImportError("libfancy.so.7: cannot open shared object file")', "libfancy.so.7: cannot open"),
    "wrong numpy": ('raise AttributeError("module numpy has no attribute float_")', "numpy has no attribute float_"),
    "exits": ("import sys; print('goodbye'); sys.exit(7)", "goodbye"),
}


def plant(folder, name, source, version="9.9"):
    """Put a package of this name before the installed one."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(source, encoding="utf-8")
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.mark.skipif(find_spec("keras") is None, reason="without Keras, nobody looks for its engines")
@pytest.mark.parametrize("way", cases("raises", long=[each for each in BROKEN if each != "raises"]))
def test_an_import_that_breaks_is_told_in_its_own_words(house, way):
    """Listed as unusable; refused where it is named; the fake lanes next to it can be planned."""
    source, says = BROKEN[way]
    env = plant(house.folder / "planted", "tensorflow", source)
    rows = house.done("devices", "--framework", "keras-tf", "--framework", "fake", "--json", env=env).json
    (row,) = [row for row in rows if row["framework"] == "keras-tf"]
    assert not row["usable"]
    assert says in row["reason"]
    assert all(row["usable"] for row in rows if row["framework"] == "fake" and row["kind"] == "cpu")
    done = house.done("race", "cifar-mlp", "keras-tf/cpu", "fake/cpu", code=2, env=env)
    assert "keras-tf" in done.err
    assert says in " ".join(done.err.split())


@pytest.mark.long
def test_a_broken_framework_is_left_out_of_every(house):
    """The others race, and it is said why it does not; those that take long to import are broken too."""
    planted = house.folder / "planted"
    plant(planted, "keras", "raise SystemExit('imported')", version="2.15.0")
    plant(planted, "jax", BROKEN["wrong numpy"][0])
    env = plant(planted, "torch", BROKEN["raises"][0])
    said = " ".join(house.done("race", "cifar-mlp", "--every", "--dry-run", env=env).out.split())
    assert "fake/cpu" in said
    assert "torch is left out" in said
    assert "libfancy.so.7" in said


@pytest.mark.long
def test_a_framework_that_is_too_old_is_said_so_before_it_is_imported(house):
    """Keras 2 has other words for everything."""
    env = plant(house.folder / "planted", "keras", "raise SystemExit('imported')", version="2.15.0")
    asked = [word for name in KERAS_ROOMS for word in ("--framework", name)]
    rows = house.done("devices", *asked, "--json", env=env).json
    reasons = {row["framework"]: row["reason"] for row in rows if (row["framework"] or "").startswith("keras")}
    assert sorted(reasons) == sorted(KERAS_ROOMS)
    assert set(reasons.values()) == {"keras 2.15.0 is too old: laptime needs 3.6 or newer"}
    done = house.done("race", "cifar-mlp", f"{min(reasons)}/cpu", code=2, env=env)
    assert "keras 2.15.0 is too old" in done.err
