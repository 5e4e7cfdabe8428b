"""Where XLA's operators come from: what it has fused is called after its own doing, and the program says what it was.

JAX's and TensorFlow's profiles bring the programs that ran along, as messages of protobuf's. Neither gives a reader for
them, so the few fields that are wanted are read here: messages are pairs of a field's number and what it holds.
"""

from __future__ import annotations

from collections.abc import Iterator

Origins = dict[tuple[str, str], str]

# Numbers of fields, in xplane.proto and hlo.proto of XLA.
PLANES, PLANE_NAME, PLANE_PROGRAMS = 1, 2, 4
ENTRY_VALUE, PROGRAM_NAME, PROGRAM_FACTS, FACT_BYTES = 2, 2, 5, 6
MODULE, COMPUTATIONS, INSTRUCTIONS = 1, 3, 2
INSTRUCTION_NAME, INSTRUCTION_METADATA, METADATA_OP_NAME = 1, 7, 2
PLANE_OF_PROGRAMS = b"/host:metadata"
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


def read_origins(space: bytes) -> Origins:
    """Give, by program and operator, the place in the user's code that an operator stands for.

    A file that is of another form names nothing: the operators keep XLA's own names.
    """
    try:
        return dict(_origins_in(space))
    except (IndexError, ValueError, UnicodeDecodeError):
        return {}


def _origins_in(space: bytes) -> Iterator[tuple[tuple[str, str], str]]:
    for plane in _held(space, PLANES):
        if PLANE_OF_PROGRAMS not in _held(plane, PLANE_NAME):
            continue
        for entry in _held(plane, PLANE_PROGRAMS):
            for program in _held(entry, ENTRY_VALUE):
                name = b"".join(_held(program, PROGRAM_NAME)).decode()
                for fact in _held(program, PROGRAM_FACTS):
                    for told in _held(fact, FACT_BYTES):
                        yield from _origins_of(name, told)


def _origins_of(program: str, told: bytes) -> Iterator[tuple[tuple[str, str], str]]:
    for module in _held(told, MODULE):
        for computation in _held(module, COMPUTATIONS):
            for instruction in _held(computation, INSTRUCTIONS):
                name = b"".join(_held(instruction, INSTRUCTION_NAME)).decode()
                for metadata in _held(instruction, INSTRUCTION_METADATA):
                    origin = b"".join(_held(metadata, METADATA_OP_NAME)).decode()
                    if origin:
                        yield (program, name), _without_program(origin)


def _without_program(origin: str) -> str:
    """`jit(step)/jvp()/dot_general` is in the program `step`, as all its operators are."""
    first, _, rest = origin.partition("/")
    return rest if first.startswith("jit(") and rest else origin


def _held(message: bytes, number: int) -> list[bytes]:
    """Give what all fields of this number hold that are words, bytes or messages in turn."""
    return [value for field, value in _fields(message) if field == number and isinstance(value, bytes)]


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _read_varint(message, place)
            yield number, value
            continue
        if kind == BYTES:
            length, place = _read_varint(message, place)
        elif kind in {FIXED_64, FIXED_32}:
            length = 8 if kind == FIXED_64 else 4
        else:
            raise ValueError(f"no field is of kind {kind}")
        if place + length > len(message):
            raise ValueError("a field reaches over the end")
        yield number, message[place : place + length]
        place += length


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place
