"""What one save sends, fixed at the instant of the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdall.durable.keys import check_id, session_key
from holdall.durable.ttl import check_ttl
from holdall.errors import ArgumentError
from holdall.state.session import HEAD_FIELDS, SessionState
from holdall.state.thread import thread_link
from holdall.state.values import thaw
from holdall.stores.base import ABSENT, Absent, Blob, Entry, Version
from holdall.stores.chain import Link, link_tags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdall.state import StateSerializer
    from holdall.state.log import Item, Pending

# The tag by which a session's threads are found.
PARENT: Final = "parent"
# No store draws it, so a state whose version nobody loaded conflicts with every record.
_NO_GENERATION: Final = "-"


def version_of(state: SessionState) -> Version | None:
    """Return the stored version that the state was loaded from or last saved as, None where it never was."""
    return Version(state.generation or _NO_GENERATION, state.version) if state.version else None


def check_state(state: SessionState) -> None:
    """Refuse to save what is no state."""
    if not isinstance(state, SessionState):
        raise ArgumentError(f"what is saved is a SessionState, not {type(state).__name__}")


class Write(NamedTuple):
    """The arguments of a store's write, and what to note down when it succeeded.

    `takes_user` says that the session is new, or not known to be the user's already, who may have been deleted.
    """

    key: str
    user_id: str
    head: Blob
    expected: Version | Absent
    append: tuple[Entry, ...]
    keep: int | None
    ttl_s: float | None
    tags: Mapping[str, str]
    pending: Pending
    takes_user: bool

    @classmethod
    def of(cls, state: SessionState, serializer: StateSerializer) -> Write:
        """Encode the state as it is now; raise for anything that cannot be stored before anything is written."""
        check_state(state)
        key, user_id = session_key(state.session_id), check_id(state.user_id, "user_id")
        ttl_s = check_ttl(state.ttl_seconds)
        now = serializer.snapshot(state)
        return cls(
            key,
            user_id,
            Blob(now.format, now.head),
            version_of(state) or ABSENT,
            tuple([Entry(kind, data) for kind, data in now.append]),
            now.keep,
            ttl_s,
            _tags(state, key, user_id),
            now.pending,
            not state.version or state.stored_user_id != user_id,
        )

    def mark_saved(self, state: SessionState, version: Version) -> None:
        """Note in the state that this much of it is stored; what changed since the snapshot stays to be saved."""
        state.mark_saved(version.number, self.pending, generation=version.generation, user_id=self.user_id)


def _tags(state: SessionState, key: str, user_id: str) -> dict[str, str]:
    tags = {"user_id": user_id, "status": state.status}
    link = thread_link(state)
    if link is not None:
        # The parent, so that its threads are found; the base, so that a store follows the chain by itself.
        tags |= {PARENT: link.parent, **link_tags(key, Link(link.base, link.at, link.generation))}
    return tags


class RestorePoint(NamedTuple):
    """A state as it was before a step, cheap to take: the log's items never change, so only their list is copied."""

    head: dict[str, Any]
    items: Sequence[Item]
    saved: int
    stored: int

    @classmethod
    def of(cls, state: SessionState) -> RestorePoint:
        """Remember the state as it is now."""
        log = state.log
        return cls({name: thaw(getattr(state, name)) for name in HEAD_FIELDS}, log.items, log.saved, log.stored)

    def restore(self, state: SessionState) -> None:
        """Make the state what it was; the point can be restored again."""
        for name, value in self.head.items():
            setattr(state, name, thaw(value))
        state.load_log(self.items, stored=False)
        state.log.saved, state.log.stored = self.saved, self.stored
