"""A statement is left out only where all else goes on: it trains nothing, and nobody reads what it makes."""

from __future__ import annotations

import pytest

from laptime.attach.left_out import compile_changed, line_in, lines_changed


@pytest.mark.parametrize(
    "code",
    [
        "for step in range(9):\n    opt.step()\n    time.sleep(1)  # here",
        "for step in range(9):\n    opt.step()\n    history = [value.tolist() for value in model.parameters()]  # here",
        "for step in range(9):\n    opt.step()\n    total += loss.item()  # here\nprint(total)",
        "def fit():\n    opt.step()\n    norm = value.norm()  # here\ndef other(norm):\n    print(norm)",
        "for step in range(9):\n    opt.step()\n    best = deepcopy(model)  # here\nbest = [best for best in range(3)]",
        "torch.autograd.set_detect_anomaly(True)  # here\nopt.step()",
        "with open('log') as file:\n    json.dump([1], file)  # here\n    seen = 1",
    ],
)
def test_a_statement_whose_result_nobody_reads_can_be_left_out(code):
    line = next(number for number, text in enumerate(code.splitlines(), 1) if "# here" in text)
    assert lines_changed(code, line, "without") == (line, line)


@pytest.mark.parametrize(
    "code",
    [
        "loss.backward()  # here",
        "opt.step()  # here",
        "x = x / 255  # here\nmodel(x)",
        "def norms():\n    found = [1]  # here\n    return found",
        "def norms():\n    return [1]  # here",
        "for value in data:\n    if value:\n        break  # here",
        "import torch  # here",
        "def keep():\n    global best\n    best = 1  # here",
        "model.weight = 1  # here",
        "kept['last'] = 1  # here",
        "def work():\n    history = 1  # here\n    return lambda: history",
        "for value in data:  # here\n    model(value)\nprint(value)",
        "norms = [1]  # here\nfor value in range(3):\n    print([norms for value in data])",
        "scaler.update()  # here",
        "this is no Python  # here",
        "x = '''\n# here\n'''\nprint(x)",
    ],
)
def test_what_is_needed_stays(code):
    line = next(number for number, text in enumerate(code.splitlines(), 1) if "# here" in text)
    assert lines_changed(code, line, "without") is None


def test_a_loop_that_does_nothing_else_is_left_out_whole():
    """So is a `with`, whatever others bind the same name. The training's own loop never is."""
    saves = "with open('log') as file:\n    json.dump([1], file)\n"
    saves += "with open('in') as file:\n    data = file.read()\nfit(data)"
    assert lines_changed(saves, 2, "without") == (1, 2)
    assert lines_changed(saves, 4, "without") is None
    inner = "for step in range(9):\n    opt.step()\n    for value in data:\n        total += value  # here"
    assert lines_changed(inner, 4, "without") == (3, 4)
    nested = (
        "for step in data:\n    opt.step()\n    for row in data:\n        for value in row:\n            total += value"
    )
    assert lines_changed(nested, 5, "without") == (3, 5)
    assert lines_changed("for step in range(9):\n    opt.step()", 2, "without") is None
    assert lines_changed("for step in range(9):\n    train(model)\n    print(step)", 3, "without") == (3, 3)
    whole = "for step in data:\n    opt.step()\n    rows = 0\n    for row in data:\n        rows += 1\n        n = row"
    assert lines_changed(whole, 4, "without") == (4, 6)
    assert lines_changed(whole, 6, "without") == (6, 6)


def test_a_statement_of_several_lines_is_left_out_with_all_of_them():
    assert lines_changed("opt.step()\nprint(\n    1,\n    2,\n)\n", 3, "without") == (2, 5)


def test_the_code_has_the_lines_that_it_had_and_lacks_the_statement():
    source = "ran = []\nran.append(1)\nran.append(2)\nraise ValueError(3)\n"
    names = {}
    with pytest.raises(ValueError, match="3") as raised:
        exec(compile_changed(source, "train.py", 2, "without"), names)
    assert names["ran"] == [2]
    assert raised.traceback[-1].lineno + 1 == 4
    assert compile_changed(source, "train.py", 4, "without") is None


