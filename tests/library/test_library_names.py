"""Each name of `import laptime` may be the first that a program takes: no module needs another one before it."""

from __future__ import annotations

import subprocess
import sys

import laptime

# Each name is taken in a fork that has no module of laptime yet, only what those import from elsewhere.
TAKE_EACH = """
import os, sys, warnings
import click, msgspec, numpy, psutil
warnings.simplefilter("error")
names = sys.argv[1:]
for name in names:
    child = os.fork()
    if not child:
        import laptime
        getattr(laptime, name)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


def test_each_name_may_be_the_first():
    places: dict[str, str] = {}
    for name in laptime.__all__:
        places.setdefault(getattr(getattr(laptime, name), "__module__", name), name)
    command = [sys.executable, "-c", TAKE_EACH, *sorted(places.values())]
    failed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert failed.stdout.split() == [], failed.stderr
