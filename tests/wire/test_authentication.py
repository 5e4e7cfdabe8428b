"""Two ends of a connection prove to each other that they know a secret, and sign what they say."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from laptime.engine.authentication import FIRST_MOST_BYTES, SEATS, Admission, connect_to
from laptime.model.errors import WireError

SECRET = "the secret of the race"


class Host(contextlib.AbstractContextManager):
    """Admits connections in a thread, and answers the first line of each with the line in capitals."""

    def __init__(self, **how) -> None:
        self.server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.admission = Admission(self.server, SECRET, **how)
        self.admitted = []
        self.place = self.server.getsockname()
        self._thread = threading.Thread(target=self._admit, daemon=True)
        self._thread.start()

    def _admit(self) -> None:
        with contextlib.closing(self.admission):
            while (admitted := self.admission.next()) is not None:
                connection, first = admitted
                self.admitted.append(connection)
                connection.send(first.upper())

    def __exit__(self, *_error) -> None:
        self.admission.stop()
        self._thread.join(5)
        for each in self.admitted:
            each.close()


@pytest.fixture
def host():
    with Host() as made:
        yield made


def ask(host, text=b"hello"):
    """Connect, say something, and return what comes back."""
    with contextlib.closing(connect_to(*host.place, SECRET, 5.0)) as connection:
        connection.send(text)
        return connection.receive(5.0)


def relay(host, change):
    """Stand between two ends: return an address, and pass on what goes through it as `change` makes it."""
    server = socket.create_server(("127.0.0.1", 0))

    def carry(source, sink, outward):
        with contextlib.suppress(OSError, ValueError), source.makefile("rb") as lines:
            for number, line in enumerate(lines):
                sink.sendall(change(outward, number, line))
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def run():
        with server, server.accept()[0] as near, socket.create_connection(host.place) as far:
            back = threading.Thread(target=carry, args=(far, near, False))
            back.start()
            carry(near, far, True)
            back.join()

    threading.Thread(target=run, daemon=True).start()
    return server.getsockname()


def test_two_ends_that_know_the_secret_speak(host):
    with contextlib.closing(connect_to(*host.place, SECRET, 5.0)) as connection:
        connection.send(b"hello")
        assert connection.receive(5.0) == b"HELLO"
        for text in (b"", b"x" * 100_000):  # what follows may be longer than the first line
            connection.lines.most_bytes = host.admitted[0].lines.most_bytes = 1 << 20
            host.admitted[0].send(text)
            assert connection.receive(5.0) == text
        with pytest.raises(TimeoutError):
            connection.receive(0)


@pytest.mark.parametrize("secret", ["", "another", "é", "x" * 10_000])
def test_another_secret_is_refused_at_once(host, secret):
    with pytest.raises(WireError, match="did not prove that it knows the secret"):
        connect_to(*host.place, secret, 5.0)
    assert ask(host) == b"HELLO"


def test_a_secret_never_travels(host):
    """Nor does anything with which a later connection could be made."""
    seen = []

    def look(_outward, _number, line):
        seen.append(line)
        return line

    with contextlib.closing(connect_to(*relay(host, look), SECRET, 5.0)) as connection:
        connection.send(b"hello")
        assert connection.receive(5.0) == b"HELLO"
    everything = b"".join(seen)
    assert SECRET.encode() not in everything
    assert SECRET.encode().hex().encode() not in everything
    replayed = [line for line in seen if b"hello" in line or len(line) == 129]
    with socket.create_connection(host.place, timeout=5) as connection:
        connection.sendall(b"".join(replayed))
        assert read_all(connection).endswith(b"\nno\n")


CHANGES = {
    "changed": lambda line: line.replace(b"hello", b"Hello"),
    "repeated": lambda line: line + line,
    "with another signature": lambda line: b"0" * 64 + line[64:],
    "cut": lambda line: line[:30] + b"\n",
    "not ASCII": lambda line: "é".encode() * 40 + b"\n",
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_line_that_was_changed_on_its_way_is_not_believed(host, how):
    """A program between two ends can end the connection, and nothing else."""
    place = relay(host, lambda outward, number, line: CHANGES[how](line) if outward and number == 1 else line)
    with contextlib.closing(connect_to(*place, SECRET, 5.0)) as connection:
        connection.send(b"hello")
        if how == "repeated":
            assert connection.receive(5.0) == b"HELLO"  # the first one is sound
            with pytest.raises(WireError, match="its signature is wrong"):
                host.admitted[0].receive(5.0)
        else:
            with pytest.raises(EOFError):
                connection.receive(5.0)
            assert host.admitted == []


def test_a_line_that_is_sent_back_is_not_believed(host):
    """Each direction has a key of its own."""
    mine = []

    def reflect(outward, number, line):
        if outward and number == 1:
            mine.append(line)
        return mine[0] if not outward and number == 2 else line

    with contextlib.closing(connect_to(*relay(host, reflect), SECRET, 5.0)) as connection:
        connection.send(b"hello")
        with pytest.raises(WireError, match="its signature is wrong"):
            connection.receive(5.0)


def read_all(connection):
    """Return all that comes until the other end closes the connection."""
    read = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(4096):
            read += more
    return bytes(read)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"type":"NodeHello","secret":"\xc3\xa9","ticket":"1"}\n',
        b'{"x":' + b"[" * 100_000 + b"\n",
        b"\xff" * 200 + b"\n",
        b"x" * 3_000_000,
    ],
    ids=lambda line: repr(line[:12]),
)
def test_a_stranger_is_shown_out(host, line):
    """Whatever it says: it hears a challenge, is refused or not answered, and others are admitted as before."""
    with socket.create_connection(host.place, timeout=5) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(line)
        heard = read_all(connection).splitlines()
    assert heard[:1] == [] or heard[0].startswith(b"laptime 1 ")
    assert heard[1:] in ([], [b"no"])
    assert ask(host) == b"HELLO"


def drip_until_closed(connection):
    """Send a byte now and then, for as long as the other end takes them; fail after some seconds."""
    with contextlib.suppress(ConnectionError):
        for _ in range(160):
            connection.sendall(b"x")
            time.sleep(0.05)
        pytest.fail("it was never shown out")


def test_one_that_is_slow_has_a_short_time_and_holds_up_nobody():
    """A byte now and then does not make it longer."""
    with Host(stranger_s=0.5) as host, socket.create_connection(host.place, timeout=5) as connection:
        began = time.monotonic()
        assert ask(host) == b"HELLO"
        assert connection.recv(100).startswith(b"laptime 1 ")
        drip_until_closed(connection)
        assert time.monotonic() - began < 5


def test_more_strangers_than_seats_hold_up_nobody(host):
    """The one that came first leaves."""
    with contextlib.ExitStack() as opened:
        strangers = [opened.enter_context(socket.create_connection(host.place, timeout=5)) for _ in range(SEATS + 8)]
        assert ask(host) == b"HELLO"
        assert [read_all(each).count(b"laptime 1 ") for each in strangers[:8]] == [1] * 8
        assert strangers[-1].recv(4096).startswith(b"laptime 1 ")
        strangers[-1].settimeout(0.1)
        with pytest.raises(TimeoutError):  # the last one still has its seat
            strangers[-1].recv(4096)


def test_a_first_line_is_short(host):
    """Also of an end that knows the secret."""
    with contextlib.closing(connect_to(*host.place, SECRET, 5.0)) as connection:
        with contextlib.suppress(ConnectionError):
            connection.send(b"x" * (2 * FIRST_MOST_BYTES))
        with pytest.raises(EOFError):
            connection.receive(5.0)


def test_one_that_never_answers_is_waited_for_a_short_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(WireError, match=rf"{where} did not prove within 0\.3 s that it knows the secret"):
            connect_to(*silent.getsockname(), SECRET, 0.3)


def test_one_that_was_dropped_with_the_strangers_tries_again(host):
    """The first connection ends without a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run():
            server.accept()[0].close()
            with server.accept()[0] as near, socket.create_connection(host.place) as far:
                near.sendall(far.recv(4096))
                far.sendall(near.recv(4096))
                near.sendall(far.recv(4096))

        threading.Thread(target=run, daemon=True).start()
        connect_to(*server.getsockname(), SECRET, 5.0).close()


def test_an_admission_that_is_stopped_leaves_nothing_open():
    host = Host()
    with host, socket.create_connection(host.place, timeout=5) as stranger:
        assert ask(host) == b"HELLO"
        host.admission.stop()
        assert read_all(stranger).startswith(b"laptime 1 ")
    assert not host._thread.is_alive()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(host.place, timeout=5)
    assert host.server.fileno() == -1
