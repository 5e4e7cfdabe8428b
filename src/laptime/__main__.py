"""`python -m laptime` is the command `laptime`."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. Until it handles Ctrl-C itself, Ctrl-C ends the process without a traceback of imports."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from laptime.cli import main as cli  # noqa: PLC0415  it takes a tenth of a second

    cli.main()


if __name__ == "__main__":
    main()
