"""Changes of a script that trains by Keras's `fit`: of the model's `compile`, of `fit`, and of its PyDataset."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence

from laptime.questions.text_edits import TextEdit, name_call, name_calls, set_keywords
from laptime.questions.user_code import CodePart, NoPlaceError, SourceFile, UserCode, is_main_guard

PlacedEdits = tuple[SourceFile, int, Sequence[TextEdit]]

FORKS_UNTIL = (3, 14)  # from this Python on, workers are not forked on Linux either
USUAL_FIT_BATCH = 32  # of `fit`, where a script names none
DATASET_PLACES = ("workers", "use_multiprocessing", "max_queue_size")


def fits_by_keras(code: UserCode) -> bool:
    """Whether a script imports Keras, and calls a `fit`."""
    imported = {whole for unit in code.units for whole in unit.file.imported.values()}
    has_keras = any("keras" in whole.split(".") or whole == "tensorflow" for whole in imported)
    return has_keras and bool(_methods(code, "fit"))


def _methods(code: UserCode, name: str) -> list[tuple[CodePart, ast.Call]]:
    """Return the calls of a method of this name with arguments; a function of a module (`re.compile`) is none."""
    return [
        (unit, call)
        for unit, call, whole in code.calls()
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == name
        and not whole
        and (call.args or call.keywords)
    ]


def keras_compile(code: UserCode, value: int, *, keyword: str, text: str) -> PlacedEdits:
    """Set a keyword where the model is compiled."""
    found = _methods(code, "compile")
    if len(found) != 1 or not any(
        "keras" in whole or whole == "tensorflow" for whole in found[0][0].file.imported.values()
    ):
        raise NoPlaceError(f"not one call of model.compile(optimizer=..., loss=...): {name_calls(found) or 'none'}")
    unit, call = found[0]
    return unit.file, call.lineno, set_keywords(unit.file, call, {keyword: text.format(value=value)}, ())


def _fit(code: UserCode) -> tuple[CodePart, ast.Call]:
    found = _methods(code, "fit")
    if len(found) != 1:
        raise NoPlaceError(f"not one call of fit: {name_calls(found) or 'none'}")
    return found[0]


def keras_batch(code: UserCode, _value: int, *, times: float) -> PlacedEdits | None:
    """Set the batch of `fit`; None where a data loader or a data set of its own cuts batches."""
    if _makes_loaders(code) or _datasets(code):
        return None
    unit, call = _fit(code)
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "batch_size"), None)
    given = call.args[2] if given is None and len(call.args) > 2 else given
    usual: object = USUAL_FIT_BATCH
    if given is not None:
        usual = given.value if isinstance(given, ast.Constant) else None
    if type(usual) is not int:
        raise NoPlaceError(f"{name_call(unit.file, call)} has no batch_size that is a number")
    text = {"batch_size": str(max(1, int(usual * times)))}
    return unit.file, call.lineno, set_keywords(unit.file, call, text, ("x", "y", "batch_size"))


# Keras's PyDataset: a class of the script's own, which takes its workers where it is made, or hands them to Keras.


def keras_workers(code: UserCode, value: int) -> PlacedEdits | None:
    """Set the workers of the data set that is trained on; None where a DataLoader loads."""
    return None if _makes_loaders(code) else _in_dataset(code, "workers", str(value))


def keras_processes(code: UserCode, _value: int) -> PlacedEdits:
    """Let the workers of the data set be processes."""
    forks = sys.platform == "linux" and sys.version_info < FORKS_UNTIL
    if not forks and not any(map(is_main_guard, code.start.tree.body)):
        raise NoPlaceError('workers import the script here, and it has no `if __name__ == "__main__":`')
    return _in_dataset(code, "use_multiprocessing", "True")


def keras_prefetch(code: UserCode, value: int) -> PlacedEdits | None:
    """Set how many batches are ready: of a PyDataset's workers in all, or behind a tf.data pipeline."""
    if _makes_loaders(code):
        return None
    if not _datasets(code):
        if not any(whole.startswith("tensorflow.data.") for _, _, whole in code.calls()):
            raise NoPlaceError(
                "no class of its own that is a PyDataset, and no tf.data pipeline, is in the script's code"
            )
        unit, call = _fit(code)
        data = next((keyword.value for keyword in call.keywords if keyword.arg == "x"), None) or next(
            iter(call.args), None
        )
        if not isinstance(data, ast.Name | ast.Attribute | ast.Call):
            raise NoPlaceError(f"what {name_call(unit.file, call)} trains on is not certain")
        end = unit.file.span(data)[1]
        return unit.file, call.lineno, [TextEdit(end, end, f".prefetch({value})")]
    file, call = _dataset_call(code)
    workers = next((keyword.value for keyword in call.keywords if keyword.arg == "workers"), None)
    if not isinstance(workers, ast.Constant) or type(workers.value) is not int or workers.value < 1:
        raise NoPlaceError(f"{name_call(file, call)} has no workers")
    return _in_dataset(code, "max_queue_size", str(value * workers.value))


