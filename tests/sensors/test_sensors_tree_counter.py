"""What ended processes had used, by literals: nothing is lost, nothing is there twice, and no sum falls."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.machine.sensors.host.process_tree import ProcessCounts, TreeCounter


@dataclass(eq=False)
class Kin:
    parent: Kin | None = None


ROOT = Kin()
CHILD = Kin(ROOT)
GRANDCHILD = Kin(CHILD)


def shown(own: float, taken: float = 0.0) -> ProcessCounts:
    return ProcessCounts((own + taken,), (taken,))


def add_up(*readings) -> list[float]:
    counter: TreeCounter[Kin] = TreeCounter(1)
    return [counter.add_up(reading)[0] for reading in readings]


def test_the_living_are_added_up():
    """Each with what its ended children used."""
    assert add_up({ROOT: shown(5, 2), CHILD: shown(3)}) == [10]


def test_a_child_that_its_parent_waited_for_is_counted_once():
    """The parent has taken over what the child used to its end, which is more than was seen."""
    assert add_up({ROOT: shown(5), CHILD: shown(3)}, {ROOT: shown(5, 4)}) == [8, 9]


def test_a_child_that_nobody_waited_for_is_not_lost():
    """A parent that does not care for its children takes nothing over."""
    assert add_up({ROOT: shown(5), CHILD: shown(3)}, {ROOT: shown(6)}, {ROOT: shown(7)}) == [8, 9, 10]


def test_a_grandchild_whose_parent_has_ended_is_not_lost():
    """It goes on, and when it ends itself, no ancestor takes it over."""
    before = {ROOT: shown(1), CHILD: shown(2), GRANDCHILD: shown(4)}
    between = {ROOT: shown(1, 2), GRANDCHILD: shown(5)}
    assert add_up(before, between, {ROOT: shown(1, 2)}, {ROOT: shown(2, 2)}) == [7, 8, 8, 9]


def test_a_branch_that_ended_at_once_is_counted_once():
    """The grandchild's use came to the root within the child's."""
    before = {ROOT: shown(1), CHILD: shown(2), GRANDCHILD: shown(4)}
    assert add_up(before, {ROOT: shown(1, 7)}) == [7, 8]


def test_of_several_that_ended_the_unwaited_are_kept():
    """Two ended, one was taken over: what is short is the other's."""
    other = Kin(ROOT)
    assert add_up({ROOT: shown(0), CHILD: shown(3), other: shown(4)}, {ROOT: shown(0, 3)}) == [7, 7]


def test_when_the_first_process_has_ended_all_that_it_used_is_kept():
    """Its children live on."""
    assert add_up({ROOT: shown(5), CHILD: shown(3)}, {CHILD: shown(4)}) == [8, 9]


def test_a_sum_never_falls():
    """Not even where the kernel's own figures do."""
    assert add_up({ROOT: shown(5)}, {ROOT: shown(4)}, {ROOT: shown(6)}) == [5, 5, 6]
