"""What a line of a loop does in each step is done every hundred steps only, where that is certain to be harmless."""

from __future__ import annotations

import textwrap

import pytest

from laptime.questions.rewrites import describe_rewrite, find_rewrite, rewrite
from laptime.questions.user_code import NoPlaceError, read_code

LOOP = """\
import torch
for epoch in range(9):
    for i, (rows, labels) in enumerate(loader):
        loss = model(rows)
        opt.step()
        HERE
"""


def changed(tmp_path, text, line=None, word="seldom"):
    """Return the lines that a change adds or removes."""
    script = tmp_path / "train.py"
    script.write_text(text)
    number = line or next(number for number, each in enumerate(text.splitlines(), 1) if "# here" in each)
    edited = rewrite(read_code(script, None), f"{word}={number}")
    return [each for each in edited.data.decode().splitlines() if each not in text.splitlines()]


@pytest.mark.parametrize(
    "line",
    [
        "history = [value.tolist() for value in model.parameters()]",
        "torch.save(model.state_dict(), 'last.pt')",
        "writer.add_histogram('weights', model.weight)",
        "best = copy.deepcopy(model.state_dict())",
        "gc.collect()",
        "os.fsync(log.fileno())",
    ],
)
def test_what_nobody_reads_is_done_seldom(tmp_path, line):
    assert changed(tmp_path, LOOP.replace("HERE", f"{line}  # here")) == [
        "        if i % 100 == 0:",
        f"            {line}  # here",
    ]


def test_statements_of_several_lines_and_loops_are_indented_whole(tmp_path):
    text = LOOP.replace("HERE", "print(  # here\n            loss,\n        )")
    lines = ["if i % 100 == 0:", "    print(  # here", "        loss,", "    )"]
    assert changed(tmp_path, text) == [f"        {line}" for line in lines]
    text = LOOP.replace("HERE", "for value in model.parameters():\n            total = value.norm()  # here")
    assert changed(tmp_path, text)[0] == "        if i % 100 == 0:"
    assert changed(tmp_path, text)[1] == "            for value in model.parameters():"
    text = LOOP.replace("HERE", "total = 0\n        for value in numbers:\n            total += value  # here")
    assert changed(tmp_path, text)[0] == "        if i % 100 == 0:"
    text = LOOP.replace("HERE", "with open('w.json', 'w') as file:\n            json.dump(weights, file)  # here")
    assert changed(tmp_path, text)[:2] == [
        "        if i % 100 == 0:",
        "            with open('w.json', 'w') as file:",
    ]


def test_a_loop_that_adds_one_to_a_name_counts_its_steps(tmp_path):
    """In each turn, and nowhere else: `while True` as well as a loop over batches."""
    text = textwrap.dedent("""\
        step = 0
        while True:
            opt.step()
            torch.save(model.state_dict(), "last.pt")  # here
            step += 1
    """)
    assert changed(tmp_path, text)[0] == "    if step % 100 == 0:"
    assert changed(tmp_path, text.replace("while True:", "for rows in loader:"))[0] == "    if step % 100 == 0:"
    for other in ("step += 2", "step += 1; step -= 1", "if done: step += 1", "step = step + 1"):
        with pytest.raises(NoPlaceError, match="does not count its steps"):
            changed(tmp_path, text.replace("step += 1", other))


def test_no_file_is_left_empty(tmp_path):
    """Where it is opened each time, and written now and then. What changes gradients alone opens nothing."""
    body = "with HEAD:\n            json.dump(weights, file)  # here\n            seen = 1\n        print(seen)"
    with pytest.raises(NoPlaceError, match="open would still be opened each time"):
        changed(tmp_path, LOOP.replace("HERE", body.replace("HEAD", "open('w.json', 'w') as file")))
    edited = changed(tmp_path, LOOP.replace("HERE", body.replace("HEAD", "torch.no_grad()")))
    assert edited[0] == "            if i % 100 == 0:"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("loss.backward()", "trains something"),
        ("torch.nn.utils.clip_grad_norm_(weights, 1.0)", "trains something"),
        ("target.load_state_dict(model.state_dict())", "trains something"),
        ("memory.push(rows)", "trains something"),
        ("soft_update(target, model)", "may do something that the training needs"),
        ("buffer.append(rows)", "may do something that the training needs"),
        ("for value in rows:\n            total += value\n        print(total)", "trains something|needs"),
        ("i = 3", "trains something, or other code reads"),
        ("print(loss); loss.item()", "shares its line"),
        ('print("""a\n  text""")', "shares its line, or has a text of several lines"),
    ],
)
def test_what_may_be_needed_stays_as_it_is(tmp_path, line, why):
    text = LOOP.replace("HERE", f"{line}  # here\n        print(i)")
    number = next(number for number, each in enumerate(text.splitlines(), 1) if line.split("\n")[0] in each)
    with pytest.raises(NoPlaceError, match=why):
        changed(tmp_path, text, number)


@pytest.mark.parametrize(
    "loop",
    [
        "for rows in loader:",
        "while True:",
        "for rows, i in zip(loader, range(9)):",
        "for i, rows in loader.items():",
        "for i in loader:",
    ],
)
def test_a_loop_that_does_not_count_has_no_such_change(tmp_path, loop):
    text = f"for epoch in range(9):\n    {loop}\n        opt.step()\n        print(model)  # here\n"
    with pytest.raises(NoPlaceError, match="does not count its steps"):
        changed(tmp_path, text)


