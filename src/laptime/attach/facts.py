"""Facts as JSON. The module `json` takes milliseconds to import in every process of the script."""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

JSON_NAMES = {None: "null", True: "true", False: "false"}


def as_json(value: Any) -> str:
    """Write what facts consist of: objects, lists, texts, whole numbers, yes and no; all else as its text."""
    if value is None or value is True or value is False:
        return JSON_NAMES[value]
    if type(value) is int:
        return repr(value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join(["%s: %s" % (_text(str(key)), as_json(each)) for key, each in value.items()])
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join([as_json(each) for each in value])
    if isinstance(value, float) and value - value == 0:  # JSON has no word for what is not finite
        return repr(float(value))
    return _text(str(value))


def _text(text: str) -> str:
    return '"%s"' % "".join([_letter(each) for each in text])


def _letter(letter: str) -> str:
    code = ord(letter)
    if letter in '"\\':
        return "\\" + letter
    if 31 < code < 127:
        return letter
    if code > 0xFFFF:  # as two halves
        code -= 0x10000
        return "\\u%04x\\u%04x" % (0xD800 | code >> 10, 0xDC00 | code & 0x3FF)
    return "\\u%04x" % code
