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
    def products(self) -> tuple[str, ...]:
        """By which of its functions the framework can have a product here; the fastest is the device's."""

    @property
    def copies(self) -> tuple[str, ...]:
        """In which ways it can make the device's memory move bytes."""

    def product(self, precision: str, way: str, rows: int) -> Exercise:
        """Multiply two square matrices of so many rows, whose values are kept in this precision."""

    def copy(self, way: str, size_bytes: int) -> Exercise:
        """Read so many bytes of the device's memory, and write as many there or elsewhere in it."""


# What is written elsewhere, many processors read first, which nobody counts; in place nothing is moved but what is.
PRODUCT, CONVOLUTION = "product", "1x1 convolution"
ELSEWHERE, IN_PLACE = "copied", "turned in place"


def product_work(rows: int) -> float:
    """Count a multiplication and its addition as two."""
    return 2.0 * rows**3


def copy_work(size_bytes: int) -> float:
    """Count what is read and what is written."""
    return 2.0 * size_bytes
