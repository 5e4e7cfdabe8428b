"""The digest of a set of files: names and sizes, summed so that the difference of two digests names what changed.

Each name is hashed to a number below a prime; the digest holds how many files there are, the sum of these numbers,
and their sum weighted by the sizes. One file more is then the difference itself; one file that grew is a difference
whose quotient by that file's number is a small count of bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

PRIME = 2**61 - 1
LARGEST_CHANGE_BYTES = 2**40


@dataclass(frozen=True, slots=True)
class Tally:
    count: int
    names: int
    weights: int

    def __str__(self) -> str:
        return f"{self.count}-{self.names:016x}-{self.weights:016x}"


def take_tally(files: Mapping[str, int]) -> Tally:
    """Sum up files, given as sizes by name; the order is of no account."""
    names = weights = 0
    for name, size in files.items():
        number = _number(name)
        names += number
        weights += number * size
    return Tally(len(files), names % PRIME, weights % PRIME)


def describe_change(before: str, files: Mapping[str, int]) -> str | None:
    """Say in words how the files differ from a digest taken earlier; nothing if they do not."""
    now = take_tally(files)
    if str(now) == before:
        return None
    old = _read(before)
    if old is None:
        return "its digest is of another kind"
    names, weights = (now.names - old.names) % PRIME, (now.weights - old.weights) % PRIME
    more = now.count - old.count
    if more == 0:
        return _resized(weights, files) if names == 0 else "at least one file has another name"
    if more == 1:
        added = next((name for name, size in files.items() if _is_file(name, size, names, weights)), None)
        return f"{added} was added" if added else "one file was added, and others changed"
    if more == -1:
        return _removed(-names % PRIME, -weights % PRIME)
    return f"{more:,} files were added" if more > 0 else f"{-more:,} files were removed"


def _read(digest: str) -> Tally | None:
    try:
        count, names, weights = digest.split("-")
        return Tally(int(count), int(names, 16), int(weights, 16))
    except ValueError:
        return None


def _number(name: str) -> int:
    return 1 + int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "big") % (PRIME - 1)


def _is_file(name: str, size: int, names: int, weights: int) -> bool:
    return _number(name) == names and names * size % PRIME == weights


def _resized(weights: int, files: Mapping[str, int]) -> str:
    for name, size in files.items():
        change = weights * pow(_number(name), -1, PRIME) % PRIME
        change = change if change < PRIME // 2 else change - PRIME
        if abs(change) < LARGEST_CHANGE_BYTES and size >= change:
            return f"{name} has {size:,} bytes and had {size - change:,}"
    return "several files have another size"


def _removed(names: int, weights: int) -> str:
    size = weights * pow(names, -1, PRIME) % PRIME if names else PRIME
    return f"one file of {size:,} bytes was removed" if size < LARGEST_CHANGE_BYTES else "one file was removed"
