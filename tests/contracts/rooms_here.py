"""Which back ends a contract suite is run on: those that can live in one process, or the one that is named.

The rooms of users' own steps have no training of ours. Keras has one engine a process, so `test_keras_contract.py`
starts the suites again for each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import util
from pathlib import Path
from typing import Any

from laptime.model.frameworks import FRAMEWORKS

ALONE = "LAPTIME_CONTRACT"
ROWS = [row for row in FRAMEWORKS if all(map(util.find_spec, row.modules))]
INSTALLED = [row.name for row in ROWS]
STEP_ROOMS = [row.name for row in ROWS if row.takes_steps_only]
KERAS_ROOMS = [row.name for row in ROWS if row.family == "keras"]
SHARING_ROOMS = [row.name for row in ROWS if row.spreads == "itself" and row.runs_own_code]
TOGETHER = [row.name for row in ROWS if row.family != "keras" and not row.takes_steps_only]
HERE = [os.environ[ALONE]] if ALONE in os.environ else TOGETHER
# What Keras does alike on each engine is tried in full on one: PyTorch compiles nothing, and is quickest.
IN_FULL = next((name for name in ("keras-torch", "keras-jax", "keras-tf") if name in INSTALLED), None)


# XLA compiles most networks of tests for a few steps: it leaves out what takes long and makes long trainings faster.
XLA_FLAGS = "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true"
XLA_FLAGS += " --xla_cpu_use_fusion_emitters=false"
# Some tests share a step out to two devices of the processor.
XLA_FLAGS += " --xla_force_host_platform_device_count=2"
XLA_THREADS = "4"


def here(each_engine: list[Any], once: list[Any]) -> list[Any]:
    """Return the cases to try here: on one engine all of them, on the others those that engines do in their own way."""
    return [*each_engine, *(once * (HERE == [IN_FULL]))]


def run_alone(suites: list[Path], framework: str, folder: Path) -> tuple[int, str]:
    """Run suites on one framework, in a process that has no other; give its exit code and last words.

    Compiled code is kept in the folder, and freed memory in the process: a suite builds the same networks many times.
    """
    quick = {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    quick |= {"XLA_FLAGS": XLA_FLAGS, "NPROC": XLA_THREADS}
    quick |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36)}
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
