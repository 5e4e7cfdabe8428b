"""The JSON Schema of a record, made from its types: other programs check with it what laptime writes.

It describes the bytes of the file. A number that is not finite is written as a missing value, and the form of `answer`
depends on `question`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from laptime.model.questions import QUESTIONS
from laptime.model.record import SCHEMA, Answer, Record
from laptime.store.schema import ID, UNFINITE
from laptime.store.sound import figures_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLACE = "#/$defs/{name}"
NOT_FINITE = "NotFinite"
Tree = dict[str, Any]


def record_schema() -> Tree:
    """Return the JSON Schema of the records that this laptime writes."""
    kinds = [Record, *(row.answer for row in QUESTIONS)]
    _, described = msgspec.json.schema_components(kinds, schema_hook=_hook, ref_template=PLACE)
    parts: Tree = {name: _part(name, part) for name, part in sorted(described.items())}
    parts[NOT_FINITE] = {
        "description": "A number that is not finite, which JSON cannot hold.",
        "type": "object",
        "properties": {"missing": {"enum": list(UNFINITE)}},
        "required": ["missing"],
    }
    record: Tree = parts.pop("Record")
    record["properties"]["schema"] = {"const": SCHEMA}
    record["properties"]["id"] = {"type": "string", "pattern": f"^{ID.pattern}$"}
    record["properties"]["signature"] = {
        "description": "By the laptime that saved it, over all bytes before; no other one can check it.",
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:laptime:record:{SCHEMA}",
        **record,
        "title": f"A record of laptime, schema {SCHEMA}",
        "allOf": [_answer_of(row.name, row.answer.__name__) for row in QUESTIONS],
        "$defs": parts,
    }


def schema_text() -> str:
    """Return the schema as it is in docs/record.schema.json."""
    return json.dumps(record_schema(), indent=1) + "\n"


def _hook(kind: type) -> Tree:
    """Describe an answer of a question that is not in the table: packages add questions."""
    assert kind is Answer
    return {"type": "object"}


def _answer_of(question: str, answer: str) -> Tree:
    """Return the rule that a record of this question has this answer."""
    return {
        "if": {"properties": {"question": {"const": question}}},
        "then": {"properties": {"answer": {"$ref": PLACE.format(name=answer)}}},
    }


def _part(name: str, part: Tree) -> Tree:
    """Return the schema of a class, with the limits of its figures, and numbers as the file has them."""
    if "description" in part:
        part["description"] = " ".join(part["description"].split())
    limits = {field: above for field, above, _ in figures_of(_classes()[name])}
    for field, described in part.get("properties", {}).items():
        if field in limits:
            _limit(described, above=limits[field])
    made: Tree = _with_unfinite(part)
    return made


def _limit(described: Tree, *, above: bool) -> None:
    """Refuse a figure that no laptime writes. Lists of figures are not checked when a record is read either."""
    for each in (described, *described.get("anyOf", ())):
        if each.get("type") in {"number", "integer"}:
            each["exclusiveMinimum" if above else "minimum"] = 0


def _with_unfinite(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_with_unfinite(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("type") == "number":
        limits = {key: part for key, part in tree.items() if key != "default"}
        kept = {"default": tree["default"]} if "default" in tree else {}
        return {"anyOf": [limits, {"$ref": PLACE.format(name=NOT_FINITE)}], **kept}
    return {key: part if key == "default" else _with_unfinite(part) for key, part in tree.items()}


@cache
def _classes() -> dict[str, type]:
    """Return every class that a record may hold, by its name."""
    return {kind.__name__: kind for kind in _inside(Record, *(row.answer for row in QUESTIONS), seen=set())}


def _inside(*kinds: Any, seen: set[Any]) -> Iterator[type]:
    for kind in kinds:
        if is_dataclass(kind) and kind not in seen:
            seen.add(kind)
            yield kind  # type: ignore[misc]
            yield from _inside(*get_type_hints(kind).values(), seen=seen)
        else:
            yield from _inside(*get_args(kind), seen=seen)
