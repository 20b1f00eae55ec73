"""Fuzz packing by hand, from a seed that is printed.

    python -m tests.fuzz_pack [executions, default 1,000,000] [first seed, default 1]

Half of the executions pack conversations, half items. A conversation is a mixture of legal turns with repeated call ids,
missing and doubled results, empty and odd contents, in two formats, now and then with a stray value where a string belongs.
What comes back must keep the promises that `tests.checker` knows (a window within its budget, whole pairs, input order, every
input accounted for); what is raised must be a typed error. Anything else stops the run and shows the seed.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from holdall import ContextItem, ContextWindowPacker, Tokenizer, count_messages
from holdall.errors import HoldallError, RequiredOverflowError
from tests import checker

TOKENIZER = Tokenizer("o200k_base")
WORDS = [
    "river",
    "stone",
    "配置",
    "😀",
    "café",
    "x" * 40,
    "\n",
    "{",
    "}",
    '"',
    "<|endoftext|>",
    "don't",
    "  ",
    "1234",
    "\ud83d",
]
ODD = [None, "", " \n", 3, [], {}, [{"type": "text", "text": "part"}], [{"type": "text", "text": ""}], "\u200b"]
STRATEGIES = ("optimal", "greedy", "stable")
PACKERS = {
    (budget, strategy): ContextWindowPacker(budget, tokenizer=TOKENIZER, output_reserve=0, strategy=strategy)
    for budget in (20, 60, 120, 250, 500, 2_000)
    for strategy in STRATEGIES
}
TYPES = [
    "system_prompt",
    "current_turn",
    "tool_schemas",
    "recent_turns",
    "rag_documents",
    "tool_results",
    "older_history",
    "other",
]


def text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.choice((1, 3, 8, 30, 200) if rng.random() < 0.1 else (1, 3, 8))))


def conversation(rng: random.Random) -> list[dict[str, Any]]:
    """An OpenAI chat conversation, mostly legal."""
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.6:
        messages.append({"role": "system", "content": text(rng)})
    for _ in range(rng.randint(0, 7)):
        draw = rng.random()
        if draw < 0.35:
            messages.append({"role": "user", "content": text(rng)})
        elif draw < 0.6:
            messages.append({"role": "assistant", "content": text(rng)})
        else:
            ids = rng.choices("abc", k=rng.randint(1, 3))
            calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": text(rng)}} for i in set(ids)]
            messages.append({"role": "assistant", "content": rng.choice([None, "", text(rng)]), "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": i, "content": text(rng)} for i in ids if rng.random() < 0.9]
    if messages and rng.random() < 0.15:
        messages[rng.randrange(len(messages))]["content"] = rng.choice(ODD)
    if messages and rng.random() < 0.02:
        rng.choice(messages)[rng.choice(["role", "tool_call_id", "name"])] = rng.choice(ODD)
    return messages


def pack_messages(rng: random.Random) -> None:
    budget, strategy = rng.choice(list(PACKERS))
    messages = conversation(rng)
    packer = PACKERS[budget, strategy]
    options: dict[str, Any] = {}
    if rng.random() < 0.2:
        options["query"] = text(rng)
    if rng.random() < 0.2:
        options["summary"] = text(rng)
    if rng.random() < 0.2:
        options["documents"] = [text(rng) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.2:
        options["tools"] = [{"name": n, "description": text(rng), "input_schema": {"type": "object"}} for n in "fg"]
    try:
        result = packer.pack_messages(messages, format="openai", **options)
    except HoldallError as error:
        if isinstance(error, RequiredOverflowError):
            assert error.total > error.budget == budget, error
        return
    recounted = count_messages(result.messages, tokenizer=TOKENIZER, tools=result.tools, format="openai")
    assert recounted == result.tokens <= budget, (recounted, result.tokens, budget)
    assert not checker.pair_faults(result.messages), checker.pair_faults(result.messages)
    for source, size in (
        ("message", len(messages)),
        ("tool", len(options.get("tools", ()))),
        ("document", len(options.get("documents", ()))),
    ):
        rows = [row.index for row in (*result.kept, *result.dropped) if row.source == source]
        assert sorted(rows) == list(range(size)), (source, rows)
    assert not any(checker.is_empty(message) for message in result.messages)


def pack_items(rng: random.Random) -> None:
    budget, strategy = rng.choice(list(PACKERS))
    items = []
    for position in range(rng.randint(0, 12)):
        content = text(rng) if rng.random() < 0.95 else rng.choice(["", " "])
        items.append(
            ContextItem(
                type=rng.choice(TYPES),
                content=content,
                position=rng.choice([position, 0, -position]),
                turn_index=rng.choice([position, 0, -3, 2**40]),
                relevance_score=rng.choice([1.0, 0.0, rng.random()]),
                required=rng.choice([None, None, None, True, False]),
                group=rng.choice([None, None, "g", "h"]),
                tokens=rng.choice([None, None, 0, rng.randint(0, 300)]),
                renditions=[text(rng)] if rng.random() < 0.2 else (),
            )
        )
    try:
        result = PACKERS[budget, strategy].pack(items)
    except RequiredOverflowError as error:
        assert error.total > error.budget == budget, error
        return
    assert result.tokens <= budget
    rows = [row.index for row in (*result.kept, *result.dropped) if row.source == "item"]
    assert sorted(rows) == list(range(len(items))), rows
    positions = [
        items[i].position
        for i in sorted((r.index for r in result.kept if r.source == "item"), key=lambda i: (items[i].position, i))
    ]
    shown = [item.position for item in result]
    assert [p for p in shown if p in positions] == shown or strategy == "greedy", (positions, shown)


def main() -> None:
    executions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    start = time.monotonic()
    for seed in range(first, first + executions):
        rng = random.Random(seed)
        try:
            (pack_messages if seed % 2 else pack_items)(rng)
        except BaseException:
            print(f"seed {seed}: python -m tests.fuzz_pack 1 {seed}")
            raise
        if (seed - first + 1) % 100_000 == 0:
            print(f"{seed - first + 1:,} executions from seed {first}, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
