"""The README's examples run as they stand, and its two commands are there for CI to find."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)

CONVERSATION = [
    {"role": "system", "content": "You are a support agent."},
    {"role": "user", "content": "Where is my parcel?"},
]
TOOL = {"type": "function", "function": {"name": "track", "parameters": {"type": "object", "properties": {}}}}


def names() -> dict[str, Any]:
    """What the examples take as given."""
    create = SimpleNamespace(create=lambda **request: request)
    return {
        "messages": CONVERSATION,
        "tools": [TOOL],
        "client": SimpleNamespace(chat=SimpleNamespace(completions=create)),
        "page": "Parcels take three days.",
        "earlier": "They asked about an invoice.",
    }


async def test_the_examples_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reader, one session: later examples use what earlier ones made."""
    monkeypatch.chdir(tmp_path)
    known = names()
    assert len(EXAMPLES) >= 3
    for example in EXAMPLES:
        code = compile(example, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(code, known)  # noqa: S307
        if inspect.iscoroutine(running):
            await running
    assert known["state"].messages[-1] == {"role": "assistant", "content": "hi"}
    assert known["result"].kept


@pytest.mark.parametrize("marker", ["demo-command", "test-command"])
def test_a_command_follows_its_marker(marker: str) -> None:
    command = re.search(rf"<!-- {marker} -->\n```sh\n(.+)\n```", README)
    assert command is not None
    assert command[1].startswith("python3 -m venv .venv && .venv/bin/pip install")
