"""The server, as a client starts it: over stdio, with the official client (`make test-mcp`)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

SCRIPT = 'import time\nprint("trained")\ntime.sleep(0.1)\n'
TRAINING = (Path(__file__).parents[2] / "examples" / "two_trainings.py").read_text(encoding="utf-8")


@pytest.fixture
def call(tmp_path):
    """Return what calls tools of one server, started in a folder with a script and two trainings."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "two.py").write_text(TRAINING, encoding="utf-8")
    own = {"LAPTIME_HOME": str(tmp_path / "home"), "LAPTIME_CACHE": str(tmp_path / "cache"), "LAPTIME_FAKE": "1"}
    start = ["-c", "import laptime_mcp; laptime_mcp.main()"]
    started = StdioServerParameters(command=sys.executable, args=start, env={**os.environ, **own}, cwd=str(tmp_path))

    async def call_all(*calls):
        async with Client(started) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            return listed, [await client.call_tool(name, given) for name, given in calls]

    return lambda *calls: asyncio.run(call_all(*calls))


def text_of(result):
    return result.content[0].text


def test_the_tools_answer(call):
    listed, (found, watched, judged) = call(
        ("devices", {}),
        ("watch", {"command": [sys.executable, "script.py"]}),
        ("verdict", {"base": "two.py:before", "candidate": "two.py:careless", "lane": "python/cpu", "budget": "30s"}),
    )
    assert listed == {"verdict", "why", "watch", "devices", "show"}
    assert not found.is_error
    assert "processor" in json.dumps(found.structured_content)
    assert (watched.structured_content["exit_code"], watched.structured_content["printed"]) == (0, "trained\n")
    assert (judged.structured_content["verdict"], judged.structured_content["cause"]) == ("DISCARD", "other work")


def test_a_page_and_the_remedies(call):
    _, (found, page) = call(
        ("why", {"training": "cifar-mlp", "lane": "fake/cpu", "budget": "1s"}), ("show", {"record": "latest"})
    )
    assert found.structured_content["remedies"]
    assert found.structured_content["says"].startswith("cifar-mlp on fake/cpu: ")
    assert "cifar-mlp on fake/cpu" in text_of(page)


def test_a_wrong_call_is_an_error_with_the_way_out(call):
    _, (lane, option, lost, record) = call(
        ("why", {"training": "cifar-mlp", "lane": "fake/gpx"}),
        ("verdict", {"base": "two.py:before", "candidate": "--trust"}),
        ("watch", {"command": ["no-such-command"]}),
        ("show", {"record": "r-2020"}),
    )
    assert all(each.is_error for each in (lane, option, lost, record))
    assert "is neither a framework nor a device" in text_of(lane)
    assert "'--trust' is an option" in text_of(option)
    assert "Name a command" in text_of(lost)
    assert "there is no record 'r-2020'" in text_of(record)
