"""What makes a session a thread of another: where it left its parent. Kept in the session's metadata, under one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from holdall.state.session import SessionState

# The keys of `metadata` that are ours.
THREAD: Final = "holdall.thread"
JOINED: Final = "holdall.joined"

# More than any log has, and within the integers of every store.
_MOST_ENTRIES: Final = 2**31

ACTIVE: Final = "active"
COMPLETED: Final = "completed"
ABANDONED: Final = "abandoned"


class ThreadLink(NamedTuple):
    """Where a thread left its parent.

    Attributes:
        parent: Session id of the parent.
        n_messages: How many messages of the parent's context the thread sees.
        base: Key of the record whose log holds the last of them: the parent's own, or that of one of its ancestors.
        at: Entries of that log that it sees.
        generation: Generation of that record.
    """

    parent: str
    n_messages: int
    base: str
    at: int
    generation: str


def thread_link(state: SessionState) -> ThreadLink | None:
    """Return where the session left its parent; None for one that has none."""
    held = state.metadata.get(THREAD)
    if not isinstance(held, dict):
        return None
    try:
        link = ThreadLink(**held)
    except TypeError:
        return None
    kinds = (str, int, str, int, str)
    if not all(type(value) is kind for value, kind in zip(link, kinds, strict=True)):
        return None
    return link if 0 <= link.at < _MOST_ENTRIES and link.n_messages >= 0 else None


def set_thread_link(state: SessionState, link: ThreadLink) -> None:
    """Note where the session left its parent."""
    state.metadata[THREAD] = link._asdict()


def joined_threads(state: SessionState) -> tuple[Any, ...]:
    """Return the ids of the threads that were joined into this session."""
    held = state.metadata.get(JOINED)
    return tuple(held) if isinstance(held, (list, tuple)) else ()
