"""`python -m laptime.backends.torch.meeting_place tell|ask`: what the nodes of a torchrun tell each other in its store.

`tell` stores the line that it reads, and lives until its standard input ends: where torchrun keeps no store of its own,
this process is the store. `ask` waits for the line, and prints it.
"""

from __future__ import annotations

import datetime as dt
import os
import sys

from torch.distributed import TCPStore  # type: ignore[attr-defined]

KEY = "laptime/command"
WAIT = dt.timedelta(hours=1)  # torchrun ends this process if the other one is gone


def main() -> None:
    tells = sys.argv[1] == "tell"
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=tells and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        wait_for_workers=False,
        timeout=WAIT,
    )
    if tells:
        store.set(KEY, sys.stdin.readline().strip())
        sys.stdin.read()
    else:
        sys.stdout.write(store.get(KEY).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
