"""Print results, messages and errors. All text that reaches a terminal goes through this module.

Pages, messages and errors are made `visible` here; only the colours of our own pages pass. JSON keeps its exact
meaning: a character that a terminal would act on is written as a JSON escape. A result that cannot be printed is an
error. A message that cannot be printed is left out, and the run goes on.

This module imports only two small modules of laptime, so that help stays instant.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from textwrap import indent
from typing import TextIO

import click

from laptime.model.errors import LaptimeError, StoreError
from laptime.model.visible import encodable, visible

PAINTED = re.compile(r"(\x1b\[(?:0|1|2|31|32)m)")  # the colours of show/pages/layout.py
BEYOND_ASCII = re.compile(r"[^\x20-\x7e\n]")
SPELT = str.maketrans({"±": "+-", "µ": "u", "°": "deg ", "·": "|", "…": "..."})


class ReaderGone(Exception):  # noqa: N818  it is not one of laptime's errors
    """The program that read our output has ended, so nothing more is printed."""


def emit(text: str, *, color: bool = False) -> None:
    """Print a page. Without `color`, all colours are removed."""
    _write(printable(text, color=color))


def printable(text: str, *, color: bool = False) -> str:
    """Return a page that is safe for a terminal: made visible, except for our own colours."""
    parts = PAINTED.split(text) if color else [text]
    return "".join(part if number % 2 else visible(part) for number, part in enumerate(parts))


def emit_json(text: str) -> None:
    """Print JSON. Escape every character that a terminal would act on or that the output's encoding lacks."""
    _write(printable_json(text, _encoding(sys.stdout)))


def printable_json(text: str, encoding: str) -> str:
    """Return JSON of the same meaning that is safe for a terminal and that the encoding can hold."""
    holds = _can_hold(text, encoding)
    return BEYOND_ASCII.sub(lambda found: found[0] if holds and found[0].isprintable() else _escaped(found[0]), text)


def say(text: str) -> None:
    """Print a message on stderr, if stderr can be written."""
    MESSAGES.write(visible(text) + "\n")


def say_nothing(_text: str) -> None:
    """Take the place of `say` where no progress is shown."""


def complain(error: LaptimeError) -> None:
    """Print an error on stderr, always in one line, and then its hint."""
    says = " ".join(error.says.splitlines())
    say(f"laptime: {says}")
    if error.hint:
        say(indent(error.hint, "  "))


def emit_error(kind: str, says: str, hint: str, exit_code: int) -> None:
    """Print an error as JSON on stdout for other programs. If stdout fails, ignore it: stderr has the message."""
    tree = {"error": {"kind": kind, "says": encodable(says), "hint": encodable(hint), "exit_code": exit_code}}
    with contextlib.suppress(ReaderGone, StoreError):
        emit_json(json.dumps(tree, indent=2))


class Messages:
    """stderr for messages and progress. No write raises, and after the first failed write nothing more is printed."""

    @property
    def encoding(self) -> str:
        return _encoding(sys.stderr)

    def write(self, text: str) -> int:
        try:
            if sys.stderr is not None:
                sys.stderr.write(spelt(text, self.encoding))
                sys.stderr.flush()
        except (OSError, ValueError):  # ValueError: closed
            _drop(sys.stderr)
        return len(text)

    def flush(self) -> None:
        """Do nothing: each write is flushed."""

    def isatty(self) -> bool:
        try:
            return sys.stderr is not None and sys.stderr.isatty()
        except (OSError, ValueError):
            return False


MESSAGES = Messages()


def _write(text: str) -> None:
    """Write a result to stdout. Raise ReaderGone if the reader has ended, and StoreError for other failures."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(spelt(text, _encoding(sys.stdout)) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)
        raise ReaderGone from None
    except OSError as error:
        _drop(sys.stdout)
        says = f"the result could not be printed: {error.strerror}"
        raise StoreError(says, "laptime list has what was saved") from None


def give_up_output() -> None:
    """Flush stdout. If that fails, discard the rest of the output."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    """Discard what is still buffered. Else Python's own last flush fails and changes the exit code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _encoding(stream: TextIO | None) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def spelt(text: str, encoding: str) -> str:
    """Replace characters that the encoding lacks, so that a result is not lost because of a plus-minus sign."""
    if _can_hold(text, encoding):
        return text
    return text.translate(SPELT).encode(encoding, "backslashreplace").decode(encoding)


def _can_hold(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escaped(character: str) -> str:
    """Return a character as a JSON escape."""
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


# Other spellings of a command line: of earlier versions, with a message that names today's, and of other tools.

# What a command with a flag became.
RENAMED = {
    ("race", "--full"): ("train",),
    ("race", "--infer"): ("infer",),
}


# What other tools call an option.
OPTIONS_ELSEWHERE = {
    "--epochs": "--laps",
    "--steps-per-epoch": "--steps-per-lap",
    "--batch-size": "--batch",
    "--learning-rate": "--lr",
}


def renew(words: list[str]) -> list[str]:
    """Return a command line in today's spelling. A watched command, and the words behind --, have their own."""
    if words[:1] == ["watch"]:
        return words
    end = words.index("--") if "--" in words else len(words)
    return [*_renamed([_as_here(word) for word in words[:end]]), *words[end:]]


def _as_here(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{OPTIONS_ELSEWHERE.get(name, name)}{equals}{value}"


def _renamed(words: list[str]) -> list[str]:
    """Return the command that a command with a flag became."""
    used = [(old, new) for old, new in RENAMED.items() if words[:1] == [old[0]] and old[1] in words]
    if not used:
        return words
    others = [word for word in words[1:] if word not in {flag for (_, flag), _ in used}]
    lines = [[*new, *others] for _, new in used]
    if len(lines) > 1:
        commands = " && ".join(" ".join(["laptime", *line]) for line in lines)
        raise click.UsageError(f"--full and --infer are two commands now: {commands}")
    ((old, new),) = used
    say(f"laptime: `laptime {' '.join(old)}` is now `laptime {' '.join(new)}`")
    return lines[0]
