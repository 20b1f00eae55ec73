"""The pool, the schema and the retries below `PostgresStore`: everything about a connection that is no record."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any

from holdall.errors import ArgumentError, ClosedError, EncodeError, NewerStateError, StoreUnavailableError
from holdall.stores import lost
from holdall.stores.loop import HomeLoop
from holdall.stores.sql import migrations
from holdall.stores.urls import unreadable

try:
    import asyncpg
except ImportError as exc:
    raise ImportError("PostgresStore needs an extra: pip install 'holdall[postgres]'") from exc

from holdall.stores.postgres_lane import Lanes, Shared

BACKEND = "postgres"
# Any constant does, as long as every holdall takes the same: "holdall" in ASCII.
_SETUP_LOCK = 0x686F6C64616C6C
_SERIALIZATION_ATTEMPTS = 6
_MOST_BACKOFF_S = 0.05

_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # a connection that was terminated while idle can be found in the middle of closing
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    OSError,
    asyncio.TimeoutError,
)
# the transaction was rolled back to let another one through
_ROLLED_BACK = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
# others were in the way for as long as the server was told to wait for them, or each time it was tried
_BUSY = (*_ROLLED_BACK, asyncpg.LockNotAvailableError)
# refused while reading the arguments: nothing was written, and nothing will be
_REFUSED = (asyncpg.DataError, asyncpg.ProgramLimitExceededError)


class PostgresLink:
    """A pool that is made on first use, in the loop of that use.

    It keeps no session state and relies on none, so that it works through a pooler in transaction mode; whether there is one
    is found out by comparing the process id that the server names at the start with the one it names when asked.
    """

    def __init__(
        self,
        dsn: str | None,
        *,
        pool: Any | None,
        min_size: int,
        max_size: int,
        schema: str | None,
        auto_migrate: bool,
        timeout_s: float,
        connect: dict[str, Any],
    ) -> None:
        """Remember how to connect."""
        if (dsn is None) == (pool is None):
            raise ArgumentError("give either a URL or a pool")
        self._dsn = dsn
        self._pool = pool
        self._owns_pool = pool is None
        self._sizes = {"min_size": min_size, "max_size": max_size}
        self.schema = schema
        self._auto_migrate = auto_migrate
        self._timeout_s = timeout_s
        self._connect = connect
        self._lanes: Lanes | Shared | None = None
        self._is_closed = False
        self._starting = asyncio.Lock()
        self._home = HomeLoop(BACKEND)
        self.prefix = "" if schema is None else f"{quoted(schema)}."
        # None until known
        self.is_pooled: bool | None = None

    async def call(self, operation: str, query: str, *args: Any, is_repeatable: bool) -> list[Any]:
        """Run one statement as one transaction and return its rows.

        A lost connection is tried once more if the call is repeatable; serialization failures and deadlocks are tried again
        in any case, since they left nothing behind.

        Raises:
            StoreUnavailableError: There is no connection to be had; nothing was written.
            OutcomeUnknownError: The connection was lost after the statement was sent.
            EncodeError: The server cannot store a value; nothing was written.
        """
        was_sent = False
        for is_last in (False, True):
            try:
                lanes = await self._ready()
                connection = await lanes.take()
            except (*_LOST, asyncpg.PostgresError) as error:
                raise _failed(operation, error, was_sent=was_sent, is_repeatable=is_repeatable) from error
            is_whole = False
            try:
                rows = await self._fetch(connection, query, args)
                is_whole = True
            except _REFUSED as error:
                # not its further lines, which may quote the value; nor the cause, whose text has them
                reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                raise EncodeError(
                    f"postgres {operation}: the server cannot store this value: {reason}", path="$", reason=reason
                ) from None
            except asyncpg.ReadOnlySQLTransactionError as error:
                # the name that was connected to leads to another server by now: this one was told to follow it
                await lanes.expire()
                if is_last:
                    raise _failed(operation, error, was_sent=was_sent, is_repeatable=is_repeatable) from error
            except asyncpg.QueryCanceledError as error:
                # a statement_timeout of the server, or an administrator: rolled back
                raise _failed(operation, error, was_sent=was_sent, is_repeatable=is_repeatable) from error
            except _LOST as error:
                # its state is anybody's guess, and waiting for a reply that was lost helps nobody
                with contextlib.suppress(asyncpg.InterfaceError):  # the pool may have let go of it already
                    connection.terminate()
                was_sent = was_sent or operation in _WRITES
                if is_last or not is_repeatable:
                    raise _failed(operation, error, was_sent=was_sent, is_repeatable=is_repeatable) from error
            except asyncpg.PostgresError as error:
                raise _failed(operation, error, was_sent=was_sent, is_repeatable=is_repeatable) from error
            else:
                return rows
            finally:
                await lanes.give(connection, is_whole=is_whole)
        raise AssertionError("the second attempt returns or raises")

    async def _fetch(self, connection: Any, query: str, args: Sequence[Any]) -> list[Any]:
        for attempt in range(_SERIALIZATION_ATTEMPTS):
            try:
                rows: list[Any] = await connection.fetch(query, *args, timeout=self._timeout_s)
            except _ROLLED_BACK:
                if attempt == _SERIALIZATION_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(random.uniform(0, _MOST_BACKOFF_S))  # noqa: S311 - jitter, not a secret
            else:
                return rows
        raise AssertionError("the last attempt returns or raises")

    async def _ready(self) -> Lanes | Shared:
        if self._is_closed:
            raise ClosedError("this PostgresStore was closed; make a new one")
        self._follow_loop()
        if self._lanes is not None:
            return self._lanes
        async with self._starting:
            if self._lanes is None:
                self._lanes = await self._started()
        return self._lanes

    def _follow_loop(self) -> None:
        if self._owns_pool and self._home.has_moved():
            self._lanes, self._starting = None, asyncio.Lock()

    async def _started(self) -> Lanes | Shared:
        if self._pool is not None:
            async with self._pool.acquire() as connection:
                await self._set_up(connection)
            return Shared(self._pool, timeout_s=self._timeout_s)
        probe = await self._alone()
        try:
            self.is_pooled = probe.get_server_pid() != await probe.fetchval("SELECT pg_backend_pid()")
            await self._set_up(probe)
        finally:
            await probe.close(timeout=self._timeout_s)
        pool = await asyncpg.create_pool(
            self._dsn,
            **self._sizes,
            # behind a pooler the next transaction may meet another server, which never saw the prepared statement
            statement_cache_size=0 if self.is_pooled else 100,
            # nothing to reset: no call leaves session state behind, and the default costs a round trip per call
            reset=_leave,
            timeout=self._timeout_s,
            **self._connect,
        )
        if self._is_closed:
            # closed while this was under way, which then found no pool to close
            pool.terminate()
            raise ClosedError("this PostgresStore was closed; make a new one")
        return Lanes(pool, size=self._sizes["max_size"], timeout_s=self._timeout_s)

    async def _alone(self) -> Any:
        """Return a connection beside the pool."""
        try:
            return await asyncpg.connect(self._dsn, timeout=self._timeout_s, statement_cache_size=0, **self._connect)
        except (ValueError, OverflowError) as error:
            if not is_unreadable(error):
                raise
            raise unreadable(str(self._dsn), error) from None

    async def _set_up(self, connection: Any) -> None:
        due = await due_migrations(connection, schema=self.schema)
        if due and not self._auto_migrate:
            raise StoreUnavailableError(
                f"postgres: the schema lacks {', '.join(due)}: run `holdall migrate URL`",
                backend=BACKEND,
                operation="connect",
                cause="schema not up to date",
            )
        if due:
            await apply_migrations(connection, schema=self.schema)

    async def migrate(self, *, dry_run: bool) -> list[str]:
        """Bring the schema up to date; return the names applied, or due with `dry_run`."""
        if self._is_closed:
            raise ClosedError("this PostgresStore was closed; make a new one")
        try:
            if not self._owns_pool:
                async with self._pool.acquire() as connection:  # type: ignore[union-attr]
                    return await _migrate(connection, self.schema, dry_run=dry_run)
            connection = await self._alone()
            try:
                return await _migrate(connection, self.schema, dry_run=dry_run)
            finally:
                await connection.close(timeout=self._timeout_s)
        except (*_LOST, asyncpg.PostgresError) as error:
            raise lost.unavailable(BACKEND, "migrate", error) from error

    async def close(self) -> None:
        """Close the pool, if it is ours, once the calls under way have ended."""
        if self._is_closed:
            return
        self._follow_loop()
        self._is_closed = True
        if not isinstance(self._lanes, Lanes):
            return
        try:
            await asyncio.wait_for(self._lanes.close(), self._timeout_s)
        except (*_LOST, asyncpg.PostgresError):
            # what cannot be closed in order is cut; nothing is under way that anyone waits for
            self._lanes.terminate()


_WRITES = ("write", "touch", "delete", "sweep")


def is_unreadable(error: Exception) -> bool:
    """Whether the driver could not read the DSN or an option; no server was asked then."""
    if isinstance(error, asyncpg.InterfaceError):
        return isinstance(error, asyncpg.ClientConfigurationError)
    return isinstance(error, (ValueError, OverflowError))


def _failed(operation: str, error: BaseException, *, was_sent: bool, is_repeatable: bool) -> StoreUnavailableError:
    """Say that nothing was written; or, where the reply to an earlier attempt was lost, that nobody knows."""
    if was_sent:
        return lost.unknown(BACKEND, operation, error, is_repeatable=is_repeatable)
    if isinstance(error, _BUSY):
        said = str(error).splitlines()[0]
        return lost.busy(
            BACKEND, operation, f"others were in the way ({said})", cause=f"{type(error).__name__}: {said}"
        )
    return lost.unavailable(BACKEND, operation, error)


async def _leave(_connection: Any) -> None:
    """Give a connection back as it is."""


def quoted(name: str) -> str:
    """Return an SQL identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


