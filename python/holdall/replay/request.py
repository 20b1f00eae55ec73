"""What a strategy is given, and what it gives back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias, runtime_checkable

from holdall._native import Tokenizer
from holdall.replay.prices import Price
from holdall.replay.shape import Shape
from holdall.replay.trace import Message


@dataclass(frozen=True)
class Window:
    """What a strategy sends.

    Attributes:
        messages: The messages, in the format they came in.
        system: The system prompt, where the format keeps it apart.
        tools: The tool schemas.
        kept: How each message that is in is shown, by its index: "full", the name of a shorter form, or "recalled" if another
            message quotes it whole. None: the messages that are in unchanged are found by comparing.
        summarizer: Input and output tokens of each call to a model that the strategy made.
        lasting: How many of the leading messages the next window is to begin with too: a cache breakpoint belongs at the last of
            them, since what follows is there for this turn alone. None: all of them.
    """

    messages: Sequence[Message]
    system: Any = None
    tools: Sequence[Any] | None = None
    kept: Mapping[int, str] | None = None
    summarizer: Sequence[tuple[int, int]] = ()
    lasting: int | None = None


@dataclass(frozen=True)
class Request:
    """A turn of a conversation: all that was said so far, and the budget that the next request must fit.

    Attributes:
        messages: The conversation up to here.
        system: The system prompt, where the format keeps it apart.
        tools: Tool schemas, or None.
        budget: Tokens that the whole request may have.
        format: "openai", "responses" or "anthropic".
        tokenizer: The counter that requests are judged by.
        price: What tokens cost.
        memory: What the strategy wants to find again at the next turn of this conversation; empty at the first. Values are
            replaced, never changed: a question is asked of a copy.
        tokens: Tokens of each message.
        shapes: Role, calls and results of each message.
        base: Tokens of all that is not messages: framing, system prompt, tools.
        all_groups: The groups of the whole recording, of which `groups` are those up to here.
    """

    messages: Sequence[Message]
    system: Any
    tools: Sequence[Any] | None
    budget: int
    format: str
    tokenizer: Tokenizer
    price: Price
    memory: dict[str, Any]
    tokens: Sequence[int]
    shapes: Sequence[Shape]
    base: int
    all_groups: Sequence[Sequence[int]] = field(repr=False)
    count: Callable[[Message], int] = field(repr=False)
    """Tokens of one message."""

    def at(self, budget: int, memory: dict[str, Any]) -> Request:
        """The same turn at another budget."""
        twin = replace(self, budget=budget, memory=memory)
        for name in ("groups", "required", "total"):
            twin.__dict__[name] = getattr(self, name)  # worked out once for all budgets
        return twin

    @cached_property
    def groups(self) -> list[Sequence[int]]:
        """Indices of what lives or dies together, in order of the first of each."""
        size = len(self.messages)
        here = self.all_groups[: bisect_left(self.all_groups, size, key=lambda group: group[0])]
        return [group if group[-1] < size else [n for n in group if n < size] for group in here]

    @cached_property
    def required(self) -> frozenset[int]:
        """What every request must hold: the leading system messages, the last user message, the last group."""
        must: set[int] = set()
        for index, shape in enumerate(self.shapes):
            if shape.role != "system":
                break
            must.add(index)
        last = len(self.messages) - 1
        must.update([n for n in range(last, -1, -1) if self.shapes[n].role == "user"][:1])
        must.update(next((group for group in reversed(self.groups) if group[-1] == last), ()))
        return frozenset(must)

    @cached_property
    def total(self) -> int:
        """Tokens of the request with everything in it."""
        return self.base + sum(self.tokens)

    def window(self, indices: Sequence[int], **options: Any) -> Window:
        """The window of these messages, unchanged."""
        return Window([self.messages[n] for n in indices], self.system, self.tools, **options)


@runtime_checkable
class Strategy(Protocol):
    """Chooses what to send. Any callable will do: a function, or an object that keeps what it needs.

    One strategy object serves one conversation at several budgets, in order; what belongs to the conversation goes into
    `request.memory`.
    """

    def __call__(self, request: Request, /) -> Window | Sequence[Message]:
        """Return what to send, within `request.budget`.

        Raises:
            RequiredOverflowError: What must be in does not fit; counted as refused.
        """


Make: TypeAlias = Callable[[], Strategy]
"""Makes a strategy for one conversation."""
