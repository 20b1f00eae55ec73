"""Conversations made by hand and by chance, in three formats."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

SYSTEM = {"role": "system", "content": "You are a careful agent."}


def call(name: str, *ids: str) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": name, "arguments": '{"q": 1}'}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(one: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": one, "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def agent(rounds: int, size: int = 120) -> list[dict[str, Any]]:
    """A tool-using agent of so many rounds; ids are used again, as some providers' are."""
    messages = [SYSTEM, user("Find out why the build fails and mend it.")]
    for n in range(rounds):
        messages += [call("run", f"c{n % 3}"), result(f"c{n % 3}", f"step {n}: " + "word " * size)]
    return [*messages, says("It is mended.")]


TEXTS = st.text("ab c\n", min_size=1, max_size=20).map(lambda text: f"t {text}" * 6)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Legal OpenAI chat: text turns, and calls that are all answered, with ids that repeat."""
    messages: list[dict[str, Any]] = [SYSTEM] if draw(st.booleans()) else []
    messages.append(user(draw(TEXTS)))
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["user", "says", "calls"]))
        if kind == "calls":
            ids = [f"c{n}" for n in range(draw(st.integers(1, 3)))]
            messages.append(call("look", *ids))
            messages += [result(one, draw(TEXTS)) for one in draw(st.permutations(ids))]
        else:
            messages.append(user(draw(TEXTS)) if kind == "user" else says(draw(TEXTS)))
    return messages


def as_anthropic(messages: list[dict[str, Any]]) -> tuple[str | None, list[dict[str, Any]]]:
    """The same conversation as Anthropic messages, and its system prompt."""
    system, found = None, []
    for message in messages:
        if message["role"] == "system":
            system = message["content"]
        elif message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            if found and found[-1]["role"] == "user" and isinstance(found[-1]["content"], list):
                found[-1]["content"].append(block)
            else:
                found.append({"role": "user", "content": [block]})
        elif message.get("tool_calls"):
            uses = [
                {"type": "tool_use", "id": one["id"], "name": one["function"]["name"],
                 "input": json.loads(one["function"]["arguments"])}
                for one in message["tool_calls"]
            ]  # fmt: skip
            found.append({"role": "assistant", "content": uses})
        else:
            found.append({"role": message["role"], "content": message["content"]})
    return system, found


def as_responses(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same conversation as Responses items."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            one = {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
            found.append(one)
        elif message.get("tool_calls"):
            for one in message["tool_calls"]:
                function = one["function"]
                found.append({"type": "function_call", "call_id": one["id"], **function})
        else:
            found.append({"role": message["role"], "content": message["content"]})
    return found
