"""Whose code asks for a value of a tensor: the user's, PyTorch's or ours; and by which of a tensor's methods."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import torch

TORCH, OURS = f"{Path(torch.__file__).parent}/", f"{Path(__file__).parents[2]}/"
# All of a tensor's methods that give the host a value, and how users write them.
READERS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "__float__": "float()",
    "__int__": "int()",
    "__bool__": "bool()",
    "__index__": "int()",
    "cpu": ".cpu()",
    "numpy": ".numpy()",
    "__array__": ".numpy()",
    "__repr__": "print",
    "__format__": "print",
}


def is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((TORCH, OURS, "<"))


def users_frame(start: FrameType | None) -> FrameType | None:
    """Find the nearest frame of the user's own code."""
    while start is not None and not is_users(start):
        start = start.f_back
    return start


def name_place(start: FrameType) -> str:
    """Give the file and line of the user's code; where none is on the way, those of PyTorch's."""
    frame = users_frame(start)
    if frame is not None:
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    within: FrameType | None = start
    while within is not None and not within.f_code.co_filename.startswith(TORCH):
        within = within.f_back
    frame = within or start
    return f"torch/{frame.f_code.co_filename.removeprefix(TORCH)}:{frame.f_lineno}"


def caller(depth: int = 1) -> FrameType:
    """Give the frame that called whoever asks, or one further back."""
    return sys._getframe(depth + 1)  # noqa: SLF001  inspect's way to it costs a hundred times as much
