"""What a question needs to know before it is planned."""

from __future__ import annotations

import pytest

from laptime.machine.look import look_at_machine
from laptime.model.errors import UsageError
from laptime.questions.asking import installed_of


@pytest.mark.parametrize(("named", "meant"), [("tensorflow", "keras-tf"), ("keras", "keras-torch"), ("flax", "jax")])
def test_a_framework_by_the_name_of_its_package_is_guessed(named, meant):
    """People know the package that they import, and not what laptime calls its ways of running it."""
    machine = look_at_machine()
    assert installed_of([meant], machine) == (meant,)
    with pytest.raises(UsageError, match="it is the name of a package") as caught:
        installed_of([named], machine)
    assert meant in caught.value.hint
