"""Every recorded conversation, at every assistant turn, packed and checked by `tests.checker`."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall import ContextWindowPacker, Tokenizer
from holdall.errors import RequiredOverflowError
from tests import checker

BUDGETS = (2_000, 4_000, 8_000, 16_000, 32_000)
FILES = ("claude_code", "livemcp", "pi_coding_agent", "swe_agent", "tau_airline")
FILL = 0.95


class Counted(dict[str, int]):
    """tiktoken's count of a text, kept: the same messages are counted at every prefix."""

    def __init__(self, encoding: Any) -> None:
        super().__init__()
        self.encoding = encoding

    def __missing__(self, text: str) -> int:
        self[text] = size = len(self.encoding.encode_ordinary(text))
        return size


def conversations(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    with (folder / "trajectories" / f"{name}.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def turns(conversation: dict[str, Any], *, whole: bool) -> list[int]:
    """Lengths of the prefixes that end before an assistant message; a sample, drawn by the conversation's id, in `ci`."""
    ends = [i for i, m in enumerate(conversation["messages"]) if m["role"] == "assistant" and i > 0]
    if whole or len(ends) <= 3:
        return ends
    seed = zlib.crc32(conversation["id"].encode())
    return sorted({ends[-1], ends[seed % len(ends)], ends[(seed // 7919) % len(ends)]})


def called(messages: list[dict[str, Any]]) -> set[str]:
    return {c["function"]["name"] for m in messages for c in m.get("tool_calls") or []}


def smallest_tools(tools: list[Any] | None, names: set[str], count: checker.Count) -> int:
    """What the tools named by required calls need at the least: name and required parameters, nothing else."""
    kept = []
    for tool in tools or []:
        function = tool.get("function", tool)
        if function["name"] in names:
            kept.append({"type": "function", "function": {"name": function["name"]}})
    return checker.tools_tokens(kept, count)


class Figures(Counter[str]):
    """What was packed: packs, those that had to cut, those that could not fit; and how full each cut window is."""

    def __init__(self) -> None:
        super().__init__()
        self.fills: list[float] = []

    @property
    def fill(self) -> float:
        """The mean share of the budget that is used where something was dropped."""
        return sum(self.fills) / max(len(self.fills), 1)


def pack_all(folder: Path, name: str, strategy: str, encoding: Any, *, whole: bool) -> tuple[Figures, list[str]]:
    """Pack every conversation of a file at every budget; return what was counted, and every violation found."""
    count = Counted(encoding).__getitem__
    tokenizer = Tokenizer(encoding.name)
    figures = Figures()
    faults: list[str] = []
    for conversation in conversations(folder, name):
        tools = conversation.get("tools") or None
        for budget in BUDGETS:
            packer = ContextWindowPacker(max_tokens=budget, tokenizer=tokenizer, output_reserve=0, strategy=strategy)
            for end in turns(conversation, whole=whole):
                messages = conversation["messages"][:end]
                where = f"{conversation['id']}[:{end}] at {budget}"
                figures["packs"] += 1
                try:
                    result = packer.pack_messages(messages, tools=tools)
                except RequiredOverflowError as error:
                    figures["overflows"] += 1
                    must = [messages[i] for i in checker.required(messages)]
                    least = checker.smallest_required(messages, smallest_tools(tools, called(must), count), count)
                    if least <= budget:
                        faults.append(f"{where}: overflow, but {least} tokens would do ({error})")
                    continue
                found = checker.check(messages, tools, result, budget=budget, count=count)
                faults += [f"{where}: {fault}" for fault in found]
                if result.dropped:
                    figures["cut"] += 1
                    figures.fills.append(result.tokens / budget)
                    faults += unfilled(messages, result, budget, count, where)
                if figures["packs"] % 7 == 0:
                    again = packer.pack_messages(messages, tools=tools)
                    if checker.compact([again.messages, again.tools]) != checker.compact(
                        [result.messages, result.tools]
                    ):
                        faults.append(f"{where}: P6: the same input gave other bytes")
    return figures, faults


@pytest.mark.data
@pytest.mark.parametrize("strategy", ["optimal", "greedy"])
@pytest.mark.parametrize("name", FILES)
def test_recorded_conversations_pack_without_a_violation(
    name: str, strategy: str, recorded: Path, tiktoken_encoding: Any, full: bool, report: Any
) -> None:
    """P1-P7, P10, P11 hold on every prefix, and the budget is filled wherever something was dropped."""
    figures, faults = pack_all(recorded, name, strategy, tiktoken_encoding("o200k_base"), whole=full)
    report(
        f"{name} {strategy}: {figures['packs']} packs, {figures['cut']} had to cut (mean fill {figures.fill:.3f}), "
        f"{figures['overflows']} overflows that no window could avoid, {len(faults)} violations"
    )
    assert not faults, f"{len(faults)} violations in {dict(figures)}; first: " + "\n".join(faults[:8])
    assert figures["packs"] > 0


def unfilled(messages: list[Any], result: Any, budget: int, count: checker.Count, where: str) -> list[str]:
    """At least .95 is used wherever something was dropped, unless no dropped group fits in what is left."""
    if result.tokens >= FILL * budget:
        return []
    left = budget - result.tokens
    gone = {d.index for d in result.dropped if d.source == "message"}
    found = checker.blocks(messages)
    sizes = [
        sum(checker.message_tokens(messages[i], count) for i in group)
        for group in found.groups
        if set(group) <= gone and group[0] not in found.unanswered and not checker.is_empty(messages[group[0]])
    ]
    fitting = [size for size in sizes if size <= left]
    return (
        [f"{where}: {result.tokens} of {budget} used, {left} left, and a dropped group of {min(fitting)} fits"]
        if fitting
        else []
    )
