"""Which card a number of CUDA's is, asked of a library in the place of CUDA's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2] / "src"
# Two cards, of which CUDA counts the second on the bus first; the third refuses.
CUDA = """
#include <stdio.h>
#include <string.h>
static int ready;
int cuInit(unsigned flags) { ready = 1; return (int)flags; }
int cuDeviceGet(int *device, int number) { *device = 7 - number; return !ready || number > 2; }
int NAME(unsigned char *uuid, int device) {
    memset(uuid, 0, 16);
    uuid[0] = 0xAB, uuid[15] = (unsigned char)device;
    return device == 5;
}
int cuDeviceGetPCIBusId(char *out, int length, int device) {
    snprintf(out, (unsigned)length, "0000:%02X:00.0", 0x50 + device);
    return device == 5;
}
"""
PROGRAM = "import json\nfrom laptime.engine.backends.cuda import identify_card\nprint(json.dumps([{}]))"


def ask(folder: Path, *numbers: int) -> list[dict[str, str]]:
    asked = ",".join(f"identify_card({number})" for number in numbers)
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(asked)],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(HOUSE)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ended.stdout)


@pytest.mark.parametrize("name", ["cuDeviceGetUuid_v2", "cuDeviceGetUuid"])
def test_cuda_tells_which_card_its_number_is(tmp_path, name):
    """By UUID and bus; a number that is not there, or a card that does not tell, gives nothing."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a library in CUDA's place needs a C compiler and Linux")
    (tmp_path / "cuda.c").write_text(CUDA)
    build = [compiler, "-shared", "-fPIC", f"-DNAME={name}", "-o", tmp_path / "libcuda.so.1", tmp_path / "cuda.c"]
    subprocess.run(build, check=True)
    assert ask(tmp_path, 0, 1, 2, 3) == [
        {"uuid": "ab000000-0000-0000-0000-000000000007", "bus": "0000:57:00"},
        {"uuid": "ab000000-0000-0000-0000-000000000006", "bus": "0000:56:00"},
        {},
        {},
    ]


def test_without_cuda_no_card_is_named(tmp_path):
    """A file that is no library is in its place, so that none of the system's own is found."""
    (tmp_path / "libcuda.so.1").write_text("no library")
    assert ask(tmp_path, 0) == [{}]
