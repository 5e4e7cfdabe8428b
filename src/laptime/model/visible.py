r"""Make text safe to print: no control character from outside may reach the terminal.

Names, messages and files come from other programs. `visible` removes colours and writes every other control character
(C0 and C1, direction marks, other invisible marks, surrogates, bytes that are not UTF-8) as a readable escape: `\x1b`,
`\u202e`. New lines and tabs stay, because pages use them.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable

COLOUR_ESCAPES = re.compile(r"\x1b\[[0-9;:]*m")
KEPT_CHARACTERS = "\n\t"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet knows a formula
BYTES_AS_TEXT = range(0xDC80, 0xDD00)  # how Python stores a byte of a file name that is not UTF-8
SURROGATES = re.compile(r"[\ud800-\udfff]")


def visible(text: str) -> str:
    """Return the text without characters that a terminal would act on."""
    if text.isprintable():
        return text
    plain = COLOUR_ESCAPES.sub("", text)
    return "".join(sign if sign.isprintable() or sign in KEPT_CHARACTERS else _shown(sign) for sign in plain)


def as_command(words: Iterable[str]) -> str:
    r"""Return words as one line to type. A word with a new line or another unprintable character is $'in\nescapes'."""
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{_escape(word)}'" for word in words)


def _escape(word: str) -> str:
    escaped = word.replace("\\", r"\\").replace("'", r"\'")
    return "".join(sign if sign.isprintable() else _code_of(ord(sign)) for sign in escaped)


def _code_of(code: int) -> str:
    if code < 0x80 or code in BYTES_AS_TEXT:
        return "\\n" if code == ord("\n") else f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encodable(text: str) -> str:
    """Return the text with every character escaped that UTF-8, and so JSON, cannot hold."""
    return SURROGATES.sub(lambda found: _shown(found[0]), text)


def cells_wide(text: str) -> int:
    """Return how many terminal cells a text takes: Chinese, Japanese and Korean characters take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def as_cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _shown(character: str) -> str:
    """Return one character as an escape. A space of any width becomes a plain space."""
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    if code in BYTES_AS_TEXT:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
