"""Whether blocks may be drawn is the encoding's to say, wherever the output goes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ASK = "from laptime.cli.output import may_draw; print(may_draw())"


@pytest.mark.parametrize(("expected", "encoding"), [("True", "utf-8"), ("False", "latin-1"), ("False", "ascii")])
def test_blocks_are_drawn_where_there_are_some(expected, encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    answer = subprocess.run([sys.executable, "-c", ASK], capture_output=True, check=True, env=environment)
    assert answer.stdout.decode(encoding).strip() == expected
