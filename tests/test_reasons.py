"""No program reads a sentence of laptime's own: a reason that something depends on is a value with a kind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import laptime

HOUSE = Path(laptime.__file__).parent
READING = {
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split", "find", "replace",
}  # fmt: skip
LETTERS_LEAST = 5  # of a text with a space in it that may be a sentence, or a part of one
# What may read words, each with the reason. Text of others cannot be typed, and a key of a table is no sentence.
ALLOWED = {
    "analysis/step_states.py: MACHINE_SLOW": "a flag of a window has no kind in the record, and there are many windows",
    "engine/backends/keras/own_model.py: 'Unrecognized data type'": "Keras's message",
    "engine/backends/torch/inputs.py: 'DataLoader worker (pid'": "PyTorch's message",
    "cli/main.py: \"can't start new thread\"": "Python's message",
    "model/symptoms.py: NO_FAILURE": "a line that PyTorch prints",
    "questions/doctor/checkup.py: 'busy or unavailable'": "CUDA's message",
    "questions/doctor/checkup.py: 'not usable'": "it is where PyTorch would name a version",
    "questions/doctor/checkup.py: ('preferring power', 'preferring balance_power')": "the system's words",
    "questions/subject.py: TRACEBACK": "a line that Python prints",
    "show/board/site.py: ' as written'": "it is written, not read",
    "show/pages/listing.py: \" and cross-entropy, on the last layer's outputs\"": "it is written, not read",
    "planner/plan.py: DRIVEN": "a key of a device's details",
    "questions/verdict/speed.py: IN_SHARED_MEMORY": "a word of a table",
    "engine/backends/own.py: OF_A_GRAPH": "TensorFlow's words",
    "engine/backends/own.py: TRACE": "a line that Python prints",
    "questions/why/facts.py: NO_INPUT": "a key of the notes on a step",
    "questions/why/page.py: LONGEST_LINES": "the same",
    "questions/why/run.py: NO_INPUT": "the same",
    "questions/why/step_causes.py: NO_INPUT": "the same",
}  # fmt: skip


def test_no_program_reads_a_sentence_of_laptimes_own():
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(HOUSE.rglob("*.py"))}
    constants = {name: text for tree in trees.values() for name, text in list_constants(tree)}
    found = {
        f"{path.relative_to(HOUSE).as_posix()}: {words}"
        for path, tree in trees.items()
        for words in list_readings(tree, constants)
    }
    assert sorted(found ^ ALLOWED.keys()) == []  # what is allowed is there, too


def test_a_sentence_that_is_read_is_found():
    planted = ast.parse(
        'SLOW = "the machine was slow"\n'
        "def judge(says, flag):\n"
        '    return says.startswith(SLOW) or "its loss differs" in says or flag == "not quiet"\n'
    )
    assert list(list_readings(planted, dict(list_constants(planted)))) == ["SLOW", "'its loss differs'"]


def list_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names of a module that hold a text, and the texts."""
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
            pairs = zip(target.elts, value.elts, strict=False) if _are_tuples(target, value) else [(target, value)]
            for name, part in pairs:
                if isinstance(name, ast.Name) and part is not None and (text := _text_of(part, {})):
                    yield name.id, text


def _are_tuples(target: ast.AST | None, value: ast.AST | None) -> bool:
    return isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)


def list_readings(tree: ast.Module, constants: dict[str, str]) -> Iterator[str]:
    """Yield each text that another one is searched for, as the code has it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
            texts = [one for op, one in zip(node.ops, asked, strict=False) if isinstance(op, ast.In | ast.NotIn)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READING:
            texts = node.args
        else:
            continue
        for each in texts:
            parts = each.elts if isinstance(each, ast.Tuple) else [each]
            if any(_is_sentence(_text_of(part, constants)) for part in parts):
                yield ast.unparse(each)


def _text_of(node: ast.AST, constants: dict[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part, constants) or "{}" for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text_of(node.left, constants) + _text_of(node.right, constants)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return constants.get(name, "")


def _is_sentence(text: str) -> bool:
    return " " in text.strip() and sum(letter.isalpha() for letter in text) >= LETTERS_LEAST
