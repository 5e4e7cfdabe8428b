"""The schema of a record: how it is written, checked when it is read, and upgraded from older schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import chain
from math import inf, isfinite, nan
from typing import Any, get_args, get_type_hints

import msgspec

from laptime.model.errors import RecordError
from laptime.model.frameworks import upgrade_command
from laptime.model.protocol import LapFactor, LapResult
from laptime.model.quantities import Factor
from laptime.model.questions import QUESTIONS, find_question
from laptime.model.record import SCHEMA, Answer, Comparison, Forecast, InferFactor, QuestionAnswer, Record
from laptime.model.sample import Window
from laptime.model.symptoms import Operator, Profile
from laptime.questions.scale.nouns import LinkCost
from laptime.store.plain_json import LARGEST_WHOLE, as_json_holds, has_parts

# Upgrades of older records to the current schema: one function per schema, on plain JSON.

Tree = dict[str, Any]

OF_A_PROCESS = ("status", "phases_s", "notes", "dnf", "timeline", "versions", "parameters", "items_per_step",
                "peak_memory_bytes", "device_memory_bytes")  # fmt: skip


def to_schema_2(tree: Tree) -> Tree:
    """Move the process of each heat and training into `process`, the answer into `answer`, and "class" to "steady"."""
    tree = dict(tree)
    comparisons = tree.pop("comparisons", [])
    why = tree.pop("why", None)
    full = tree.pop("full", None)
    infer = tree.pop("infer", None)
    tree["lanes"] = [{**lane, "heats": [_heat(heat, lane) for heat in lane.get("heats", [])]} for lane in tree["lanes"]]
    question = tree["question"]
    if question == "full":
        tree["answer"] = {**full, "runs": [_with_process(run, run["lane"]) for run in full["runs"]]}
    elif question == "infer":
        lanes = [
            {**lane, "heats": [_with_process(heat, heat["lane"]) for heat in lane.get("heats", [])]}
            for lane in infer["lanes"]
        ]
        tree["answer"] = {**infer, "lanes": lanes}
    elif question == "why":
        for remedy in (why or {}).get("remedies", []):
            predicted = remedy.get("predicted")
            if isinstance(predicted, dict) and "missing" in predicted:  # the reason was behind a colon
                remedy["predicted"] = {"missing": predicted["missing"].partition(": ")[2]}
        tree["answer"] = {"comparisons": comparisons, "why": why}
    else:
        tree["answer"] = {"comparisons": comparisons} if question == "race" else {}
    return tree


def _heat(heat: Tree, lane: Tree) -> Tree:
    """Upgrade a heat. Schema 1 had versions and items only in the lane, and memory in the heat's readings."""
    heat = dict(heat)
    memory = heat.pop("readings", {})
    heat["steady"] = heat.pop("class")
    known = {"versions": lane["framework"], "items_per_step": lane.get("items_per_step")}
    for name in ("peak_memory_bytes", "device_memory_bytes"):
        if name in memory:
            size = memory[name]
            known[name] = int(size) if isinstance(size, float) else size
    return _with_process({**known, **heat}, lane["name"])


def _with_process(run: Tree, lane: str) -> Tree:
    process = {name: run[name] for name in OF_A_PROCESS if name in run}
    rest = {name: value for name, value in run.items() if name not in process and name != "lane"}
    return {"process": {"lane": lane, **process}, **rest}


CONCLUDED = ("steady", "steady_from", "step_ms", "counted")


def to_schema_3(tree: Tree) -> Tree:
    """Move what a heat returned into `heat`, next to what was concluded of it. Its laps were not kept."""
    lanes = [
        {**lane, "heats": [_result(heat) for heat in lane["heats"]]} if "heats" in lane else lane
        for lane in tree["lanes"]
    ]
    return {**tree, "lanes": lanes}


def _result(kept: Tree) -> Tree:
    heat = {name: value for name, value in kept.items() if name not in CONCLUDED}
    first_step_ms = heat.pop("first_step_ms")
    first_step_ns = None
    if first_step_ms is not None and isfinite(first_step_ms):
        if abs(first_step_ms * 1e6) > LARGEST_WHOLE:
            raise ValueError(f"first_step_ms is {first_step_ms:g}")
        first_step_ns = round(first_step_ms * 1e6)
    concluded = {name: kept[name] for name in CONCLUDED if name in kept}
    return {**concluded, "heat": {"steps_per_lap": None, "first_step_ns": first_step_ns, **heat}}


UPGRADES: tuple[Callable[[Tree], Tree], ...] = (to_schema_2, to_schema_3)
"""The function at index n turns schema n + 1 into schema n + 2."""


ID = re.compile(r"r-\d{4}-\d\d-\d\d-[0-9a-f]{4,16}", re.ASCII)
"""The form of a record's id. An id becomes the name of files and folders, so an id from a file must have this form."""

