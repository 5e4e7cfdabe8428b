"""`python -m laptime.engine.backends.torch.meeting_place tell|ask SECONDS BYTES`: where rank 0 of a torchrun is, in its
store.

`tell` stores the line that it reads, and lives until its standard input ends: where torchrun keeps no store of its own,
this process is the store. `ask` waits for the line, SECONDS at most, and prints the first BYTES of it. Other programs
may have written it.
"""

from __future__ import annotations

import datetime as dt
import os
import sys

from torch.distributed import TCPStore  # type: ignore[attr-defined]

KEY = "laptime/command"


def main() -> None:
    what, seconds, most = sys.argv[1:]
    tells = what == "tell"
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=tells and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        wait_for_workers=False,
        timeout=dt.timedelta(seconds=float(seconds)),
    )
    if tells:
        store.set(KEY, sys.stdin.readline().strip())
        sys.stdin.read()
    else:
        sys.stdout.write(store.get(KEY)[: int(most)].decode("utf-8", "replace").replace("\n", " ") + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
