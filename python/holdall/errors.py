"""Every error holdall raises. Each carries its figures as attributes and says what to do.

This module imports nothing of holdall, so that everything else may import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class HoldallError(Exception):
    """Base of every error that holdall raises on purpose."""

    def __init__(self, message: str, **figures: Any) -> None:
        """Keep the message, and each figure as an attribute of its own name."""
        super().__init__(message)
        self.figures = figures
        for name, value in figures.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the figures, so that errors cross process pools whole."""
        return (_rebuild, (type(self), self.args, self.figures))


def _rebuild(kind: type[HoldallError], args: tuple[Any, ...], figures: dict[str, Any]) -> HoldallError:
    return kind(*args, **figures)


class ArgumentError(HoldallError, ValueError):
    """An argument is outside its domain; the message says which and what is allowed."""


class UnknownNameError(ArgumentError):
    """A name is not one of the known ones."""

    what: str
    name: str
    known: list[str]


class MessageError(HoldallError, ValueError):
    """A message cannot be read as the chat format it came in."""

    index: int
    path: str
    reason: str


class RequiredOverflowError(HoldallError):
    """The required items alone exceed the budget, even in their smallest allowed form."""

    budget: int
    total: int
    items: Sequence[tuple[str, int]]


class ToolSchemaError(HoldallError, ValueError):
    """A tool schema cannot be read, or a used tool cannot be made to fit."""

    tool: str
    path: str
    reason: str


class SummarizerError(HoldallError):
    """A summarizer returned something that is not text, or an async one was used in a sync call."""


class StrategyError(HoldallError):
    """A context strategy that was replayed raised, or gave back something that is no request; the message says where."""


class DecodeError(HoldallError, ValueError):
    """Bytes are not what they claim to be."""

    offset: int
    reason: str


class DecryptError(HoldallError, ValueError):
    """Bytes cannot be decrypted: the key is missing or wrong, or they belong elsewhere. Never an empty answer."""

    key_id: str | None
    reason: str


class EncodeError(HoldallError, ValueError):
    """A value cannot be stored so that it comes back equal; raised before anything is written."""

    path: str
    reason: str


class NewerStateError(HoldallError):
    """A stored state has a newer schema version than this holdall knows; upgrade holdall first."""

    found: int
    supported: int


class NotFoundError(HoldallError, KeyError):
    """There is no such record, session or checkpoint, or it has expired."""

    key: str

    def __str__(self) -> str:
        """Return the message itself: KeyError would show its repr."""
        return str(self.args[0])


class ConflictError(HoldallError):
    """A write named a version that is not the current one; nothing was written.

    `expected` and `actual` are versions as the store saw them (None: the record does not exist).
    """

    key: str
    expected: Any
    actual: Any


class StaleFenceError(ConflictError):
    """A write carried a fencing token lower than one the record has seen; its lock was lost."""

    fence: int | None
    highest: int


class SessionGoneError(ConflictError):
    """A session that was loaded or saved before is no longer stored: it was deleted, or has expired meanwhile.

    `ttl_s` is how long it lives after each save; `actual` is None.
    """

    ttl_s: float | None


class MergeConflictError(HoldallError):
    """Two changes of one session exclude each other; nothing was written.

    `field` names what both changed, such as `summary`, `plan[2]` or `metadata["title"]`; `base` is what it was, `ours` and
    `theirs` what it became.
    """

    field: str
    base: Any
    ours: Any
    theirs: Any


class LockHeldError(HoldallError):
    """Somebody else holds the lock, and went on holding it for as long as one was willing to wait."""

    name: str
    waited_s: float


class LockLostError(HoldallError):
    """The lease of a lock ended, or could not be extended, while its holder was still at work."""

    name: str


class ThreadError(HoldallError):
    """A thread cannot do what was asked: it is not active, is no thread of that parent, or its ancestry is broken.

    `thread` is its session id.
    """

    thread: str


class MissingParentError(ThreadError):
    """What a thread took over is gone: `parent` was deleted, has expired, or is another session by now."""

    parent: str


class ThreadCycleError(ThreadError):
    """A thread is its own ancestor; `path` are the session ids up to where it closes."""

    path: list[str]


class ThreadDepthError(ThreadError):
    """A thread has more than `limit` ancestors."""

    limit: int


class StoreUnavailableError(HoldallError, ConnectionError):
    """A backend cannot be reached or refused to serve; nothing was written."""

    backend: str
    operation: str
    cause: str


class OutcomeUnknownError(StoreUnavailableError):
    """The reply to a write was lost: it may or may not have happened. Read before you write again."""


class UnreplicatedError(OutcomeUnknownError):
    """A write is done, but only `found` of the `wanted` replicas have said in time that they have it; the backend serves."""

    found: int
    wanted: int


class StoreBusyError(StoreUnavailableError):
    """A backend serves, but others were in the way for as long as the call tried; nothing was written, try again.

    So it is where a write would be found by entries that too few replicas have, and replicas are asked for.
    """


class TornRecordError(StoreUnavailableError):
    """A record's log lacks entries that its head names, as after an eviction; the backend serves all others."""

    key: str


class ClosedError(HoldallError):
    """The store was used after `aclose()`."""


class UserDeletedError(HoldallError):
    """A session names a user, whose it was not before, that was deleted; `readmit_user` lets the user have sessions again."""

    user_id: str


class RateLimitedError(HoldallError):
    """A rate limit does not allow it now; `retry_after_s` says when it would."""

    name: str
    retry_after_s: float


class RunningLoopError(HoldallError, RuntimeError):
    """A blocking call was made inside a running event loop, which it would have stopped."""


class OtherLoopError(HoldallError, RuntimeError):
    """A store that is connected in one event loop was used in another while the first still runs; open one in each."""

    backend: str
