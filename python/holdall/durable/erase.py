"""Delete a user from several stores at once."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Protocol, runtime_checkable

from holdall.errors import ArgumentError


@runtime_checkable
class UserStore(Protocol):
    """A store of any kind that can delete what it holds of a user."""

    async def delete_user(self, user_id: str) -> int:
        """Delete it, so that no late writer brings it back; idempotent. Return how much that was."""
        ...


class Erasure(NamedTuple):
    """What was deleted where, in the order of the stores.

    Attributes:
        deleted: How many sessions each store deleted, None where it could not be reached.
        errors: What kept it from that, None where nothing did.
    """

    deleted: tuple[int | None, ...]
    errors: tuple[Exception | None, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the user is left in any store."""
        return not any(self.errors)


async def delete_user(user_id: str, *stores: UserStore) -> Erasure:
    """Delete a user's sessions, archived ones and copies, profile and cached answers in every store, all at once.

    A store that cannot be reached keeps none of the others from deleting. Call it again until it `is_complete`; what is
    deleted stays deleted, and each store refuses the user's late writers for 24 hours.

    Args:
        user_id: Whose.
        stores: Session stores and tiered ones, stores of checkpoints, memories: whatever has a `delete_user`.

    Raises:
        ArgumentError: A store has no `delete_user`, or none was given; nothing was deleted.
    """
    if not stores:
        raise ArgumentError("delete_user needs at least one store")
    for store in stores:
        if not isinstance(store, UserStore):
            raise ArgumentError(f"{type(store).__name__} has no delete_user: pass a session store on it")
    answers: list[Any] = await asyncio.gather(*(store.delete_user(user_id) for store in stores), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Exception):
            raise answer
    errors = tuple(answer if isinstance(answer, Exception) else None for answer in answers)
    return Erasure(tuple(None if isinstance(answer, Exception) else int(answer) for answer in answers), errors)
