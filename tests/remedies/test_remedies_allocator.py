"""Freed memory that stays: counted in page faults, in a process of its own each."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys

import pytest

import laptime
from laptime.remedies.allocator import Allocator

# Blocks of 4 to 40 MB, made and dropped as a step makes and drops them.
STEPS = """\
import json, resource
import numpy as np
import laptime

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for step in range(20):
        for size in (1, 10, 5):
            np.ones(size << 19)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
before = faults()
kept = laptime.keep_memory()
faults()
print(json.dumps([before, faults(), bool(kept), kept.note]))
"""
# Another allocator, which is found before glibc's: a map for each block, with its size before it.
OTHERS = """\
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#define HEAD 64
#define SIZE(block) (*(size_t *)((char *)(block) - HEAD))

void *malloc(size_t size) {
    void *map = mmap(0, size + HEAD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return 0;
    SIZE((char *)map + HEAD) = size;
    return (char *)map + HEAD;
}
void free(void *block) { if (block) munmap((char *)block - HEAD, SIZE(block) + HEAD); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
    void *made = malloc(size);
    if (made && block) memcpy(made, block, SIZE(block) < size ? SIZE(block) : size);
    free(block);
    return made;
}
void *aligned_alloc(size_t alignment, size_t size) { return alignment <= HEAD ? malloc(size) : 0; }
void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = aligned_alloc(alignment, size);
    return *block ? 0 : 12;
}
"""


def run_steps(**environment):
    ended = subprocess.run(
        [sys.executable, "-c", STEPS],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(ended.stdout)


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library is not glibc")
def test_pages_are_no_longer_faulted_in_again():
    """Of each step's 64 MB every page, before; after it, next to none."""
    before, after, keeps, note = run_steps()
    assert keeps
    assert note.startswith("glibc 2.")
    pages = 20 * (64 << 20) / os.sysconf("SC_PAGE_SIZE")
    huge = 100  # where the system gives huge pages, there are that many fewer
    assert before > pages / huge / 8
    assert after < before / 10


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library is not glibc")
def test_another_allocator_is_named_and_left_alone(tmp_path):
    """It does nothing, and says whose memory it is."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler here to make another allocator")
    (tmp_path / "others.c").write_text(OTHERS)
    library = tmp_path / "libothers.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "others.c"], check=True)
    _, _, keeps, note = run_steps(LD_PRELOAD=str(library))
    assert not keeps
    assert f"memory is given out by {library}, and not by glibc" in note


def test_the_answer_is_true_or_false_by_itself():
    """And says why in both cases; asking never raises."""
    answer = laptime.keep_memory()
    assert isinstance(answer, Allocator)
    assert bool(answer) == answer.keeps
    assert answer.note
