"""Which back ends a contract suite is run on: those that can live in one process, or the one that is named.

Keras has one engine a process, so `test_keras_contract.py` starts the suites anew for each.
"""

from __future__ import annotations

import os
from importlib import util

NEEDS = {
    "fake": ("laptime",),
    "torch": ("torch",),
    "keras-tf": ("keras", "tensorflow"),
    "keras-jax": ("keras", "jax"),
    "keras-torch": ("keras", "torch"),
}
ALONE = "LAPTIME_CONTRACT"
INSTALLED = [name for name, modules in NEEDS.items() if all(map(util.find_spec, modules))]
TOGETHER = [name for name in INSTALLED if not name.startswith("keras")]
HERE = [os.environ[ALONE]] if ALONE in os.environ else TOGETHER
