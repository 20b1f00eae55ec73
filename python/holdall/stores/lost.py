"""What a store says when a connection fails: nothing was written, or nobody knows."""

from __future__ import annotations

from typing import Final

from holdall.errors import OutcomeUnknownError, StoreBusyError, StoreUnavailableError, UnreplicatedError

_REQUESTS_THAT_WRITE: Final = ("upsert", "delete", "delete_user")
_BAD_REQUEST, _SERVER_ERROR = 400, 500
# Who saves a session has no op_id to repeat: its store drew one.
_AGAIN: Final = "read before you write again, or repeat it with the same op_id, if it was yours, which has one effect"


def unavailable(backend: str, operation: str, cause: BaseException) -> StoreUnavailableError:
    """Nothing was written: the backend could not be reached, or refused to serve."""
    said = _said(cause)
    return StoreUnavailableError(
        f"{backend} {operation}: {said}: nothing was written; see that the server is up, and that its address and login are right, then try again",
        backend=backend,
        operation=operation,
        cause=said,
    )


def busy(backend: str, operation: str, said: str, *, cause: str = "contention") -> StoreBusyError:
    """Nothing was written: others were in the way, and the backend serves."""
    return StoreBusyError(
        f"{backend} {operation}: {said}: nothing was written; try again",
        backend=backend,
        operation=operation,
        cause=cause,
    )


def unreplicated(backend: str, operation: str, *, found: int, wanted: int) -> UnreplicatedError:
    """The server has it, and too few replicas."""
    cause = f"{found} of {wanted} replicas have it"
    return UnreplicatedError(
        f"{backend} {operation}: {cause}, and the server itself: a failover may lose it or not; {_AGAIN}",
        backend=backend,
        operation=operation,
        cause=cause,
        found=found,
        wanted=wanted,
    )


def unknown(backend: str, operation: str, cause: BaseException, *, is_repeatable: bool) -> OutcomeUnknownError:
    """The reply was lost: the call may have taken effect."""
    said = _said(cause)
    advice = (
        _AGAIN
        if is_repeatable
        else "read before you write again, and give writes an op_id so that they can be repeated"
    )
    return OutcomeUnknownError(
        f"{backend} {operation}: the reply was lost ({said}), so it may or may not have happened: {advice}",
        backend=backend,
        operation=operation,
        cause=said,
    )


def is_refusal(status: int) -> bool:
    """Whether an HTTP status says that the request was refused, and had no effect."""
    return _BAD_REQUEST <= status < _SERVER_ERROR


def failed_request(
    backend: str, operation: str, cause: BaseException, *, may_have_happened: bool
) -> StoreUnavailableError:
    """A call of a semantic memory failed; all of these may be repeated as they are.

    Args:
        backend: Which.
        operation: What was called.
        cause: Of its last request.
        may_have_happened: That request reached the server as far as anyone knows, or one before it did its part.
    """
    if not may_have_happened or operation not in _REQUESTS_THAT_WRITE:
        return unavailable(backend, operation, cause)
    said = _said(cause)
    return OutcomeUnknownError(
        f"{backend} {operation}: {said}: it may have happened, in whole or in part; call it again, which has one effect",
        backend=backend,
        operation=operation,
        cause=said,
    )


def _said(cause: BaseException) -> str:
    # only the first line: drivers append details, and some of them the statement with its values
    text = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {text[0]}" if text else type(cause).__name__
