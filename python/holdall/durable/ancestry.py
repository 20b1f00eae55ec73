"""The chain of sessions that a thread sees, and the messages in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdall.durable.kept import KEPT_LIFE, KEPT_OF
from holdall.durable.keys import session_id_of, session_key
from holdall.durable.sessions import NO_LOG, missing
from holdall.durable.snapshot import PARENT
from holdall.errors import ArgumentError, MissingParentError, ThreadCycleError, ThreadDepthError
from holdall.state.log import MESSAGE
from holdall.state.thread import ThreadLink
from holdall.stores.chain import Link, kept_key, link_of, read_chain

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.stores.base import Entry, Record

# Far beyond any conversation that people or agents hold, and read in some milliseconds.
DEFAULT_MAX_DEPTH: Final = 256


class _Part(NamedTuple):
    """The messages of one record that are seen."""

    record: Record
    messages: list[Entry]


class Ancestry:
    """The records that a session's context is in, its own first.

    Attributes:
        records: From the session's own to the oldest one.
    """

    def __init__(self, store: SessionStore, session_id: str, records: list[Record]) -> None:
        """Take records that are complete."""
        self._store = store
        self._session_id = session_id
        self.records = records
        self._parts = [
            _Part(record, [entry for entry in record.entries if entry.kind == MESSAGE]) for record in reversed(records)
        ]

    @classmethod
    async def read(cls, store: SessionStore, session_id: str, *, max_depth: int = DEFAULT_MAX_DEPTH) -> Ancestry:
        """Read the chain; the errors are those of `ConversationThread.build_context`."""
        if isinstance(max_depth, bool) or not isinstance(max_depth, int) or max_depth < 0:
            raise ArgumentError(f"max_depth is {max_depth!r}; a number of ancestors, at least 0")
        records = await read_chain(store.store, session_key(session_id), limit=max_depth + 1)
        if not records:
            raise missing(session_id)
        _check(session_id, records, max_depth)
        return cls(store, session_id, records)

    @staticmethod
    async def path(store: SessionStore, session_id: str, *, max_depth: int = DEFAULT_MAX_DEPTH) -> list[str]:
        """Return the session ids from the parent up to the root, read one by one."""
        path = [session_id]
        while True:
            record = await store.store.read(session_key(path[-1]), log_from=NO_LOG)
            if record is None:
                if len(path) == 1:
                    raise missing(session_id)
                raise _gone(path[-2], path[-1])
            parent = record.tags.get(PARENT)
            if not parent:
                return path[1:]
            if parent in path:
                raise _cycle(session_id, [*path, parent])
            if len(path) > max_depth:
                raise _too_deep(session_id, max_depth)
            path.append(parent)

    def link_at(self, at: int | None) -> ThreadLink:
        """Return the link of a thread that sees the first `at` messages; None: all there are.

        It names the record that holds the last of them, so that a fork far back does not hang on what came after it.
        """
        total = sum(len(part.messages) for part in self._parts)
        if at is None:
            own = self._parts[-1]
            record = own.record
            return ThreadLink(self._session_id, total, record.key, len(record.entries), record.version.generation)
        if not 0 <= at <= total:
            raise IndexError(f"{self._session_id!r} has {total} messages in its context; at is {at}")
        left = at
        for part in self._parts:
            if left <= len(part.messages):
                break
            left -= len(part.messages)
        end = part.messages[left - 1].seq + 1 if left else 0
        return ThreadLink(self._session_id, at, part.record.key, end, part.record.version.generation)

    def messages(self) -> list[dict[str, Any]]:
        """Return all messages, oldest first, read-only."""
        read = self._store.serializer.read_entry
        messages = []
        for record, entries in self._parts:
            # An entry is bound to the session it was written in, in a copy too.
            written_in = session_id_of(record.tags.get(KEPT_OF, record.key)) or ""
            messages += [read(entry.kind, entry.data, seq=entry.seq, record=written_in) for entry in entries]
        return messages


def _check(session_id: str, records: list[Record], max_depth: int) -> None:
    """Raise what is wrong with a chain: it closes, is too deep, or ends before its root."""
    seen: list[str] = []
    for record in records:
        name = session_id_of(record.tags.get(KEPT_OF, record.key)) or record.key
        if record.key in seen:
            raise _cycle(session_id, [*map(_shown, seen), name])
        seen.append(record.key)
    for record, base in zip(records, [*records[1:], None], strict=True):
        link = link_of(record.tags)
        if link is None:
            continue
        if base is None and len(records) > max_depth:
            raise _too_deep(session_id, max_depth)
        if base is None or not _is_taken_over(base, link, record):
            raise _gone(_shown(record.key), _shown(link.base))
        if len(base.entries) < link.at:
            raise _gone(_shown(record.key), _shown(link.base))


def _is_taken_over(base: Record, link: Link, taker: Record) -> bool:
    """Whether it is the base that the link names, or the copy of it that was kept for the taker, also where the base is gone."""
    if base.key == link.base:
        return base.version.generation == link.generation
    # What is kept for a copy is kept by those who made it. For a session of the id it may have been an earlier one.
    return taker.key.startswith(kept_key("")) or base.tags.get(KEPT_LIFE) == link.generation


def _shown(key: str) -> str:
    """Return the session that a record, or a copy that was kept for it, belongs to."""
    prefix = kept_key("")
    while key.startswith(prefix):
        key = key.removeprefix(prefix)
    return session_id_of(key) or key


def _gone(thread: str, parent: str) -> MissingParentError:
    return MissingParentError(
        f"what {thread!r} took over from {parent!r} is gone: that session was deleted or has expired",
        thread=thread,
        parent=parent,
    )


def _cycle(thread: str, path: list[str]) -> ThreadCycleError:
    return ThreadCycleError(f"{thread!r} is its own ancestor: {' -> '.join(path[:20])}", thread=thread, path=path)


def _too_deep(thread: str, limit: int) -> ThreadDepthError:
    return ThreadDepthError(
        f"{thread!r} has more than {limit} ancestors; max_depth allows more", thread=thread, limit=limit
    )
