"""Where XLA's operators come from: XLA names a fused operator after what it computes; the program holds its origin.

The profiles of JAX and TensorFlow include the programs that ran, as protobuf messages. Neither framework has a reader
for them, so this module reads the few fields that it needs. A message is a list of pairs: a field's number and its
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Origins = dict[tuple[str, str], str]

# Field numbers in XLA's xplane.proto and hlo.proto.
PLANES, PLANE_NAME, PLANE_PROGRAMS = 1, 2, 4
ENTRY_VALUE, PROGRAM_NAME, PROGRAM_FACTS, FACT_BYTES = 2, 2, 5, 6
MODULE, COMPUTATIONS, INSTRUCTIONS = 1, 3, 2
COMPUTATION_ID, INSTRUCTION_CALLS = 5, 38
INSTRUCTION_NAME, INSTRUCTION_KIND, INSTRUCTION_METADATA, METADATA_OP_NAME = 1, 2, 7, 2
HEAVY = (b"convolution", b"dot")  # the main work of a fusion that contains one
PLANE_OF_PROGRAMS = b"/host:metadata"
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


def read_origins(space: bytes) -> Origins:
    """Return the place in the user's code for each operator, by program and operator.

    For a file in another format this is empty: operators then keep XLA's own names.
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
        bodies = {_id_of(computation): _held(computation, INSTRUCTIONS) for computation in _held(module, COMPUTATIONS)}
        for instruction in (each for body in bodies.values() for each in body):
            name = b"".join(_held(instruction, INSTRUCTION_NAME)).decode()
            origin = _origin_of(instruction) or _origin_within(instruction, bodies)
            if origin:
                yield (program, name), _without_program(origin)


def _origin_of(instruction: bytes) -> str:
    told = (word for metadata in _held(instruction, INSTRUCTION_METADATA) for word in _held(metadata, METADATA_OP_NAME))
    return next(told, b"").decode()


def _origin_within(instruction: bytes, bodies: Mapping[int, list[bytes]]) -> str:
    """Return, for a fusion without an origin, that of its product or convolution, else of its last operator with one.

    XLA loses the origin of some operators that it rewrites: then the name of the operation is better than nothing.
    """
    inside = [each for called in _calls_of(instruction) for each in bodies.get(called, [])]
    heavy = [each for each in inside if _kind_of(each) in HEAVY]
    if heavy:
        return _origin_of(heavy[-1]) or _kind_of(heavy[-1]).decode()
    return next((_origin_of(each) for each in reversed(inside) if _origin_of(each)), "")


def _kind_of(instruction: bytes) -> bytes:
    return b"".join(_held(instruction, INSTRUCTION_KIND))


def _calls_of(instruction: bytes) -> list[int]:
    """Return the ids of the computations that an instruction calls: packed numbers, or one field each."""
    called: list[int] = []
    for field, value in _fields(instruction):
        if field != INSTRUCTION_CALLS:
            continue
        if isinstance(value, int):
            called.append(value)
            continue
        place = 0
        while place < len(value):
            number, place = _read_varint(value, place)
            called.append(number)
    return called


def _id_of(computation: bytes) -> int:
    return next(
        (value for field, value in _fields(computation) if field == COMPUTATION_ID and isinstance(value, int)), -1
    )


def _without_program(origin: str) -> str:
    """Remove the program from an origin: in `jit(step)/jvp()/dot_general`, all operators are in `jit(step)`."""
    first, _, rest = origin.partition("/")
    return rest if first.startswith("jit(") and rest else origin


def _held(message: bytes, number: int) -> list[bytes]:
    """Return the values of all fields of this number that hold bytes: strings, bytes or nested messages."""
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
