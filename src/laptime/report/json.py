"""A record for other programs: the very bytes that are kept, laid out to be read."""

from __future__ import annotations

import msgspec


def render(encoded: bytes) -> str:
    """Indent an encoded record; its shape is the business of whoever encoded it."""
    return msgspec.json.format(encoded, indent=2).decode() + "\n"
