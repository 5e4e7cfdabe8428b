"""The table of precisions: how large a number is, and how far what was computed in it may be from float64.

A back end's own table says which type of its framework a precision is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrecisionRow:
    """One precision of a lane. What is allowed was measured of lanes that are known to be right."""

    bytes: int  # of a number in memory
    rounding: float  # half a unit in the last place, relative: the largest change by one rounding
    margin: float  # times that: rounding adds up like a random walk over the depth
    length: float  # by how much the movement of an array may be longer or shorter
    late_loss: float  # of a single step from the same weights on the same batch: the losses of two kernels
    late_move: float  # and how far all weights moved
    begin_loss: float  # losses of the same steps before rounding has grown
    near_loss: float  # and of those that follow
    peaks: tuple[str, ...]  # whose peak of a device counts, the first one that is known


# Correct float32 lanes stay within an eighth of the margin. Of two heats the first losses were alike to the last bit,
# of other kernels of the same sums to 1e-6. Three layers in bf16 were 9e-5 off in the first steps, and 2e-4 in the
# fourth.
PRECISIONS = {
    "fp32": PrecisionRow(
        bytes=4, rounding=2.0**-24, margin=8.0, length=3e-4, late_loss=1e-4, late_move=1e-2, begin_loss=2e-5,
        near_loss=2e-3, peaks=("fp32",),
    ),
    "tf32": PrecisionRow(
        bytes=4, rounding=2.0**-11, margin=2.0, length=0.05, late_loss=1e-2, late_move=0.1, begin_loss=1e-2,
        near_loss=2e-2, peaks=("tf32", "fp32"),
    ),
    "bf16": PrecisionRow(
        bytes=2, rounding=2.0**-8, margin=1.0, length=0.1, late_loss=5e-2, late_move=0.2, begin_loss=5e-2,
        near_loss=0.1, peaks=("bf16", "fp16", "fp32"),
    ),
    "fp16": PrecisionRow(
        bytes=2, rounding=2.0**-11, margin=2.0, length=0.05, late_loss=1e-2, late_move=0.1, begin_loss=1e-2,
        near_loss=2e-2, peaks=("fp16", "bf16", "fp32"),
    ),
}  # fmt: skip
NARROW = tuple(name for name, row in PRECISIONS.items() if row.bytes < PRECISIONS["fp32"].bytes)
