"""What a tool has answered, kept for those who ask it the same."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import json
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdall.durable.finish import GRACE_S
from holdall.durable.flights import SharedCalls
from holdall.durable.keys import check_id
from holdall.durable.sessions import new_op_id
from holdall.durable.ttl import TOOL_CACHE_TTL_S, check_ttl
from holdall.durable.values import Values
from holdall.errors import ArgumentError, ConflictError, EncodeError, StoreUnavailableError, UserDeletedError
from holdall.stores.base import ABSENT, Absent, Blob, Version

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.state import StateSerializer
    from holdall.stores.base import Store

LEASE_S: Final = 10.0
_LEASE: Final = Blob("holdall.lease", b"")
_LEAST_WAIT_S: Final = 0.005
_MOST_WAIT_S: Final = 0.25
_MAX_DEPTH: Final = 100
# Below it every whole float is the int of the same digits.
_EXACT_FLOAT: Final = 2.0**53


class Hit(NamedTuple):
    """A cached answer; the value may be None."""

    value: Any


class ToolResultCache:
    """Answers of tools by tool name and arguments, shared by all workers of a store.

    Arguments are the same if they are the same JSON: the order of keys does not matter, nor whether a whole number was
    written as 1 or 1.0. Answers that depend on who asks take `user_id=`: they are that user's alone, and go with `delete_user`.

    When many ask the same at once, one calls the tool. Tasks of one process share its answer; other processes see its lease in
    the store and wait for the answer. A lease that is not renewed, since its holder died, ends after `lease_s`, and the next
    one calls. An answer is kept only if its lease still stands. Errors are not kept. While the store cannot be reached, tools
    are called as if there were no cache.

    Args:
        store: Any store, or a session store.
        ttl_s: How long an answer is good; one hour by default, sensible up to a day.
        lease_s: How long others wait for a worker that has died.
        serializer: How answers become bytes; by default the session store's.
        sleep: Waits for another worker's answer; for tests.
    """

    def __init__(
        self,
        store: Store | SessionStore,
        *,
        ttl_s: float | None = TOOL_CACHE_TTL_S,
        lease_s: float = LEASE_S,
        serializer: StateSerializer | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._values = Values(store, serializer)
        self._ttl_s = check_ttl(ttl_s)
        if not lease_s > 0:
            raise ArgumentError(f"lease_s is {lease_s}; above 0")
        self._lease_s = lease_s
        self._sleep = sleep
        self._calls: SharedCalls[Blob] = SharedCalls()

    async def get_or_call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        call: Callable[[], Any],
        *,
        ttl_s: float | None = None,
        user_id: str | None = None,
    ) -> Any:
        """Return the cached answer, or call the tool and keep what it answers.

        Args:
            tool: Its name.
            arguments: What it is called with; JSON values.
            call: Calls it; may be async. Called at most once here, and not at all where somebody else does.
            ttl_s: How long this answer is good; by default that of the cache.
            user_id: For answers that are this user's alone.

        Returns:
            The answer, a copy of the caller's own.

        Raises:
            EncodeError: The arguments are no JSON, or the answer cannot be stored so that it comes back equal.
            UserDeletedError: The user was deleted.
        """
        key = self._key(tool, arguments, user_id)
        ask = _Ask(key, tool, call, self._ttl_s if ttl_s is None else check_ttl(ttl_s), user_id)
        head = await self._calls.run(key, lambda: self._answer(ask))
        return self._values.decode(key, head.data)

    async def get(self, tool: str, arguments: Mapping[str, Any], *, user_id: str | None = None) -> Hit | None:
        """Return the cached answer, None where there is none."""
        found = await self._values.read(self._key(tool, arguments, user_id))
        return None if found is None or found.mark else Hit(found.value)

    async def put(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        value: Any,
        *,
        ttl_s: float | None = None,
        user_id: str | None = None,
    ) -> None:
        """Keep an answer; the last one that is put wins."""
        key = self._key(tool, arguments, user_id)
        await self._values.write(
            key,
            self._values.encode(key, value),
            expected=None,
            ttl_s=self._ttl_s if ttl_s is None else check_ttl(ttl_s),
            user_id=user_id,
            op_id=new_op_id(),
            tags={"tool": tool},
        )

    async def forget(self, tool: str, arguments: Mapping[str, Any] | None = None, *, user_id: str | None = None) -> int:
        """Forget one answer, or all of a tool, of one user if named; return how many were forgotten.

        A call that is under way keeps nothing of what it brings.
        """
        store = self._values.store
        if arguments is not None:
            return int(await store.delete(self._key(tool, arguments, user_id), op_id=new_op_id()))
        tags = {"tool": tool} | ({} if user_id is None else {"user_id": user_id})
        keys = [key async for key in store.find(**tags)]
        return sum([await store.delete(key, op_id=new_op_id()) for key in keys])

    def _key(self, tool: str, arguments: Mapping[str, Any], user_id: str | None) -> str:
        check_id(tool, "tool")
        owner = "" if user_id is None else check_id(user_id, "user_id")
        said = json.dumps([tool, owner, canonical(arguments)], ensure_ascii=False, separators=(",", ":"))
        return "~tool/" + hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()

    async def _answer(self, ask: _Ask) -> Blob:
        """Return the encoded answer: the one that is stored, somebody else's when it is there, or that of a call."""
        wait_s = _LEAST_WAIT_S
        while True:
            try:
                found = await self._values.store.read(ask.key)
                if found is not None and found.head.format != _LEASE.format:
                    return found.head
                if found is None:
                    lease = await self._write(ask, _LEASE, ABSENT, self._lease_s)
                    break
            except ConflictError:
                pass  # another one took the lease at this moment
            except StoreUnavailableError:
                return self._values.encode(ask.key, await _called(ask.call))
            await self._sleep(wait_s * (0.5 + random.random() / 2))  # noqa: S311 - only spreads those who wait
            wait_s = min(2 * wait_s, _MOST_WAIT_S)
        return await self._call(ask, _Lease(lease))

    async def _call(self, ask: _Ask, lease: _Lease) -> Blob:
        renewing = asyncio.ensure_future(self._renew(ask, lease))
        try:
            head = self._values.encode(ask.key, await _called(ask.call))
        except BaseException:
            await self._stop(renewing, lease)
            # The next one need not wait for the lease to end.
            with contextlib.suppress(StoreUnavailableError, ConflictError):
                await self._values.store.delete(ask.key, expected=lease.version, op_id=new_op_id())
            raise
        await self._stop(renewing, lease)
        # Forgotten meanwhile, or so late that another one has called: then this answer is not the one to keep.
        with contextlib.suppress(StoreUnavailableError, ConflictError):
            await self._write(ask, head, lease.version, ask.ttl_s)
        return head

    async def _renew(self, ask: _Ask, lease: _Lease) -> None:
        """Write the lease anew now and then, as long as it is the one that was taken."""
        while True:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(lease.is_over.wait(), self._lease_s / 3)
            if lease.is_over.is_set():
                return
            try:
                lease.version = await self._write(ask, _LEASE, lease.version, self._lease_s)
            except StoreUnavailableError:
                continue
            except (ConflictError, UserDeletedError):
                return

    async def _stop(self, renewing: asyncio.Future[None], lease: _Lease) -> None:
        lease.is_over.set()
        # Not cancelled in the middle of a write, whose version the next one must name.
        await asyncio.wait({renewing}, timeout=GRACE_S)

    async def _write(self, ask: _Ask, head: Blob, expected: Version | Absent, ttl_s: float | None) -> Version:
        return await self._values.write(
            ask.key,
            head,
            expected=expected,
            ttl_s=ttl_s,
            user_id=ask.user_id,
            op_id=new_op_id(),
            tags={"tool": ask.tool},
        )


