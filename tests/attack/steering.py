"""What a terminal obeys, and what of it may come from us."""

from __future__ import annotations

import re

STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
OURS = re.compile(r"\x1b\[(?:0|1|2|31|32)m")