def test_a_word_names_a_line_of_its_file_alone():
    assert line_in("/home/me/train.py", "train.py:45") == 45
    assert [line_in(place, "train.py:45") for place in ("/home/me/retrain.py", "train", "")] == [0, 0, 0]
    assert [line_in("train.py", word) for word in ("", "train.py")] == [0, 0]


@pytest.mark.parametrize(
    ("code", "can_be"),
    [
        ("rows = [embed(row) for row in data]  # here\nmodel(rows)", True),
        ("x = x.to(device).clone()  # here\nmodel(x)", True),
        ("total += loss.item()  # here", True),
        ("def forward(x):\n    return layer(x)  # here", True),
        ("x = y  # here", False),
        ("batch = next(batches)  # here", False),
        ("item = queue.get()  # here", False),
        ("loss = step.backward()  # here", False),
        ("x = torch.relu_(x)  # here", False),
        ("x = x.add_(1)  # here", False),
        ("log.write(text)  # here", False),
        ("if model(x):  # here\n    y = 1", False),
        ("async def fetch():\n    return await page()  # here", False),
    ],
)
def test_what_a_statement_makes_is_made_twice_where_that_changes_nothing_else(code, can_be):
    line = next(number for number, text in enumerate(code.splitlines(), 1) if "# here" in text)
    assert lines_changed(code, line, "twice") == ((line, line) if can_be else None)


def test_what_is_made_twice_is_called_twice_and_kept_once():
    calls = []
    source = b"def make():\n    return [each(1) for each in made]\nkept = make()\n"
    for line, times in ((2, 2), (3, 2), (1, None)):
        code = compile_changed(source, "train.py", line, "twice")
        assert (code is None) == (times is None)
        if code is not None:
            names = {"made": [lambda value: calls.append(value) or value]}
            calls.clear()
            exec(code, names)
            assert (names["kept"], len(calls)) == ([1], times)


@pytest.mark.parametrize(
    ("code", "can_be"),
    [
        ("for epoch in range(9):\n    train(model)\n    score = evaluate(model)  # here\n    show(score)", True),
        ("for step in range(9):\n    opt.step()\n    if step % 5 == 0:  # here\n        score = evaluate(model)", True),
        ("def main():\n    for epoch in range(9):\n        score = evaluate(model)  # here\n        keep(score)", True),
        ("def epoch():\n    score = evaluate(model)  # here\n    return score\nfor _ in range(9):\n    epoch()", False),
        ("score = evaluate(model)  # here", False),
        ("for step in range(9):\n    loss.backward()  # here", False),
        ("for step in range(9):\n    if step > 3:  # here\n        break", False),
        ("for step in range(9):\n    def rate():  # here\n        return step", False),
    ],
)
def test_a_statement_is_done_seldom_in_a_loop_that_keeps_what_it_made(code, can_be):
    line = next(number for number, text in enumerate(code.splitlines(), 1) if "# here" in text)
    assert (lines_changed(code, line, "seldom") is not None) == can_be


def test_what_is_done_seldom_is_done_first_and_every_tenth_time():
    """What it made stays until then. Of an `if`, the times count at which its condition holds."""
    source = "for turn in range(25):\n    made = turn\n    ran.append(made)\n"
    names = {"ran": []}
    exec(compile_changed(source, "train.py", 2, "seldom"), names)
    assert names["ran"] == [0] * 10 + [10] * 10 + [20] * 5
    source = "for turn in range(99):\n    if turn % 3 == 0:\n        ran.append(turn)\n"
    names = {"ran": []}
    exec(compile_changed(source, "train.py", 2, "seldom"), names)
    assert names["ran"] == [0, 30, 60, 90]
