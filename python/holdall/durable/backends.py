"""Session stores by backend: constructors beside `SessionStore`. A driver is imported when its store is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdall.durable.session_store import SessionStore
from holdall.durable.urls import aws_url
from holdall.state import StateSerializer
from holdall.stores.memory import MemoryStore
from holdall.stores.urls import mask_url

if TYPE_CHECKING:
    from pathlib import Path


class MemorySessionStore(SessionStore):
    """Sessions in this process: for tests, and for agents that need not outlive it."""

    def __init__(self, *, serializer: StateSerializer | None = None, **options: Any) -> None:
        super().__init__(MemoryStore(**options), serializer, name="memory:")


class SqliteSessionStore(SessionStore):
    """Sessions in one SQLite file, shared by several processes of one machine.

    Args:
        path: The file; made if missing.
        serializer: How states become bytes.
        options: As of `holdall.stores.sqlite.SqliteStore`.
    """

    def __init__(self, path: str | Path, *, serializer: StateSerializer | None = None, **options: Any) -> None:
        from holdall.stores.sqlite import SqliteStore

        super().__init__(SqliteStore(path, **options), serializer, name=f"sqlite:///{path}")


class PostgresSessionStore(SessionStore):
    """Sessions in PostgreSQL, the head as JSONB that psql can query.

    Args:
        source: A URL, or a pool of asyncpg.
        serializer: How states become bytes; by default the head as JSON, messages as msgpack.
        options: As of `holdall.stores.postgres.PostgresStore`.
    """

    def __init__(self, source: Any, *, serializer: StateSerializer | None = None, **options: Any) -> None:
        from holdall.stores.postgres import PostgresStore

        store = PostgresStore(source, **options) if isinstance(source, str) else PostgresStore(pool=source, **options)
        super().__init__(store, serializer or StateSerializer("json"), name=_shown(source))


class RedisSessionStore(SessionStore):
    """Sessions in Redis or Valkey: standalone, behind Sentinel, or in a Cluster.

    Args:
        source: A URL, or a client of redis.asyncio.
        serializer: How states become bytes.
        options: As of `holdall.stores.redis.RedisStore`.
    """

    def __init__(self, source: Any, *, serializer: StateSerializer | None = None, **options: Any) -> None:
        from holdall.stores.redis import RedisStore

        store = RedisStore(source, **options) if isinstance(source, str) else RedisStore(client=source, **options)
        super().__init__(store, serializer, name=_shown(source))


class DynamoSessionStore(SessionStore):
    """Sessions in one DynamoDB table.

    Args:
        source: The name of the table, a URL such as `dynamodb://TABLE?region=eu-west-1`, or a client of aiobotocore.
        serializer: How states become bytes.
        options: As of `holdall.stores.dynamodb.DynamoStore`; credentials come from where AWS's tools look for them.
    """

    def __init__(self, source: Any, *, serializer: StateSerializer | None = None, **options: Any) -> None:
        from holdall.stores.dynamodb import DynamoStore

        if isinstance(source, str):
            table, _, connect = aws_url(source, "dynamodb")
            options["connect"] = connect | dict(options.get("connect") or {})
            super().__init__(DynamoStore(table, **options), serializer, name=source)
        else:
            super().__init__(DynamoStore(client=source, **options), serializer, name=_shown(source))


class MongoSessionStore(SessionStore):
    """Sessions in MongoDB, on a replica set, the head as a value that people can query.

    Args:
        source: A URL, or an AsyncMongoClient of pymongo.
        serializer: How states become bytes; by default the head as JSON, messages as msgpack.
        options: As of `holdall.stores.mongodb.MongoStore`.
    """

    def __init__(self, source: Any, *, serializer: StateSerializer | None = None, **options: Any) -> None:
        from holdall.stores.mongodb import MongoStore

        store = MongoStore(source, **options) if isinstance(source, str) else MongoStore(client=source, **options)
        super().__init__(store, serializer or StateSerializer("json"), name=_shown(source))


class S3SessionStore(SessionStore):
    """Sessions in an S3 bucket, one object each: for archives, since each save sends the whole session.

    Args:
        source: The name of the bucket, or a URL such as `s3://BUCKET/PREFIX?region=eu-west-1`.
        serializer: How states become bytes.
        options: As of `holdall.stores.s3.S3Store`; credentials come from where AWS's tools look for them.
    """

    def __init__(self, source: str, *, serializer: StateSerializer | None = None, **options: Any) -> None:
        from holdall.stores.s3 import S3Store

        bucket, path, connect = aws_url(source, "s3")
        if path:
            options.setdefault("prefix", f"{path}/")
        options["connect"] = connect | dict(options.get("connect") or {})
        super().__init__(S3Store(bucket, **options), serializer, name=source)


def _shown(source: Any) -> str:
    return mask_url(source) if isinstance(source, str) else type(source).__name__
