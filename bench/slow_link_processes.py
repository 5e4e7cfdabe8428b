"""The processes behind slow_link.py: two hold a network namespace each, and one carries packets between them.

Each ends when the program that started it ends, however that happens: its end of a socket or pipe is closed then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

DEVICE = "link0"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
PACKET_BYTES = 65_535
# The device drops what does not fit into its queue, so the queue has room for all that TCP may have under way.
QUEUE_PACKETS = 10_000
# After this many packets of one direction, the other has its turn.
BATCH = 32
# Root may ask that the relay runs before the commands when all cores are busy.
NICE = -15


def hold(parent: socket.socket, address: str, mtu: int) -> None:
    """Make this side's device, send it to the parent, and wait for the parent's end. Then end all that runs here."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    for words in (
        "link set lo up",
        f"link set {DEVICE} mtu {mtu} txqueuelen {QUEUE_PACKETS} up",
        f"address add {address}/30 dev {DEVICE}",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    socket.send_fds(parent, [b"device"], [device])
    os.close(device)
    with contextlib.suppress(ConnectionError):
        parent.recv(1)
    while others := list_neighbours():
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def list_neighbours() -> list[int]:
    """Return the processes of this network namespace, without this one."""
    here = Path("/proc/self/ns/net").readlink()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        # A process that has ended, or is another user's, has no namespace to read.
        with contextlib.suppress(OSError):
            if (place / "ns/net").readlink() == here and int(place.name) != os.getpid():
                found.append(int(place.name))
    return found


@dataclass(slots=True)
class Direction:
    """The packets on their way from one device to the other, each with the time at which it arrives."""

    source: int
    target: int
    delay_ns: int
    ns_per_byte: float
    free_ns: int = 0
    under_way: deque[tuple[int, bytes]] = field(default_factory=deque)

    def take(self) -> None:
        """Read what has been sent. A packet begins when the one before it has left, and takes its bytes' time."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(BATCH):
                packet = os.read(self.source, PACKET_BYTES)
                self.free_ns = max(time.monotonic_ns(), self.free_ns) + int(len(packet) * self.ns_per_byte)
                self.under_way.append((self.free_ns + self.delay_ns, packet))

    def deliver(self) -> None:
        while self.under_way and self.under_way[0][0] <= time.monotonic_ns():
            os.write(self.target, self.under_way.popleft()[1])


def relay(left: int, right: int, delay_ns: int, rate_bits: float) -> None:
    """Carry packets both ways until the standard input is closed. A rate of 0 is no limit."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    ns_per_byte = 8e9 / rate_bits if rate_bits else 0.0
    ways = [Direction(*ends, delay_ns, ns_per_byte) for ends in ((left, right), (right, left))]
    watched = [sys.stdin.fileno(), left, right]
    while True:
        arrivals = [way.under_way[0][0] for way in ways if way.under_way]
        # Not epoll: it rounds up to whole milliseconds.
        wait_s = max(0, min(arrivals) - time.monotonic_ns()) / 1e9 if arrivals else None
        ready = select.select(watched, [], [], wait_s)[0]
        if watched[0] in ready:
            return
        for way in ways:
            if way.source in ready:
                way.take()
            way.deliver()


def main(part: str, *words: str) -> int:
    """Run one part, and print an error as one line."""
    try:
        if part == "hold":
            with socket.socket(fileno=int(words[0])) as parent:
                hold(parent, words[1], int(words[2]))
        else:
            relay(int(words[0]), int(words[1]), int(words[2]), float(words[3]))
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
