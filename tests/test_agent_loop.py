"""The agent loop of the docs, as a program: more turns than fit the window, killed in between, and gone on with by another process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import holdall

PAGE = Path(__file__).parents[1] / "docs" / "agent-loop.md"

# A model that calls a tool once for each question, and a tool that kills the worker at one of them.
PROGRAM = """
import asyncio, json, os, sys

TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {"q": {}}}}}]

async def ask_model(*, messages, tools):
    assert tools and messages
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": "As the page says: " + last["content"][:40]}
    function = {"name": "search", "arguments": json.dumps({"q": last["content"]})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}

async def call_tool(name, arguments):
    if arguments["q"] == sys.argv[2]:
        os.kill(os.getpid(), 9)
    return f"results for {arguments['q']}: " + "lorem ipsum dolor sit amet " * 20

EXAMPLE

questions = [f"question {n}" for n in range(1, int(sys.argv[3]) + 1)]
asyncio.run(work(sys.argv[1], "s-1", questions))
"""


def run(folder: Path, url: str, killed_at: str, n_turns: int) -> int:
    """Run the page's code in a process of its own."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    program = folder / "agent.py"
    program.write_text(PROGRAM.replace("EXAMPLE", example), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), url, killed_at, str(n_turns)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode


def test_the_loop_of_the_docs_loses_and_repeats_no_turn(tmp_path: Path) -> None:
    """What is in the session afterwards is what an agent that was never killed would have."""
    url = f"sqlite:///{tmp_path}/agent.db"
    n_turns = 120
    for killed_at in ("question 1", "question 40", "question 41"):
        assert run(tmp_path, url, killed_at, n_turns) == -signal.SIGKILL
    assert run(tmp_path, url, "", n_turns) == 0
    with holdall.open_sync(url) as store:
        state = store.load("s-1")
    asked = [message["content"] for message in state.messages if message["role"] == "user"]
    assert asked == [f"question {n}" for n in range(1, n_turns + 1)]
    assert len(state.messages) == 4 * n_turns
    assert (state.version, state.current_step) == (n_turns, n_turns)
