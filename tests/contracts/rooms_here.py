"""Which back ends a contract suite is run on: those that can live in one process, or the one that is named.

The rooms of users' own steps have no training of ours. Keras has one engine a process, so `test_keras_contract.py`
starts the suites anew for each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import util
from pathlib import Path

NEEDS = {
    "fake": ("laptime",),
    "torch": ("torch",),
    "jax": ("jax",),
    "keras-tf": ("keras", "tensorflow"),
    "keras-jax": ("keras", "jax"),
    "keras-torch": ("keras", "torch"),
    "python": ("laptime",),
}
OF_STEPS = ("jax", "python")
ALONE = "LAPTIME_CONTRACT"
INSTALLED = [name for name, modules in NEEDS.items() if all(map(util.find_spec, modules))]
TOGETHER = [name for name in INSTALLED if not name.startswith("keras") and name not in OF_STEPS]
HERE = [os.environ[ALONE]] if ALONE in os.environ else TOGETHER


def run_alone(suites: list[Path], framework: str, folder: Path) -> tuple[int, str]:
    """Run suites on one framework, in a process that has no other; give its exit code and last words.

    Compiled code is kept in the folder.
    """
    quick = {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    command = [sys.executable, "-m", "pytest", *map(str, suites), "-p", "no:xdist", "-W", "default"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    ended = subprocess.run(
        command,
        env={**environment, **quick, ALONE: framework},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    return ended.returncode, ended.stdout[-4000:] + ended.stderr[-1000:] * (ended.returncode != 0)
