"""The agent's own parts: what it noted, how facts are written, the socket to the parent, and what forks and exits mean
for these.

The hooks note events; every quarter of a second, the hook that notes one more sends them. If there are more than the
parent can take, those beyond a limit are only counted, by their kind. Whatever fails in here ends the agent, not the
script.
"""

from __future__ import annotations

import atexit
import os
import struct
import sys
from _thread import get_ident
from time import monotonic_ns

from . import kinds

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


MOST_KEPT = 1 << 20  # bytes of events; of what is noted beyond them until they are sent, only the counts are
AGENT_LEAVE_S = 3.0  # at the end, until the parent has taken what is left
LOOKS_FIRST = 64  # events of each kind that are looked at closely: their thread, items, losses; then one every so often
EVENT_LOOK_NS = 20_000_000
FLUSH_NS = 250_000_000
SOON_NS = 10_000_000  # until what the parent did not take at once is sent again
ANSWER_BYTES = struct.calcsize(kinds.ANSWER)


class Agent:
    """One process of a watched script."""

    def __init__(self, address: str) -> None:
        self.tables: list = []  # which hooks are set
        self.hold: Any = None  # of a script that is raced
        self.sees_copies = False  # to a card
        self.looks_itself = False  # at tensors: what runs without gradients then is none of the script's
        self.double_at: Any = None  # the line of the script that made its weights float64
        self.doubles: dict = {}  # where arrays of float64 came in, by the addresses of their data
        self.places: dict = {}  # lines of the script, by file and line: their numbers
        self.lines: Any = None  # what times these, once a framework is there
        self.compiles = False  # a compiler has run
        self.loaders_started = 0
        self.loads = False  # it is a worker of a data loader, in which lines are timed
        self.keras_steps = 0  # that Keras's `fit` took
        self.batches_from = 0  # the number of the last that Keras made of what batches come from
        self.trains_from = 0  # that of its training
        self.fits_eagerly = False  # Keras's `fit` runs each operation on its own
        self.in_fit = False  # of Keras, which reports its batches itself
        self.tensorflow: Any = None  # what the hooks of TensorFlow know together
        self.before_flush: list = []  # what hooks add to the events just before these are sent
        self._noted: list = []  # the numbers of events, four each
        self.keep = self._noted.extend  # for hooks that run in each step, and so call nothing else
        self._events = bytearray()  # the same, as they are sent
        self._skipped: dict = {}  # how many of each kind are not
        self.due = [0] * kinds.SOME  # for each kind of event: when its hook has to look closely again
        self._looks_left: list = []
        self._is_busy = False  # a thread is packing or sending
        self._numbers = iter(range(1, 1 << 62))  # another thread cannot get the same
        self._lost = 0
        self.begin(address)
        self._exit = os._exit
        os._exit = self._leave  # type: ignore[assignment]
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def begin(self, address: str) -> None:
        """Send to this address from now on. Hooks are set once, and an agent may begin again after its end."""
        self.address = address
        self._begin_afresh(is_fork=False)

    def greet(self) -> None:
        """Greet the parent: this process can be watched. The connection is kept only once there is a training."""
        try:
            self._be_connected()
            self._disconnect()
        except Exception:
            self.disable()

    def note(self, kind: int, begin_ns: int, end_ns: int, value: int = 0) -> None:
        """Note an event. The hooks call this: it never raises."""
        if self.is_off:
            return
        try:
            kind = self.kind_here(kind)
            self.keep((kind, begin_ns, end_ns, value))
            if end_ns >= self.flush_at:
                self.flush(end_ns)
        except Exception:
            self.disable()

    def looked(self, kind: int, now_ns: int) -> None:
        """Say that a hook has looked closely at an event. Hooks of each step do so every `EVENT_LOOK_NS` only."""
        if self._looks_left[kind] > 0:
            self._looks_left[kind] -= 1
        else:
            self.due[kind] = now_ns + EVENT_LOOK_NS
        if now_ns >= self.flush_at:
            self.flush(now_ns)
        elif not self._is_busy:
            self._is_busy = True
            self._pack()
            self._is_busy = False

    def kind_here(self, kind: int) -> int:
        """Return a kind with the number of this thread."""
        thread = get_ident()
        return kind if thread == self.first_thread else self.of_thread(kind, thread)

    def tell(self, **facts: Any) -> None:
        """Send one fact as soon as possible, in its order among the events."""
        if self.is_off:
            return
        try:
            self.flush(monotonic_ns())
            self._send_facts(facts)
        except Exception:
            self.disable()

    def new_number(self) -> int:
        """Return a number for a loader or an optimizer. It stays the same however often the agent begins."""
        return next(self._numbers)

    def describe_once(self, number: int, describe: Any, given: Any) -> None:
        """Send what `describe(given, number)` returns, unless it was sent since the agent began."""
        if number not in self.described and not self.is_off:
            self.described.add(number)
            self.tell(**describe(given, number))

    def failed(self, hook: str, error: BaseException) -> None:
        """Report once that a hook failed; the hook calls nothing of ours from then on. This never raises."""
        if hook in self._failed:
            return
        self._failed.add(hook)
        try:
            words = "%s: %s" % (type(error).__name__, error)
        except Exception:  # an error of the script's may not be able to say what it is
            words = type(error).__name__
        self.tell(is_failed=hook, error=words)

    def flush(self, now_ns: int) -> None:
        """Send the events noted so far, or keep them if the parent does not take them now. One thread does it."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            self.flush_at = now_ns + FLUSH_NS
            if self.is_off:
                self._forget()
                return
            for look in self.before_flush:
                look()
            self._pack()
            if not self._events:
                return
            self._be_connected()
            if self._send(kinds.EVENTS, bytes(self._events)):
                del self._events[:]
                self._send_skipped()
            if self._rest or self._events:
                self.flush_at = now_ns + SOON_NS
        finally:
            self._is_busy = False

    def ask(self, **facts: Any) -> Any:
        """Send what was noted and these facts, and wait for the parent's answer. None if there is no parent."""
        try:
            self.flush(monotonic_ns())
            self._be_connected()
            self._send_rest(None)
            if self._events:
                self._send(kinds.EVENTS, bytes(self._events))
                del self._events[:]
                self._send_skipped()
                self._send_rest(None)
            self._send_facts(facts)
            self._send_rest(None)
            return struct.unpack(kinds.ANSWER, self._socket.receive(ANSWER_BYTES))
        except Exception:
            self.disable()
            return None

    def close(self) -> None:
        """Send the rest, and hang up."""
        if self.is_off or os.getpid() != self._pid:
            return
        if self._socket is None and not self._events and not self._noted:
            return
        self._is_busy = False  # a thread that was busy with it goes on no more
        try:
            if self.lines is not None and self.lines.is_on:
                self.lines.stop()
            self.flush(monotonic_ns())
            if self._socket is not None:
                self._send_rest(AGENT_LEAVE_S)
                self.flush(monotonic_ns())
                self._send_rest(AGENT_LEAVE_S)
                self._send_facts({"is_leaving": True, "lost": self._lost})
                self._send_rest(AGENT_LEAVE_S)
        except Exception:
            pass
        self.disable()

    def disable(self) -> None:
        """Send nothing from now on. The script goes on."""
        self.is_off = True
        try:
            self._disconnect()
            self._forget()
        except Exception:
            pass

    def _pack(self) -> None:
        """Turn numbers into bytes: they take a third of the memory. Other threads may note meanwhile."""
        numbers = self._noted[:]
        del self._noted[: len(numbers)]
        room = max(0, MOST_KEPT - len(self._events)) // kinds.BYTES_EACH * kinds.NUMBERS_EACH
        if len(numbers) > room:
            skipped = [kind & kinds.KIND_MASK for kind in numbers[room :: kinds.NUMBERS_EACH]]
            for kind in set(skipped):
                self._skipped[kind] = self._skipped.get(kind, 0) + skipped.count(kind)
            del numbers[room:]
        self._events += struct.pack("<%dq" % len(numbers), *numbers)

    def _send_skipped(self) -> None:
        """Say how many events are not sent, in their place among those that are."""
        if self._skipped:
            skipped = self._skipped
            self._skipped = {}
            self._send_facts({"skipped": skipped})

    def _forget(self) -> None:
        self._skipped = {}
        del self._noted[:]
        del self._events[:]

    def _begin_afresh(self, *, is_fork: bool) -> None:
        self.is_off = False
        self.began_ns = monotonic_ns()
        self.fetching = 0  # how many of `Fetches` wait for a batch now: loaders within note no batch of their own
        self.described: set = set()
        self._is_fork = is_fork
        self._pid = os.getpid()
        self._socket: Any = None
        self._rest = b""  # of a message that was sent in part
        self._forget()
        self._is_busy = False
        self.due[:] = [0] * kinds.SOME
        self._looks_left = [LOOKS_FIRST] * kinds.SOME
        self.flush_at = 0
        self._lost = 0
        self.steps = 0  # of all optimizers
        self.backwards = 0  # passes of PyTorch
        self.batches = 0  # of Keras
        if self.lines is not None:
            self.lines.begin_afresh()
        self.trains = False  # a backward pass was seen, with an optimizer or without
        self._threads: dict = {}
        self.first_thread = 0  # so that the first event of a process numbers its thread
        self._failed: set = set()

    def _after_fork(self) -> None:
        """A worker that only loads data never trains, and sends nothing but the lines of a few fetches."""
        try:
            if self._socket is not None:
                self._socket.close()
            was_off = self.is_off
            if self.lines is not None:
                self.lines.leave()
            self._begin_afresh(is_fork=True)
            self.is_off = was_off
        except Exception:
            self.is_off = True

    def _leave(self, status: int) -> None:
        self.close()
        self._exit(status)

    def of_thread(self, kind: int, thread: int) -> int:
        """Return a kind with the number of a thread: 0 is the first that trains."""
        number = self._threads.setdefault(thread, len(self._threads))
        if number == 0:
            self.first_thread = thread
        return kind | number << kinds.THREAD_SHIFT

    def _be_connected(self) -> None:
        """Call the parent and say who this is, unless that was done. If the script closed the socket, do it again."""
        if self._socket is not None and not self._socket.is_own():
            self._disconnect()
            if self._rest:
                self._lost += max(1, len(self._rest) // kinds.BYTES_EACH)
                self._rest = b""
        if self._socket is None:
            self._socket = OwnSocket(self.address)
            packages = ("torch", "keras", "tensorflow", "jax", "lightning", "transformers", "accelerate")
            self._send_facts(
                {
                    "pid": os.getpid(),
                    "began_ns": self.began_ns,  # a process may become another program, and its number come again
                    "parent": os.getppid(),
                    "python": "%d.%d.%d" % sys.version_info[:3],
                    "executable": sys.executable,
                    "is_fork": self._is_fork,
                    "loads": self.loads,
                    "rank": os.environ.get("RANK"),
                    "world": os.environ.get("WORLD_SIZE"),
                    "versions": versions_of(packages),
                }
            )

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send_facts(self, facts: dict) -> None:
        self._be_connected()
        self._send(kinds.FACTS, as_json(facts).encode(), must=True)

    def _send(self, head: bytes, body: bytes, *, must: bool = False) -> bool:
        """Send a message. Return False if none of it was sent; what `must` be sent, or was sent in part, is kept."""
        peer = self._socket
        if peer is None:
            return False
        if self._rest:
            self._rest = self._rest[self._push(peer, self._rest) :]
        message = struct.pack(kinds.MESSAGE_HEAD, head, len(body)) + body
        if self._rest:
            if must and len(self._rest) < 1 << 20:
                self._rest += message
            return False
        sent = self._push(peer, message)
        if sent == 0 and not must:
            return False
        self._rest = message[sent:]
        return True

    def _send_rest(self, patience_s: Any) -> None:
        """Send what was sent in part, and wait for the parent: at the end, or while the script is held."""
        rest = self._rest
        self._rest = b""
        if rest and self._socket is not None:
            self._socket.send_all(rest, patience_s)

    def _push(self, peer: Any, data: bytes) -> int:
        try:
            return peer.send(data)
        except OSError:
            self.disable()
            return len(data)


def versions_of(names: tuple) -> dict:
    """Return the versions of those packages that the script has imported."""
    found = {}
    for name in names:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


# Facts as JSON. The module `json` takes milliseconds to import in every process of the script.

JSON_NAMES = {None: "null", True: "true", False: "false"}


def as_json(value: Any) -> str:
    """Write what facts consist of: objects, lists, texts, whole numbers, yes and no; all else as its text."""
    if value is None or value is True or value is False:
        return JSON_NAMES[value]
    if type(value) is int:
        return repr(value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join(["%s: %s" % (_text(str(key)), as_json(item)) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join([as_json(item) for item in value])
    if isinstance(value, float) and value - value == 0:  # JSON has no word for what is not finite
        return repr(float(value))
    return _text(str(value))


def _text(text: str) -> str:
    letters = []
    for letter in text:
        code = ord(letter)
        if letter in '"\\':
            letters.append("\\" + letter)
        elif 31 < code < 127:
            letters.append(letter)
        elif code > 0xFFFF:  # as two halves
            code -= 0x10000
            letters.append("\\u%04x\\u%04x" % (0xD800 | code >> 10, 0xDC00 | code & 0x3FF))
        else:
            letters.append("\\u%04x" % code)
    return '"%s"' % "".join(letters)


# The agent's connection to the parent. A script may close its descriptor, and the system gives that to another file.
#
# So the connection is known by its inode, which is compared before each use. What is no longer ours is neither written
# to, nor closed. The descriptor has a high number: the script's own files get the numbers that they get without
# laptime.

PARENT_CONNECT_S = 1.0
HIGHEST = 4096  # programs that close all descriptors often end at 1024; a number of millions would take memory
DESCRIPTORS_BELOW = 64  # below the highest number that this process may have
MSG_WAITALL = 0x100 if sys.platform == "linux" else 0x40
NO_SIGNAL = 0x4000 if sys.platform == "linux" else 0  # MSG_NOSIGNAL: a parent that is gone ends no script


class LostError(OSError):
    """The descriptor was closed by the script, and may be another file's now."""


class OwnSocket:
    """A connection, as long as its descriptor is ours."""

    def __init__(self, address: str) -> None:
        import _socket  # the module `socket` takes milliseconds to import

        peer = self._peer = _moved_up(_socket, _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))
        self._identity = _identity_of(peer.fileno())
        peer.settimeout(PARENT_CONNECT_S)
        try:
            peer.connect(kinds.socket_name(address))
        except OSError:
            peer.close()
            raise
        peer.setblocking(False)

    def is_own(self) -> bool:
        """Whether the descriptor is still that of this connection."""
        return _identity_of(self._peer.fileno()) == self._identity

    def send(self, data: bytes) -> int:
        """Send what can be sent now. Return how many bytes that was."""
        try:
            return self._checked().send(data, NO_SIGNAL)
        except BlockingIOError:
            return 0

    def send_all(self, data: bytes, patience_s: Any) -> None:
        """Send all of it, and wait for the parent as long as this; None: without end."""
        peer = self._checked()
        peer.settimeout(patience_s)
        try:
            peer.sendall(data, NO_SIGNAL)
        finally:
            peer.setblocking(False)

    def receive(self, count: int) -> bytes:
        """Wait for this many bytes."""
        peer = self._checked()
        peer.settimeout(None)
        try:
            return peer.recv(count, MSG_WAITALL)
        finally:
            peer.setblocking(False)

    def close(self) -> None:
        """Close the connection, or leave the descriptor to the file that has it now."""
        if self.is_own():
            self._peer.close()
        else:
            self._peer.detach()

    def _checked(self) -> Any:
        if not self.is_own():
            raise LostError("the script closed it")
        return self._peer


def _identity_of(descriptor: int) -> Any:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _moved_up(module: Any, peer: Any) -> Any:
    """Return the same socket under a high number, or under its own if there is none."""
    try:
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        most = os.sysconf("SC_OPEN_MAX")
        lowest = (min(most, HIGHEST) if most > 0 else HIGHEST) - DESCRIPTORS_BELOW
        if lowest <= peer.fileno():
            return peer
        high = fcntl(peer.fileno(), F_DUPFD_CLOEXEC, lowest)
    except (ImportError, AttributeError, OSError, ValueError):
        return peer
    moved = module.socket(module.AF_UNIX, module.SOCK_STREAM, 0, high)
    peer.close()
    return moved
