"""What a provider's prompt cache would have charged for a series of requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from holdall.replay.prices import Price

MILLION: Final = 1_000_000


@dataclass
class Charge:
    """Billed tokens by what they cost."""

    plain: float = 0
    read: float = 0
    written: float = 0

    def add(self, total: float, read: float, written: float) -> None:
        """Count one request."""
        self.read += read
        self.written += written
        self.plain += total - read - written

    def dollars(self, price: Price) -> float:
        """What it costs."""
        spent = self.plain * price.input + self.read * price.cache_read + self.written * price.cache_write
        return spent / MILLION


@dataclass(frozen=True)
class Sent:
    """A request as the cache sees it.

    Attributes:
        blocks: What it is made of, in the order it is sent: tools, system prompt, messages. Equal blocks have equal numbers.
        ends: Tokens from the beginning to the end of each block.
        head: How many of the blocks are tools and system prompt.
        shared: How many leading blocks the request before had too.
        shared_tokens: Their tokens, and those of the common beginning of the first block that differs.
        lasting: How many leading blocks the next request is to have too; None: all.
    """

    blocks: Sequence[int]
    ends: Sequence[int]
    head: int
    shared: int
    shared_tokens: int
    lasting: int | None = None


@dataclass
class PromptCache:
    """The cache of one conversation; entries are taken to outlive the pause between two requests.

    With breakpoints the caller decides what is cached, and writing costs more than sending, so four clients are followed at
    once, and the cheapest counts: one that sets breakpoints at the end of the prompt, where this request parted from the one
    before, at the end of what lasts beyond this turn, and at its end (four are allowed); one that leaves out the last, since
    what is gone at the next turn is written for nothing unless the turn has more requests; one that caches the prompt alone;
    one that caches nothing.
    """

    price: Price
    charges: dict[str, Charge] = field(default_factory=dict)
    _entries: dict[str, set[int]] = field(default_factory=dict)
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)
    _path: list[int] = field(default_factory=list)

    def send(self, sent: Sent) -> None:
        """Charge one request."""
        total = sent.ends[-1] * self.price.billed_ratio if sent.ends else 0.0
        self.charges.setdefault("off", Charge()).add(total, 0, 0)
        if self.price.caching == "automatic":
            self._automatic(sent, total)
        elif self.price.caching == "breakpoints":
            self._walk(sent)
            size = len(sent.blocks)
            lasting = {sent.head, sent.shared, size if sent.lasting is None else sent.lasting}
            self._breakpoints("conversation", sent, lasting | {size}, total)
            self._breakpoints("lasting", sent, lasting, total)
            self._breakpoints("prompt", sent, {sent.head}, total)

    def best(self) -> tuple[str, Charge]:
        """How the cache is used best, and what was billed then."""
        if self.price.caching == "automatic":
            return "automatic", self.charges.get("automatic", Charge())
        # At equal cost the client that does less.
        names = [name for name in ("off", "prompt", "conversation", "lasting") if name in self.charges]
        name = min(names, key=lambda one: self.charges[one].dollars(self.price), default="off")
        return name, self.charges.get(name, Charge())

    def _automatic(self, sent: Sent, total: float) -> None:
        known = sent.shared_tokens * self.price.billed_ratio
        read = known - known % self.price.step if known >= self.price.minimum else 0.0
        stored = total - total % self.price.step if total >= self.price.minimum else 0.0
        self.charges.setdefault("automatic", Charge()).add(total, read, max(stored - read, 0.0))

    def _walk(self, sent: Sent) -> None:
        """Number each prefix, so that equal prefixes of any two requests have equal numbers."""
        del self._path[sent.shared :]
        node = self._path[-1] if self._path else 0
        for block in sent.blocks[len(self._path) :]:
            node = self._nodes.setdefault((node, block), len(self._nodes) + 1)
            self._path.append(node)

    def _breakpoints(self, name: str, sent: Sent, places: set[int], total: float) -> None:
        entries = self._entries.setdefault(name, set())
        ratio, minimum = self.price.billed_ratio, self.price.minimum
        found = 0
        for end in range(max(places), 0, -1):
            near = any(0 <= place - end <= self.price.lookback for place in places)
            if near and self._path[end - 1] in entries:
                found = end
                break
        read = sent.ends[found - 1] * ratio if found else 0.0
        furthest = read
        for place in places:
            size = sent.ends[place - 1] * ratio if place else 0.0
            if place and size >= minimum:
                entries.add(self._path[place - 1])
                furthest = max(furthest, size)
        self.charges.setdefault(name, Charge()).add(total, read, furthest - read)
