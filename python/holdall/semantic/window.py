"""Memory feeds the window: what was found becomes documents, or old messages, of `pack_messages`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypedDict

from holdall.errors import ArgumentError
from holdall.semantic.base import Document, Hit, SemanticMemory, Value, Vector
from holdall.semantic.rules import check_user

if TYPE_CHECKING:
    from holdall._native import PackResult
    from holdall.context.packer import ContextWindowPacker

_ROLES = ("user", "assistant")
_UNKEPT: Final = re.compile("[\ud800-\udfff\0]")
# Chosen by evidence recall on recorded conversations (OPTIMIZATIONS.md): how many of the nearest stand out at all.
_STANDING_OUT: Final = 32
# In the metadata of a message: whether it is some user's. A search that names no user finds everybody's.
_OWNED: Final = "owned"


class Found(TypedDict):
    """A document as `pack_messages(documents=...)` takes it."""

    text: str
    relevance_score: float


def as_documents(hits: Iterable[Hit]) -> list[Found]:
    """Return hits as documents for `pack_messages`: their relevance is their share of the best score, at least 0.

    Hits without text are left out.
    """
    found = [hit for hit in hits if hit.text.strip()]
    best = max((hit.score for hit in found), default=0.0)
    if best <= 0:
        return [Found(text=hit.text, relevance_score=0.0) for hit in found]
    return [Found(text=hit.text, relevance_score=max(hit.score, 0.0) / best) for hit in found]


@dataclass(frozen=True, slots=True)
class Recalled:
    """Old messages that may matter now, in the order they were said.

    Attributes:
        query: What brought them to mind.
        messages: As plain chat messages: role, content, and the name if there was one.
        places: Where each stood in its session.
        nearness: Of the messages that are nearest by vector, wherever they stand: 0 to 1, by place. None where words alone
            were searched.
    """

    query: str
    messages: list[dict[str, Any]]
    places: list[int]
    nearness: dict[int, float] | None

    def pack(
        self,
        packer: ContextWindowPacker,
        window: Sequence[Mapping[str, Any]],
        *,
        start: int | None = None,
        **options: Any,
    ) -> PackResult[Any]:
        """Pack these messages and the window's as one conversation, behind the window's leading system messages.

        The packer scores words itself, and adds how near the vectors are.

        Args:
            packer: Whose budget it is.
            window: The messages that are at hand, the current turn last.
            start: The place of the window's first message that is no system message, where these were stored too: then those
                that vectors found are as near as the others. None: their vectors are not known.
            options: The other arguments of `pack_messages`, but for `query` and `relevance`.

        Raises:
            RequiredOverflowError: What must be in does not fit.
        """
        n_leading = next(
            (n for n, one in enumerate(window) if one.get("role") not in ("system", "developer")), len(window)
        )
        leading, rest = list(window[:n_leading]), list(window[n_leading:])
        old = [
            message for message, place in zip(self.messages, self.places, strict=True) if start is None or place < start
        ]
        places = [place for place in self.places if start is None or place < start]
        messages = [*leading, *old, *rest]
        if self.nearness is None:
            return packer.pack_messages(messages, query=self.query, **options)
        at = [-1] * n_leading + places + [-1 if start is None else start + n for n in range(len(rest))]
        relevance = [self.nearness.get(place, 0.0) for place in at]
        return packer.pack_messages(messages, query=self.query, relevance=relevance, **options)


class MessageMemory:
    """The messages of one session, kept in a semantic memory so that the window need not hold them all.

    User and assistant messages are kept, by their text; a tool's results cannot be sent without their calls, and are not.

    Args:
        memory: Where they are kept; `memory.delete_user(user_id)` deletes them with everything else of the user.
        session_id: Names the namespace, 1 to 512 bytes.
        user_id: Whose they are. Two users' sessions of one id are apart, and so are those of nobody (None).
    """

    def __init__(self, memory: SemanticMemory, session_id: str, *, user_id: str | None = None) -> None:
        if not session_id:
            raise ArgumentError("session_id is empty; give the session's id")
        self._memory = memory
        self._session_id = session_id
        self._user_id = user_id = check_user(user_id)
        self._mine: dict[str, bool] = {_OWNED: user_id is not None}
        # a user's id may have as many bytes as an id may
        self._prefix = "" if user_id is None else f"{blake2b(user_id.encode(), digest_size=16).hexdigest()}."

    def _id(self, place: int) -> str:
        return f"{self._prefix}{place}"

    async def add(self, messages: Sequence[Mapping[str, Any]], *, start: int) -> int:
        """Keep messages; adding one again at its place replaces it.

        Args:
            messages: Chat messages: mappings with a role and a content of text, or of blocks with a text.
            start: The place in the session of the first of them, from 0.

        Returns:
            The place after the last.
        """
        if isinstance(start, bool) or not isinstance(start, int) or start < 0:
            raise ArgumentError(f"start is {start!r}; give the place of the first message, from 0")
        documents = []
        for place, message in enumerate(messages, start):
            text = _text(message.get("content"))
            if message.get("role") not in _ROLES or not text.strip():
                continue
            metadata: dict[str, Value] = {"role": message["role"], "place": place, **self._mine}
            name = message.get("name")
            if isinstance(name, str) and name:
                metadata["name"] = name = _kept(name)
                text = f"{name}: {text}"
            documents.append(Document(self._id(place), text, None, metadata, self._user_id))
        await self._memory.upsert(documents, namespace=self._session_id)
        return start + len(messages)

    async def recall(self, query: str, k: int = 300, *, around: int = 6, vector: Vector | None = None) -> Recalled:
        """Return what the query brings to mind, by words and by vector, and what was said right before and after it.

        Args:
            query: Usually the current turn's text.
            k: Messages to find each way, before those around them are added.
            around: How many on each side of each that was found.
            vector: The query's embedding, where it is known.
        """
        if isinstance(around, bool) or not isinstance(around, int) or around < 0:
            raise ArgumentError(f"around is {around!r}; give a number of messages, at least 0")
        found: dict[int, Document | Hit] = {}
        nearness = None
        if vector is not None or self._memory.can_embed:
            near = await self._memory.search(
                query,
                k,
                vector=vector,
                filter=self._mine,
                user_id=self._user_id,
                namespace=self._session_id,
                mode="vector",
            )
            found.update((_place(hit), hit) for hit in near)
            nearness = _nearness(near)
        if self._memory.can_match:
            matching = await self._memory.search(
                query, k, filter=self._mine, user_id=self._user_id, namespace=self._session_id, mode="lexical"
            )
            found.update((_place(hit), hit) for hit in matching)
        beside = {place + step for place in found for step in range(-around, around + 1)} - found.keys()
        wanted = [self._id(place) for place in sorted(beside) if place >= 0]
        for one in await self._memory.get(wanted, namespace=self._session_id):
            if one.user_id == self._user_id:
                found[_place(one)] = one
        places = sorted(found)
        return Recalled(query, [_message(found[place]) for place in places], places, nearness)


def _nearness(hits: Sequence[Hit]) -> dict[int, float]:
    """How far each hit stands out, squared: from 0 for the last that counts to 1 for the first."""
    hits = hits[:_STANDING_OUT]
    if not hits:
        return {}
    least, spread = hits[-1].score, hits[0].score - hits[-1].score
    return {_place(hit): ((hit.score - least) / spread) ** 2 if spread > 0 else 1.0 for hit in hits}


def _place(found: Document | Hit) -> int:
    return int(found.id.rpartition(".")[2])


def _text(content: object) -> str:
    if isinstance(content, str):
        return _kept(content)
    if isinstance(content, Sequence):
        texts = [block if isinstance(block, str) else block.get("text") for block in content if _is_block(block)]
        return _kept("\n".join(text for text in texts if isinstance(text, str)))
    return ""


def _is_block(block: object) -> bool:
    return isinstance(block, (str, Mapping))


def _kept(text: str) -> str:
    """Text as every backend can keep it: it is there to be found and read, the session holds the message itself."""
    return _UNKEPT.sub("\ufffd", text)


def _message(found: Document | Hit) -> dict[str, Any]:
    name = found.metadata.get("name")
    message: dict[str, Any] = {"role": found.metadata["role"], "content": found.text}
    if isinstance(name, str):
        message["name"] = name
        message["content"] = found.text.removeprefix(f"{name}: ")
    return message
