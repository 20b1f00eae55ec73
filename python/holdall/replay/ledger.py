"""Numbers, tokens and shapes of messages: each distinct one is counted once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from holdall._native import Tokenizer, count_messages
from holdall.replay.shape import Shape, shape_of, text_of

SIMPLE: Final = frozenset({"role", "content", "name", "tool_call_id"})
# Objects remembered by identity; they are kept alive meanwhile.
MOST_OBJECTS: Final = 50_000


@dataclass(frozen=True)
class Block:
    """A message, a system prompt or a list of tools: equal ones are one object."""

    number: int
    tokens: int
    shape: Shape
    text: str
    is_blank: bool = False


class Ledger:
    """What is known of the messages of one conversation."""

    def __init__(self, tokenizer: Tokenizer, form: str) -> None:
        self.tokenizer = tokenizer
        self.form = cast("Any", form)  # one of three literals, as far as types know
        self.framing = count_messages([], tokenizer=tokenizer, format=self.form)
        self._by_key: dict[Any, Block] = {}
        self._by_object: dict[int, tuple[Any, Block]] = {}
        self._shared: dict[tuple[int, int], int] = {}

    def message(self, message: Mapping[str, Any]) -> Block:
        """The block of a message."""
        known = self._by_object.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        key: Any
        if message.keys() <= SIMPLE and set(map(type, message.values())) == {str}:
            key = tuple(sorted(message.items()))
        else:
            key = _canonical(message)
        block = self._by_key.get(key)
        if block is None:
            tokens = count_messages([message], tokenizer=self.tokenizer, format=self.form) - self.framing
            content = message.get("content")
            text = f"{message.get('role')}\n{content}" if isinstance(content, str) else _canonical(message)
            shape = shape_of(message)
            blank = not shape.calls and not shape.results and not text_of(message).strip()
            block = self._enter(key, tokens, shape, text, is_blank=blank and not isinstance(content, list))
        return self._remember(message, block)

    def system(self, system: Any) -> Block | None:
        """The block of a system prompt that stands apart."""
        if system is None or system in ("", []):
            return None
        key = ("system", _canonical(system))
        block = self._by_key.get(key)
        if block is None:
            tokens = count_messages([], tokenizer=self.tokenizer, system=system, format=self.form) - self.framing
            block = self._enter(key, tokens, Shape("system"), key[1])
        return block

    def tools(self, tools: Sequence[Any] | None) -> Block | None:
        """The block of the tool schemas."""
        if not tools:
            return None
        known = self._by_object.get(id(tools))
        if known is not None and known[0] is tools:
            return known[1]
        key = ("tools", _canonical(tools))
        block = self._by_key.get(key)
        if block is None:
            tokens = count_messages([], tokenizer=self.tokenizer, tools=list(tools), format=self.form) - self.framing
            block = self._enter(key, tokens, Shape("system"), key[1])
        return self._remember(tools, block)

    def common(self, one: Block, other: Block) -> int:
        """Tokens of the beginning that two blocks that differ have in common."""
        pair = (one.number, other.number)
        if pair not in self._shared:
            a, b = one.text, other.text
            low, high = 0, min(len(a), len(b))
            while low < high:
                middle = (low + high + 1) // 2
                if a.startswith(b[:middle]):
                    low = middle
                else:
                    high = middle - 1
            self._shared[pair] = min(self.tokenizer.count(a[:low]), one.tokens, other.tokens) if low else 0
        return self._shared[pair]

    def _enter(self, key: Any, tokens: int, shape: Shape, text: str, *, is_blank: bool = False) -> Block:
        block = self._by_key[key] = Block(len(self._by_key) + 1, tokens, shape, text, is_blank)
        return block

    def _remember(self, thing: Any, block: Block) -> Block:
        if len(self._by_object) >= MOST_OBJECTS:
            self._by_object.clear()
        self._by_object[id(thing)] = (thing, block)
        return block


def _canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)