def test_loops_that_count_are_known_within_what_shows_progress(tmp_path):
    text = textwrap.dedent("""\
        for step, rows in tqdm(enumerate(loader), total=9):
            opt.step()
            print(model)  # here
    """)
    assert changed(tmp_path, text)[0] == "    if step % 100 == 0:"
    assert changed(tmp_path, text.replace("step, rows in tqdm(enumerate(loader), total=9)", "step in range(9)"))[0] == (
        "    if step % 100 == 0:"
    )


def test_it_says_what_it_changes():
    assert describe_rewrite("seldom=73") == (
        "Do what line 73 does every 100 steps only. This changes what that line does."
    )
    assert find_rewrite("seldom=1500")[1] == 1500
    with pytest.raises(NoPlaceError, match="1500 is more than 1024"):
        find_rewrite("workers=1500")


EPOCHS = """\
import torch


def train(loader):
    for rows in loader:
        model(rows).backward()
        opt.step()


def test(loader):
    model.eval()
    with torch.no_grad():  # here
        for rows in loader:
            total = model(rows)
    print(total)


def main(args):
    for epoch in RANGE:
        train(loader)
        TEST
        scheduler.step()


if __name__ == "__main__":
    main(read())
"""


@pytest.mark.parametrize(
    ("counted", "last"),
    [
        ("range(9)", " or epoch == 8"),
        ("range(1, args.epochs + 1)", " or epoch == args.epochs"),
        ("tqdm(range(args.epochs))", " or epoch == args.epochs - 1"),
        ("range(args.epochs * 2)", " or epoch == (args.epochs * 2) - 1"),
        ("range(0, 90, 3)", ""),
    ],
)
def test_an_evaluation_is_made_in_every_tenth_turn_and_in_the_last(tmp_path, counted, last):
    text = EPOCHS.replace("RANGE", counted).replace("TEST", "test(others)")
    head = f"        if epoch % 10 == 0{last}:"
    assert changed(tmp_path, text, word="some_turns") == [head, "            test(others)"]


def test_a_checkpoint_between_epochs_is_one_too(tmp_path):
    text = EPOCHS.replace("# here", "").replace("RANGE", "range(9)")
    text = text.replace("TEST", "torch.save(model.state_dict(), 'last.pt')  # here")
    assert changed(tmp_path, text, word="some_turns")[0] == "        if epoch % 10 == 0 or epoch == 8:"
    lines = "with open('last.pt', 'wb') as file:", "torch.save(model.state_dict(), file)  # here", "file.flush()"
    opened = "\n            ".join(lines)
    text = text.replace("torch.save(model.state_dict(), 'last.pt')  # here", opened)
    assert changed(tmp_path, text, word="some_turns")[1] == "            with open('last.pt', 'wb') as file:"


COUNTED = """\
import torch


@torch.inference_mode()
def evaluate(model, rows):
    return model(rows).mean()  # here


step, best = 0, None
while True:
    model(batch).backward()
    opt.step()
    if step > 0 and step % 500 == 0:
        train_loss = evaluate(model, rows)
        test_loss = evaluate(model, others)
        if best is None or test_loss < best:
            torch.save(model.state_dict(), "best.pt")
            best = test_loss
    step += 1
"""


def test_where_a_condition_counts_steps_its_number_grows(tmp_path):
    expected = ["    if step > 0 and step % 5000 == 0:"]
    assert changed(tmp_path, COUNTED, word="some_turns") == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (EPOCHS.replace("RANGE", "range(9)").replace("TEST", "test(others); print()"), "shares its line"),
        (EPOCHS.replace("RANGE", "range(9)").replace("TEST", "best = test(others); print(best)"), "other code"),
        (EPOCHS.replace("RANGE", "range(9)").replace("TEST", "test(others)\n        test(more)"), "2 lines of a loop"),
        (EPOCHS.replace("RANGE", "names").replace("TEST", "test(others)"), "does not count its turns"),
        (EPOCHS.replace("RANGE", "range(9)").replace("TEST", "pass"), "0 loops that train lead to train.py:12"),
        (
            EPOCHS.replace("RANGE", "range(9)")
            .replace("TEST", "test(others)")
            .replace("    model.eval()", "    global best\n    best = 1")
            .replace("        scheduler.step()", "        scheduler.step(best)"),
            "other code reads",
        ),
        *(
            (COUNTED.replace("            best = test_loss", f"            {line}"), "2 lines of a loop")
            for line in ("break", "target.load_state_dict(model.state_dict())", "group['lr'] *= 0.5", "self.best = 1")
        ),
        (COUNTED.replace("    step += 1", "    step += best is None"), "2 lines of a loop"),
        (COUNTED.replace("            best = test_loss", "            scheduler.step()"), "2 lines of a loop"),
    ],
)
def test_what_the_training_needs_stays_in_each_turn(tmp_path, text, why):
    with pytest.raises(NoPlaceError, match=why):
        changed(tmp_path, text, word="some_turns")
