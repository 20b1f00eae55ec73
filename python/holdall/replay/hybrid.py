"""The newest messages, and of the older ones what is relevant to the current turn."""

from __future__ import annotations

from typing import Final

from holdall._native import LexicalIndex, sharpen_and_spread
from holdall.replay.request import Request, Window
from holdall.replay.shape import text_of
from holdall.replay.trace import Message

RECENT_SHARE: Final = 0.5
# A message's score is divided by tokens to this power (as the packer's value is sublinear in length).
PRICE: Final = 0.5


class HybridRelevance:
    """Half of what the current turn leaves goes to the newest groups, the rest to the older groups that match it best.

    Matching is BM25 over the messages, sharpened and spread to their neighbours, without a model.
    """

    def __init__(self) -> None:
        self._index = LexicalIndex()
        self._newest: Message | None = None

    def __call__(self, request: Request) -> Window:
        """Build the window."""
        kept = set(request.required)
        room = request.budget - request.base - sum(request.tokens[n] for n in kept)
        if request.total <= request.budget:
            return request.window(range(len(request.messages)))
        recent = room - int(room * RECENT_SHARE)
        older: list[tuple[list[int], int]] = []
        for group in reversed(request.groups):
            new = [n for n in group if n not in kept]
            size = sum(request.tokens[n] for n in new)
            if new and not older and size <= recent:
                recent -= size
                room -= size
                kept.update(new)
            elif new:
                older.append((new, size))
        scores = self._scores(request)
        older.sort(key=lambda one: (-max(scores[n] for n in one[0]) / max(one[1], 1) ** PRICE, -one[0][0]))
        for new, size in older:
            if size <= room:
                room -= size
                kept.update(new)
        return request.window(sorted(kept))

    def _scores(self, request: Request) -> list[float]:
        """Relevance of each message to what the user said last; the index keeps what it has read."""
        asked = max(
            (n for n in request.required if request.shapes[n].role == "user"), default=len(request.messages) - 1
        )
        messages = request.messages
        size = min(len(self._index), len(messages))
        if size and messages[size - 1] is not self._newest:
            size -= 1  # a question is asked after the same history as the one before it
        self._index.truncate(size)
        for message in messages[size:]:
            name = message.get("name")
            self._index.add(f"{name} {text_of(message)}" if isinstance(name, str) else text_of(message))
        self._newest = messages[-1]
        scores = self._index.scores(text_of(messages[asked]))
        scores[asked] = 0.0
        return sharpen_and_spread(scores)