async def _migrate(connection: Any, schema: str | None, *, dry_run: bool) -> list[str]:
    if dry_run:
        return await due_migrations(connection, schema=schema)
    return await apply_migrations(connection, schema=schema)


async def due_migrations(connection: Any, *, schema: str | None = None) -> list[str]:
    """Return the names of the migrations that the schema lacks, without changing anything.

    Raises:
        NewerStateError: The schema was made by a newer holdall.
    """
    table = f"{'' if schema is None else quoted(schema) + '.'}agent_session_migrations"
    exists = await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table)
    applied = {row["name"] for row in await connection.fetch(f"SELECT name FROM {table}")} if exists else set()
    names = [migration.name for migration in migrations(BACKEND)]
    if applied - set(names):
        raise NewerStateError(
            f"the PostgreSQL schema has {', '.join(sorted(applied - set(names)))}, which this holdall does not know: upgrade it",
            found=len(applied),
            supported=len(names),
        )
    return [name for name in names if name not in applied]


async def apply_migrations(connection: Any, *, schema: str | None = None) -> list[str]:
    """Apply what is due in one transaction, or in the caller's, under a lock that makes others wait; return its names."""
    async with connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
        if schema is not None:
            # asked of the table, not with IF NOT EXISTS: that trusts a cache from before the wait for the lock
            if not await connection.fetchval("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", schema):
                await connection.execute(f"CREATE SCHEMA {quoted(schema)}")
            await connection.execute(f"SET LOCAL search_path = {quoted(schema)}")
        due = await due_migrations(connection, schema=schema)
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS agent_session_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        for migration in migrations(BACKEND):
            if migration.name in due:
                await connection.execute(migration.sql)
                await connection.execute("INSERT INTO agent_session_migrations (name) VALUES ($1)", migration.name)
    return due
