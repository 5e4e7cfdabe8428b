"""Print data whole, or say why it could not be; opens nothing else of ours, so that help stays instant."""

from __future__ import annotations

import os
import sys

from laptime.errors import StoreError


class ReaderGone(Exception):  # noqa: N818  it is no error of ours
    """Whoever read our output has had enough; nothing is left to say, and nowhere to say it."""


def emit(text: str) -> None:
    """Write data to stdout, whole; a reader that has gone and a disk that is full are told apart."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
        raise ReaderGone from None
    except OSError as error:
        _drop_stdout()
        raise StoreError(
            f"the result could not be printed: {error.strerror}", "laptime list has what was saved"
        ) from None


def _drop_stdout() -> None:
    """What is still buffered cannot be written: let Python's last flush go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
