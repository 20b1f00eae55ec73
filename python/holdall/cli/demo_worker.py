"""The worker of `holdall demo`: plays a recorded session, one step per assistant message. Run as a process of its own.

A step packs the window, waits as long as a quick model would, appends the recorded answer, acts outside the store, appends
the tool results, and returns; the checkpoint follows. Says each of these as a JSON line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from holdall.errors import HoldallError

if TYPE_CHECKING:
    from holdall.durable.run import Step, StepRun

SESSION_ID: Final = "demo"
OUTPUT_RESERVE: Final = 512
_MODEL_S: Final = 0.06
_TOOL_S: Final = 0.01


class Turn(NamedTuple):
    """What one step adds: messages of the user before it, the assistant's, and the results of its tool calls."""

    name: str
    before: list[dict[str, Any]]
    assistant: dict[str, Any]
    results: list[dict[str, Any]]


@cache
def recorded() -> dict[str, Any]:
    """Return the recorded conversation: system, tools, messages."""
    text = (resources.files("holdall.cli") / "demo_conversation.json").read_text("utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def turns() -> list[Turn]:
    """Cut the conversation into steps."""
    found: list[Turn] = []
    before: list[dict[str, Any]] = []
    for message in recorded()["messages"]:
        if message["role"] == "user":
            before.append(message)
        elif message["role"] == "assistant":
            names = [call["function"]["name"] for call in message.get("tool_calls", ())] or ["answer"]
            found.append(Turn(f"{len(found) + 1:02d} {' + '.join(names)}", before, message, []))
            before = []
        else:
            found[-1].results.append(message)
    return found


def n_steps() -> int:
    """Return how many steps the session has."""
    return len(turns())


def say(event: str, **figures: Any) -> None:
    """Write one line to the process that started this one."""
    print(json.dumps({"event": event, **figures}), flush=True)


class Outside:
    """A thing that steps act on, outside the store: a file with one line per effect.

    Like a payment provider with idempotency keys, it takes a key once and says when it has it already.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def act(self, key: str, step: int, what: str) -> bool:
        """Act unless the key was used; return whether it had been."""
        if self._path.exists() and any(json.loads(line)["key"] == key for line in self._path.read_text().splitlines()):
            return True
        line = json.dumps({"key": key, "step": step, "what": what, "pid": os.getpid()}) + "\n"
        # One write of one short line, flushed to disk: a kill leaves it whole or absent.
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
            os.fsync(file)
        finally:
            os.close(file)
        return False


async def work(folder: Path, max_tokens: int) -> None:
    """Do what is left of the session."""
    from holdall import ContextWindowPacker, SessionState, Tokenizer
    from holdall.durable.checkpoint import CheckpointManager
    from holdall.durable.open import open as open_store
    from holdall.durable.run import Step

    packer = ContextWindowPacker(
        max_tokens=max_tokens, tokenizer=Tokenizer("o200k_base"), output_reserve=OUTPUT_RESERVE
    )
    conversation = recorded()
    outside = Outside(folder / "effects.jsonl")

    def step_of(turn: Turn) -> Step:
        async def fn(run: StepRun) -> list[str]:
            run.state.messages.extend(turn.before)
            window = packer.pack_messages(
                list(run.state.messages), system=conversation["system"], tools=conversation["tools"]
            )
            say(
                "packed",
                step=run.number,
                name=turn.name[3:],
                tokens=window.tokens,
                budget=window.budget,
                kept=len(window.messages),
                messages=len(run.state.messages),
            )
            await asyncio.sleep(_MODEL_S)
            run.state.messages.append(turn.assistant)
            found = outside.act(run.key, run.number, turn.name[3:])
            say("effect", step=run.number, found=found)
            await asyncio.sleep(_TOOL_S)
            run.state.messages.extend(turn.results)
            return [result["tool_call_id"] for result in turn.results]

        return Step(turn.name, fn)

    steps = [step_of(turn) for turn in turns()]
    numbers = {step.name: number for number, step in enumerate(steps, 1)}
    async with open_store("sqlite:///" + quote(str(folder / "sessions.db"))) as store:
        manager = CheckpointManager(store)
        state = SessionState(session_id=SESSION_ID, user_id="demo", ttl_seconds=86_400)
        if SESSION_ID in await store.list():
            state = await store.load(SESSION_ID)
        recorded_steps = sum(step.name in state.step_results for step in steps)
        say("resumed", recorded=recorded_steps, next_step=recorded_steps + 1)
        report = await manager.run(
            state, steps, on_step=lambda step, event: say(event, step=numbers[step.name], name=step.name[3:])
        )
        say(
            "end",
            steps=len(steps),
            messages=len(report.state.messages),
            messages_expected=len(conversation["messages"]),
        )


def main() -> int:
    """Run as `python -m holdall.cli.demo_worker FOLDER MAX_TOKENS`."""
    try:
        asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
    except HoldallError as error:
        print(f"holdall demo: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