def _makes_loaders(code: UserCode) -> bool:
    return any(whole.startswith("torch.utils.data.") and whole.endswith(".DataLoader") for _, _, whole in code.calls())


def _in_dataset(code: UserCode, keyword: str, text: str) -> PlacedEdits:
    file, call = _dataset_call(code)
    # Whether the arguments of a call are those of PyDataset itself, by their places, too
    if _is_super_init(call):
        is_plain = True
    else:
        made = _datasets(code)[call.func.id].node if isinstance(call.func, ast.Name) else None
        is_plain = isinstance(made, ast.ClassDef) and not any(
            getattr(statement, "name", "") == "__init__" for statement in made.body
        )
    return file, call.lineno, set_keywords(file, call, {keyword: text}, DATASET_PLACES if is_plain else ())


def _datasets(code: UserCode) -> dict[str, CodePart]:
    """Return the classes that are a PyDataset, by name."""
    return {
        unit.node.name: unit
        for unit in code.units
        if isinstance(unit.node, ast.ClassDef) and any(_is_dataset(unit.file, base) for base in unit.node.bases)
    }


def _is_dataset(file: SourceFile, base: ast.expr) -> bool:
    whole = file.whole_name(base)
    return "keras" in whole and whole.rpartition(".")[2] in {"PyDataset", "Sequence"}


def _dataset_call(code: UserCode) -> tuple[SourceFile, ast.Call]:
    """Return the call that hands workers on to Keras: the one that makes the data set, or `super().__init__`."""
    classes = _datasets(code)
    if not classes:
        raise NoPlaceError("no class of its own that is a PyDataset is in the script's code")
    found = [
        (unit, call) for unit, call, _ in code.calls() if isinstance(call.func, ast.Name) and call.func.id in classes
    ]
    if len(found) > 1:
        fitted = _fitted(code)
        found = [(unit, call) for unit, call in found if _is_fitted(unit, call, fitted)] or found
    if len(found) != 1:
        raise NoPlaceError(f"not one call that makes a PyDataset to train on: {name_calls(found) or 'none'}")
    unit, call = found[0]
    assert isinstance(call.func, ast.Name)
    made = classes[call.func.id]
    assert isinstance(made.node, ast.ClassDef)
    first = next(
        (
            function
            for function in made.node.body
            if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        ),
        None,
    )
    if first is None and len(made.node.bases) > 1:
        raise NoPlaceError(f"what {made.node.name} hands on to PyDataset is not certain")
    if first is None:
        return unit.file, call
    inner = next((node for node in ast.walk(first) if isinstance(node, ast.Call) and _is_super_init(node)), None)
    if inner is None:
        raise NoPlaceError(f"{made.node.name} does not call super().__init__()")
    if any(keyword.arg is None for keyword in inner.keywords):  # it hands on what it is given: super().__init__(**more)
        return unit.file, call
    return made.file, inner


def _is_super_init(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return True
    return False


def _fitted(code: UserCode) -> list[ast.expr]:
    """Return what calls of `fit` train on."""
    found = []
    for _, call in _methods(code, "fit"):
        found += [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "x")]
    return found


def _is_fitted(unit: CodePart, call: ast.Call, fitted: Sequence[ast.expr]) -> bool:
    """Whether a data set is what `fit` is given: there, or by its name."""
    names = {
        target.id
        for node in ast.walk(unit.node)
        if isinstance(node, ast.Assign) and node.value is call
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return any(
        expression is call or (isinstance(expression, ast.Name) and expression.id in names) for expression in fitted
    )