class _Ask(NamedTuple):
    """Who asks what."""

    key: str
    tool: str
    call: Callable[[], Any]
    ttl_s: float | None
    user_id: str | None


class _Lease:
    """The right to call, as of its last renewal."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.is_over = asyncio.Event()


async def _called(call: Callable[[], Any]) -> Any:
    answer = call()
    return await answer if inspect.isawaitable(answer) else answer


def canonical(value: Any, path: str = "arguments", depth: int = 0) -> Any:
    """Return JSON in the one form that equal JSON shares: keys in order, whole floats as ints.

    Raises:
        EncodeError: It is no JSON: NaN, bytes, a key that is no text, or nested without end.
    """
    if depth > _MAX_DEPTH:
        raise EncodeError(f"{path}: nested more than {_MAX_DEPTH} deep", path=path, reason="too deep")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise EncodeError(f"{path}: the key {name!r} is no text", path=path, reason="key is no text")
        return {name: canonical(value[name], f"{path}.{name}", depth + 1) for name in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [canonical(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise EncodeError(f"{path}: {value} is no JSON", path=path, reason="not finite")
        return int(value) if value.is_integer() and abs(value) <= _EXACT_FLOAT else value
    if value is None or isinstance(value, (str, bool, int)):
        return value
    raise EncodeError(
        f"{path}: {type(value).__name__} is no JSON", path=path, reason=f"{type(value).__name__} is no JSON"
    )
