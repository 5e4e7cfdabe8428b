"""What a device is made to do again and again, so that it shows its limits: products, and a copy in its memory.

A back end knows how to start one and how to fence; which sizes, how often, and how long, the heat decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from laptime.model.missing import Missing


@dataclass(frozen=True, slots=True)
class Exercise:
    """`once` starts it one time, `fence` waits until all that was started is done.

    `work` is what one time counts: floating-point operations, or bytes read plus bytes written.
    """

    once: Callable[[], object]
    fence: Callable[[], object]
    work: float


class Exercises(Protocol):
    """One device, ready to be exercised by one framework."""

    by: str
    """The framework that computes, with its version."""

    @property
    def free_bytes(self) -> int | Missing:
        """Give how much of the device's memory is free."""

    @property
    def ways(self) -> tuple[str, ...]:
        """By which of its functions the framework can have a product here; the fastest is the device's."""

    def product(self, precision: str, rows: int, way: str) -> Exercise:
        """Multiply two square matrices of so many rows, whose values are kept in this precision."""

    def copy(self, size_bytes: int) -> Exercise:
        """Read so many bytes of the device's memory and write as many elsewhere in it."""


def product_work(rows: int) -> float:
    """Count a multiplication and its addition as two."""
    return 2.0 * rows**3


def copy_work(size_bytes: int) -> float:
    return 2.0 * size_bytes
