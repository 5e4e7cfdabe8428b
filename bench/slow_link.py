r"""Run a command on each end of a slow network link: two network namespaces of this machine, and packets that wait.

    python bench/slow_link.py --delay-ms 10 -- COMMAND             COMMAND runs on both ends
    python bench/slow_link.py --delay-ms 1 --rate-mbit 200 -- COMMAND

A packet arrives `--delay-ms` after it was sent, so a round trip takes twice that. With `--rate-mbit`, packets also wait
until those before them have left; each direction has the whole rate. No packet is lost. No root is needed: each end is
a user namespace of its own, in which you are root. Files are the same on both ends.

The command finds in its environment: LINK_NODE (0 or 1), LINK_ADDRESS (of this end), LINK_OTHER (of the other end)
and LINK_DEVICE (the network device). What it leaves running is killed at the end.

Both ends have this machine's host name, which does not lead to the link's addresses. So gloo needs the name of the
device, and torchrun needs the rank of the node and the address of node 0:

    python bench/slow_link.py --delay-ms 10 -- sh -c 'GLOO_SOCKET_IFNAME=$LINK_DEVICE torchrun \
        --nnodes 2 --nproc-per-node 1 --node-rank $LINK_NODE --master-addr 10.77.0.1 --master-port 29500 SCRIPT'

With `--rdzv-backend c10d --rdzv-endpoint 10.77.0.1:29500` in place of rank and address, torchrun needs two more
options, or the nodes wait for each other until a time limit: `--local-addr $LINK_ADDRESS`, and
`--rdzv-conf is_host=$((1 - LINK_NODE))`.

A process of this machine carries the packets. It takes processor time, and packets are late when all cores are busy.

From Python:

    with linked(delay_ms=10.0) as (left, right):
        processes = [subprocess.Popen(side.wrap(["command"])) for side in (left, right)]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slow_link_processes import DEVICE

ADDRESSES = ("10.77.0.1", "10.77.0.2")
# Large packets, so that the relay takes little of the processor.
MTU = 9000
TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2"}
UNSHARE = ("unshare", "--user", "--map-root-user", "--net")
PYTHON = (sys.executable, "-I", "-S", str(Path(__file__).with_name("slow_link_processes.py")))
# After Ctrl-C, for the commands to end on their own.
GRACE_S = 5.0


class LinkError(RuntimeError):
    """The link cannot be made here, or broke."""


@dataclass(frozen=True, slots=True)
class Side:
    """One end of the link."""

    node: int
    address: str
    other: str
    pid: int

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs a command on this end."""
        given = {"NODE": self.node, "ADDRESS": self.address, "OTHER": self.other, "DEVICE": DEVICE}
        enter = ["nsenter", "--user", "--net", "--preserve-credentials", "--target", str(self.pid), "--"]
        return [*enter, "env", *(f"LINK_{name}={value}" for name, value in given.items()), *command]


@contextlib.contextmanager
def linked(delay_ms: float = 0.0, rate_bits: float | None = None, mtu: int = MTU) -> Iterator[tuple[Side, Side]]:
    """Make both ends and the link between them. When the block ends, so does all that runs on the ends."""
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise LinkError(f"A slow link needs the command {tool}. Install {package}.")
    if delay_ms < 0:
        raise LinkError(f"The delay is {delay_ms} ms. Use 0 or more.")
    if rate_bits is not None and rate_bits <= 0:
        raise LinkError(f"The rate is {rate_bits} bit/s. Use more than 0, or no rate for no limit.")
    with contextlib.ExitStack() as stack:
        with contextlib.ExitStack() as devices:
            ends = [_hold(address, mtu, stack, devices) for address in ADDRESSES]
            _relay([device for _, device in ends], delay_ms, rate_bits or 0.0, stack)
        pids = [pid for pid, _ in ends]
        yield Side(0, *ADDRESSES, pids[0]), Side(1, *ADDRESSES[::-1], pids[1])


def _hold(address: str, mtu: int, stack: contextlib.ExitStack, devices: contextlib.ExitStack) -> tuple[int, int]:
    """Start a process in a namespace of its own. Return its number and its network device."""
    ours, its = socket.socketpair()
    with its:
        command = [*UNSHARE, *PYTHON, "hold", str(its.fileno()), address, str(mtu)]
        holder = _start(command, stack, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()])
    stack.callback(ours.close)
    _, found, _, _ = socket.recv_fds(ours, 16, 1)
    if not found:
        _, why = holder.communicate()
        raise LinkError(
            f"A slow link needs user namespaces and /dev/net/tun, which are not available here: {why.strip()}. "
            "Use a machine where `unshare --user --map-root-user --net true` works and /dev/net/tun may be opened."
        )
    devices.callback(os.close, found[0])
    return holder.pid, found[0]


def _relay(devices: Sequence[int], delay_ms: float, rate_bits: float, stack: contextlib.ExitStack) -> None:
    """Start the process that carries packets, and at the end see whether it did so until then."""
    command = [*PYTHON, "relay", *map(str, devices), str(round(delay_ms * 1e6)), str(rate_bits)]
    relay = _start(command, stack, stdin=subprocess.PIPE, pass_fds=devices)

    def end() -> None:
        broke = relay.poll() is not None
        _, why = relay.communicate()
        if broke:
            raise LinkError(f"The link broke: {why.strip()}")

    stack.callback(end)


def _start(
    command: Sequence[str], stack: contextlib.ExitStack, *, stdin: int, pass_fds: Sequence[int]
) -> subprocess.Popen[str]:
    """Start one of the processes behind the link. Ctrl-C does not reach it: the link ends after the commands."""
    process = subprocess.Popen(
        command, stdin=stdin, stderr=subprocess.PIPE, text=True, pass_fds=pass_fds, start_new_session=True
    )
    stack.enter_context(process)
    return process


def run_on_both(command: Sequence[str], delay_ms: float, rate_bits: float | None) -> int:
    """Run a command on both ends, and return the first exit code that is not 0. Ctrl-C reaches both of them."""
    with contextlib.ExitStack() as running, linked(delay_ms, rate_bits) as sides:
        processes = [running.enter_context(subprocess.Popen(side.wrap(command))) for side in sides]
        try:
            codes = [process.wait() for process in processes]
        except KeyboardInterrupt:
            with contextlib.suppress(subprocess.TimeoutExpired):
                for process in processes:
                    process.wait(GRACE_S)
            raise
    return next((code if code > 0 else 128 - code for code in codes if code), 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="of each packet, one way")
    parser.add_argument("--rate-mbit", type=float, help="in each direction, in Mbit/s; without it, no limit is set")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        rate_bits = None if given.rate_mbit is None else given.rate_mbit * 1e6
        return run_on_both(given.command, given.delay_ms, rate_bits)
    except LinkError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    raise SystemExit(main())
