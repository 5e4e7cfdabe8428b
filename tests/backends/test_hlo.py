"""Programs of XLA's in the bytes of a profile: whose operator is whose, and what is of another form names nothing."""

from __future__ import annotations

import pytest

from laptime.engine.backends.xplane import XEvent, XLine, XPlane, host_operators, name_origins, read_origins


def varint(value: int) -> bytes:
    return bytes([value] if value < 128 else [value & 0x7F | 0x80, value >> 7])


def field(number: int, held: bytes | int) -> bytes:
    """Write a field as protobuf does; these are all short."""
    if isinstance(held, int):
        return varint(number << 3) + varint(held)
    return varint(number << 3 | 2) + varint(len(held)) + held


def instruction(name: str, origin: str, kind: bytes = b"fusion", calls: bytes | int = b"") -> bytes:
    told = field(7, field(2, origin.encode())) if origin else b""
    return field(2, field(1, name.encode()) + field(2, kind) + told + (field(38, calls) if calls else b""))


BODY = field(
    3,
    field(1, b"fused")
    + instruction("conv.1", "jit(step)/jvp(cnn)/conv_general_dilated", b"convolution")
    + instruction("max.2", "jit(step)/jvp(re_lu)/max", b"maximum")
    + field(5, 200),
)
NAMELESS = field(3, field(1, b"nameless") + instruction("conv.3", "", b"convolution") + field(5, 7))
MODULE = (
    BODY
    + NAMELESS
    + field(
        3,
        field(1, b"main")
        + instruction("ynn_fusion.9", "jit(step)/transpose(jvp(cnn))/conv_general_dilated")
        + instruction("copy", "")
        + instruction("w", "w[0]")
        + instruction("ynn_fusion.5", "", calls=varint(200))
        + instruction("ynn_fusion.6", "", calls=200)
        + instruction("ynn_fusion.7", "", calls=7)
        + field(5, 1),
    )
)
PROGRAM = field(1, 12) + field(2, b"jit_step(12)") + field(5, field(1, 4) + field(6, field(1, MODULE)))
CONVOLUTION = "jvp(cnn)/conv_general_dilated"
SPACE = field(1, field(2, b"/host:CPU")) + field(
    1, field(2, b"/host:metadata") + field(4, field(1, 12) + field(2, PROGRAM))
)


def test_an_operator_is_known_by_its_program_and_its_name():
    """The program's own name is left out of the place; what has no place is not there.

    A fusion that says nothing of itself is there for the convolution in it.
    """
    assert read_origins(SPACE) == {
        ("jit_step(12)", "ynn_fusion.9"): "transpose(jvp(cnn))/conv_general_dilated",
        ("jit_step(12)", "w"): "w[0]",
        ("jit_step(12)", "conv.1"): CONVOLUTION,
        ("jit_step(12)", "max.2"): "jvp(re_lu)/max",
        ("jit_step(12)", "ynn_fusion.5"): CONVOLUTION,
        ("jit_step(12)", "ynn_fusion.6"): CONVOLUTION,
        ("jit_step(12)", "ynn_fusion.7"): "convolution",
    }


@pytest.mark.parametrize("told", [b"", b"no profile at all", SPACE[:-3], b"\x0a\xff", b"\xff" * 9])
def test_what_is_of_another_form_names_nothing(told):
    assert read_origins(told) == {}


def test_xlas_operators_say_where_they_come_from():
    """Two programs may have an operator of one name."""
    facts = {"hlo_op": "ynn_fusion.9", "hlo_module": "jit_step"}
    events = (XEvent("a", 0, 5, {**facts, "program_id": "12"}), XEvent("b", 5, 3, {**facts, "program_id": "13"}))
    planes = name_origins([XPlane("/host:CPU", (XLine("worker", events),))], read_origins(SPACE))
    told = {each.name: each.own_ns for each in host_operators(planes)}
    assert told == {"ynn_fusion.9 (transpose(jvp(cnn))/conv_general_dilated)": 5, "ynn_fusion.9": 3}
