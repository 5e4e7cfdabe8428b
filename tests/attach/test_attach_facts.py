"""Facts are written as JSON without the module `json`, which costs every process of a script milliseconds."""

from __future__ import annotations

import json
import math
from pathlib import Path

from laptime.attach.agent import as_json


def test_facts_are_read_back_as_they_were() -> None:
    facts = {
        "none": None, "flags": [True, False], "numbers": [0, -3, 1 << 70, 2.5, 1e300, True],
        "texts": ["", 'a "quoted" \\ word', "line\nfeed\x00\x7f", "é ü 漢", "😀", "\ud800"],
        "empty": [{}, []], "inner": {"a": {"b": [1, {"c": "d"}]}},
    }  # fmt: skip
    assert json.loads(as_json(facts)) == facts


def test_what_json_has_no_word_for_is_written_as_text() -> None:
    written = json.loads(as_json({"path": Path("a/b"), "pair": (1, 2), 5: "number", "odd": [math.inf, math.nan]}))
    assert written == {"path": str(Path("a/b")), "pair": [1, 2], "5": "number", "odd": ["inf", "nan"]}