DEEPEST = 64
MOST_PARTS = 500_000  # a record has one in some 80 bytes, so these would be 40 MB
UNFINITE = {f"not a finite number: {value}": value for value in (nan, inf, -inf)}
UNFINITE_MARK = b"not a finite number"
DIGITS_AS_0 = bytes.maketrans(b"123456789", b"0" * 9)
LONG_NUMBER = b"0" * 19
LONG_FRACTION = b"." + LONG_NUMBER  # of any small figure: 0.0019999999999999996
HOLDERS = {dict, list}
HINT_MEMORY = "Free memory, or raise its limit: `ulimit -v`."
HINT_DAMAGED = "The other records are not touched; `laptime list` shows them. Repair the file or delete it."


def encode(record: Record) -> bytes:
    """Return a record as JSON, in the schema that other programs may rely on."""
    return msgspec.json.encode(as_json_holds(msgspec.to_builtins(record)))


def decode(data: bytes, where: str) -> Record:
    """Read a record of this or an older schema. `where` names the file in an error."""
    return decode_as_found(data, where)[1]


def decode_as_found(data: bytes, where: str) -> tuple[int, Record]:
    """Read a record, and return the schema of the file with it. It may take memory as its size allows, and no more."""
    try:
        return _decode_as_found(data, where)
    except MemoryError:
        raise RecordError(f"{where} cannot be read: the system refused the memory", HINT_MEMORY) from None


def _decode_as_found(data: bytes, where: str) -> tuple[int, Record]:
    tree = _parse(data, where)
    schema = tree.get("schema") if isinstance(tree, dict) else None
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise _damaged(where, "expected the number of a schema", "$.schema")
    record = _to_record(upgrade(tree, where), where)
    if not ID.fullmatch(record.id):
        raise _damaged(where, "expected an id such as r-2026-11-20-a1b2", "$.id")
    for fault in () if is_sound(record) else list_faults(record):
        place, _, expected = fault.rpartition(": ")
        raise _damaged(where, expected, place)
    return schema, record


def upgrade(tree: Tree, where: str, to: int = SCHEMA, upgrades: Sequence[Callable[[Tree], Tree]] = UPGRADES) -> Tree:
    """Upgrade a tree to schema `to`, one schema at a time. A newer laptime's record is refused."""
    found = tree["schema"]
    if found > to:
        says = f"{where} was written by a newer laptime (schema {found}; this one reads up to {to})"
        raise RecordError(says, f"Upgrade: {upgrade_command()}")
    try:
        for step in upgrades[found - 1 : to - 1]:
            tree = step(tree)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(where, f"not of the shape of schema {found} ({error!r})") from error
    return {**tree, "schema": to}


def _parse(data: bytes, where: str) -> Any:
    if data.count(b"[") + data.count(b"{") > MOST_PARTS:  # an empty list has 2 bytes here, and takes 64 in memory
        raise _damaged(where, f"it has more than {MOST_PARTS:,} lists and objects")
    try:
        tree = msgspec.json.decode(data)
        return tree if _is_plain(data, tree) else _with_unfinite(tree)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise _damaged(where, str(error)) from None


def _to_record(tree: Tree, where: str) -> Record:
    """Convert the answer to the type of the record's question, and then the rest."""
    answer = tree.get("answer")
    try:
        kind = find_question(str(tree.get("question"))).part(QuestionAnswer).answer
        made = msgspec.convert(answer, kind)
    except LookupError as error:
        raise _damaged(where, str(error.args[0]), "$.question") from None
    except msgspec.ValidationError as error:
        raise _damaged(where, *_in_words(error, "$.answer")) from None
    try:
        return msgspec.convert({**tree, "answer": made}, Record, dec_hook=_keep)
    except msgspec.ValidationError as error:
        raise _damaged(where, *_in_words(error, "$")) from None


def _keep(_kind: type, value: Any) -> Any:
    """Return the answer as it is: it is converted already."""
    return value


def _in_words(error: msgspec.ValidationError, root: str) -> tuple[str, str]:
    """Return what was expected, and where in the file."""
    expected, _, place = str(error).partition(" - at ")
    inside = place.strip("`").removeprefix("$")
    return f"{expected[:1].lower()}{expected[1:]}", f"{root}{inside}"


def _damaged(where: str, why: str, place: str = "") -> RecordError:
    says = f"{where} cannot be read as a record: {f'{place}: ' if place else ''}{why}"
    # A package that is installed later may bring the question.
    return RecordError(says, HINT_DAMAGED, place, is_lasting=place != "$.question")


