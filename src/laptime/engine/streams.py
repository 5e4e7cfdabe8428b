"""Keep descriptors 0 to 2 for standard input, output and error."""

from __future__ import annotations

import os


def fill_closed_streams() -> None:
    """Open /dev/null where 0, 1 or 2 is closed.

    Otherwise the next file or pipe that is opened gets that number, and printed text goes into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