def _is_plain(data: bytes, tree: Any) -> bool:
    """Whether a file is not nested too deep, has no number that is not finite, and none of more than 64 bits."""
    if UNFINITE_MARK in data or LONG_NUMBER in data.translate(DIGITS_AS_0).replace(LONG_FRACTION, b"."):
        return False
    level = [tree] if type(tree) in HOLDERS else []
    for _ in range(DEEPEST):
        held = chain.from_iterable(part.values() if type(part) is dict else part for part in level)
        level = [part for part in held if type(part) in HOLDERS]
        if not level:
            return True
    return False


def _with_unfinite(value: Any, deep: int = 0) -> Any:
    if deep > DEEPEST:
        raise RecursionError(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        reason = value.get("missing") if len(value) == 1 else None
        if isinstance(reason, str):
            return UNFINITE.get(reason, value)
        return {key: _with_unfinite(part, deep + 1) for key, part in value.items()}
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise OverflowError("a whole number has more than 64 bits")
    return [_with_unfinite(part, deep + 1) for part in value] if has_parts(value) else value


# The JSON Schema of a record, made from its types: other programs check with it what laptime writes.
#
# It describes the bytes of the file. A number that is not finite is written as a missing value, and the form of
# `answer` depends on `question`.

JSON_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLACE = "#/$defs/{name}"
NOT_FINITE = "NotFinite"
NOT_FINITE_SCHEMA: Tree = {
    "description": "A number that is not finite, which JSON cannot hold.",
    "type": "object",
    "properties": {"missing": {"enum": [*UNFINITE]}},
    "required": ["missing"],
}


def record_schema() -> Tree:
    """Return the JSON Schema of the records that this laptime writes."""
    kinds = [Record, *(row.part(QuestionAnswer).answer for row in QUESTIONS)]
    _, described = msgspec.json.schema_components(kinds, schema_hook=_hook, ref_template=PLACE)
    classes = {kind.__name__: kind for kind in _inside(*kinds, known=set())}
    parts: Tree = {name: _part(part, classes[name]) for name, part in sorted(described.items())}
    parts[NOT_FINITE] = NOT_FINITE_SCHEMA
    record: Tree = parts.pop("Record")
    record["properties"]["schema"] = {"const": SCHEMA}
    record["properties"]["id"] = {"type": "string", "pattern": f"^{ID.pattern}$"}
    record["properties"]["signature"] = {
        "description": "By the laptime that saved it, over all bytes before; no other one can check it.",
        "type": "string",
        "pattern": "^[0-9a-f]{64}$",
    }
    return {
        "$schema": JSON_SCHEMA_DIALECT,
        "$id": f"urn:laptime:record:{SCHEMA}",
        **record,
        "title": f"A record of laptime, schema {SCHEMA}",
        # A record of a question has the answer of this question.
        "allOf": [
            {
                "if": {"properties": {"question": {"const": row.name}}},
                "then": {
                    "properties": {"answer": {"$ref": PLACE.format(name=row.part(QuestionAnswer).answer.__name__)}}
                },
            }
            for row in QUESTIONS
        ],
        "$defs": parts,
    }


def schema_text() -> str:
    """Return the schema as it is in docs/record.schema.json."""
    return text_of_schema(record_schema())


def text_of_schema(made: Tree) -> str:
    """Return a schema as a file has it."""
    return json.dumps(made, indent=1) + "\n"


def answer_schema(name: str, kinds: Sequence[Any], *, is_list: bool, is_finite: bool) -> Tree:
    """Return the schema of an answer that is one of these kinds, or a list of such, as `as_json_holds` leaves it."""
    forms, parts = msgspec.json.schema_components(kinds, schema_hook=_hook, ref_template=PLACE)
    described = {kind: _with_line(part) for kind, part in sorted(parts.items())}
    if not is_finite:
        described = {kind: _schema_with_unfinite(part) for kind, part in described.items()}
    if NOT_FINITE in json.dumps(described):
        described[NOT_FINITE] = NOT_FINITE_SCHEMA
    whole: Tree = forms[0] if len(forms) == 1 else {"anyOf": [*forms]}
    if is_list:
        whole = {"type": "array", "items": whole}
    elif "$ref" in whole:
        whole = described.pop(whole["$ref"].rpartition("/")[2])
    head = {"$schema": JSON_SCHEMA_DIALECT, "$id": f"urn:laptime:{name}", **whole, "title": f"laptime: {name}"}
    return {**head, "$defs": described} if described else head


def _with_line(part: Tree) -> Tree:
    return {**part, "description": " ".join(part["description"].split())} if "description" in part else part


def _hook(kind: type) -> Tree:
    """Describe an answer of a question that is not in the table: packages add questions."""
    assert kind is Answer
    return {"type": "object"}


def _part(part: Tree, kind: type) -> Tree:
    """Return the schema of a class, with the limits of its figures, and numbers as the file has them."""
    fields_of = part.get("properties", {})
    for field, above, _ in figure_fields(kind):
        described = fields_of.get(field, {})
        # A figure that no laptime writes is refused. Lists of figures are not checked when a record is read either.
        for form in (described, *described.get("anyOf", ())):
            if form.get("type") in {"number", "integer"}:
                form["exclusiveMinimum" if above else "minimum"] = 0
    made: Tree = _schema_with_unfinite(_with_line(part))
    return made


def _schema_with_unfinite(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_schema_with_unfinite(part) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("type") == "number":
        limits = {key: part for key, part in tree.items() if key != "default"}
        kept = {"default": tree["default"]} if "default" in tree else {}
        return {"anyOf": [limits, {"$ref": PLACE.format(name=NOT_FINITE)}], **kept}
    return {key: part if key == "default" else _schema_with_unfinite(part) for key, part in tree.items()}


def _inside(*kinds: Any, known: set[Any]) -> Iterator[type]:
    """Yield every class that these hold."""
    for kind in kinds:
        if is_dataclass(kind) and kind not in known:
            known.add(kind)
            yield kind  # type: ignore[misc]
            yield from _inside(*get_type_hints(kind).values(), known=known)
        else:
            yield from _inside(*get_args(kind), known=known)


# Find figures that laptime never writes. A file with one was damaged or edited, and is refused.

NUMBER_TYPES = {int, float}
JSON_TYPES = {int, float, str, bool, type(None)}
FIELD_UNITS = ("_ns", "_us", "_ms", "_s", "_bytes", "_mhz", "_mw", "_w", "_mib")
UNITLESS_FIELDS = {
    "median",
    "seconds",
    "steps",
    "items",
    "laps",
    "heats",
    "calls",
    "pairs",
    "seeds",
    "batch",
    "processes",
}
ABOVE_ZERO: dict[type, tuple[str, ...]] = {
    Comparison: ("ratio",),
    Factor: ("ratio",),
    Forecast: ("laps", "fresh_factor"),
    InferFactor: ("ratio",),
    LapFactor: ("later_laps", "first_lap"),
    LapResult: ("steps",),
    Profile: ("steps", "plain_ms", "profiled_ms"),
    Window: ("steps",),
}
MAY_BE_NEGATIVE: dict[type, tuple[str, ...]] = {
    LinkCost: ("hidden_ms",),  # a step may pay more than an exchange alone
    Operator: ("memory_bytes",),  # freed memory is subtracted
}


def is_sound(value: Any) -> bool:
    """Whether there is no such figure. This must be fast: a list of records may read 100,000 of them."""
    kind: type = type(value)
    if kind is tuple:
        return not value or type(value[0]) in JSON_TYPES or all(map(is_sound, value))
    if kind is dict:
        return all(map(is_sound, value.values()))
    if not _has_fields(kind):
        return True
    for name, above, _ in figure_fields(kind):
        found = getattr(value, name)
        if type(found) in NUMBER_TYPES and (found < 0 or (above and found == 0)):
            return False
    for name in fields_with_parts(kind):
        part = getattr(value, name)
        if type(part) not in JSON_TYPES and not is_sound(part):
            return False
    return True


@cache
def _has_fields(kind: type) -> bool:
    return is_dataclass(kind)


def list_faults(value: Any, place: str = "$") -> Iterator[str]:
    """Yield a message for every such figure, with its place in the file."""
    kind: type = type(value)
    if is_dataclass(kind):
        for name, above, expected in figure_fields(kind):
            found = getattr(value, name)
            if isinstance(found, int | float) and (found < 0 or (above and found == 0)):
                yield f"{place}.{name}: expected a number {expected}, got {found:g}"
        for name in names_of(kind):
            yield from list_faults(getattr(value, name), f"{place}.{name}")
    elif isinstance(value, tuple) and value and not isinstance(value[0], int | float):
        for number, part in enumerate(value):
            yield from list_faults(part, f"{place}[{number}]")
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from list_faults(part, f"{place}.{key}")


@cache
def fields_with_parts(kind: type) -> tuple[str, ...]:
    """Return the fields of a class that may hold figures inside: not texts and single numbers, nor lists of them."""
    return tuple(name for name, hint in get_type_hints(kind).items() if _holds_parts(hint))


def _holds_parts(hint: Any) -> bool:
    return is_dataclass(hint) or hint is Answer or any(map(_holds_parts, get_args(hint)))


@cache
def names_of(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def figure_fields(kind: type) -> tuple[tuple[str, bool, str], ...]:
    """Return a class's fields of times, sizes and counts, each with whether 0 is refused and what is expected."""
    above = ABOVE_ZERO.get(kind, ())
    free = MAY_BE_NEGATIVE.get(kind, ())
    checked = [
        name for name in names_of(kind) if name not in free and (name.endswith(FIELD_UNITS) or name in UNITLESS_FIELDS)
    ]
    return tuple((name, name in above, "above 0" if name in above else "from 0 on") for name in {*checked, *above})
