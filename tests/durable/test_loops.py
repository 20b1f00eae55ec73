"""One store and several event loops: one after the other, as of scripts and of task queues, and two at once."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from uuid import uuid4

import pytest

import holdall
from holdall import SessionState
from holdall.durable.session_store import SessionStore
from holdall.errors import ClosedError, OtherLoopError
from tests.servers.aws import Aws
from tests.servers.mongodb import Mongo
from tests.servers.postgres import Postgres

from .backends import SERVERS, url_of

# What a loop leaves open that ends before its store was closed.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


async def used(store: SessionStore, user_id: str, n: int) -> int:
    await store.save(SessionState(session_id=f"{user_id}-{n}", user_id=user_id))
    assert (await store.load(f"{user_id}-{n}")).version == 1
    return len(await store.list(user_id=user_id))


def one_after_the_other(store: SessionStore) -> None:
    user_id = f"u-{uuid4().hex}"
    assert [asyncio.run(used(store, user_id, n)) for n in range(3)] == [1, 2, 3]
    asyncio.run(store.aclose())
    gc.collect()
    with pytest.raises(ClosedError):
        asyncio.run(store.list())


@pytest.mark.parametrize("backend", ["memory", "sqlite", *SERVERS])
def test_a_store_outlives_its_loop(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """What was connected in a loop that has ended is connected anew in the next."""
    one_after_the_other(holdall.open(url_of(backend, request, tmp_path)))


@pytest.mark.mongodb
def test_a_store_in_mongodb_outlives_its_loop(mongodb_server: Mongo) -> None:
    one_after_the_other(holdall.open(mongodb_server.url))


@pytest.mark.dynamodb
def test_a_store_in_dynamodb_outlives_its_loop(aws_server: Aws) -> None:
    options = {"auto_create": True, "connect": aws_server.connect}
    one_after_the_other(holdall.open(f"dynamodb://t-{uuid4().hex}", **options))


@pytest.mark.postgres
async def test_two_loops_at_once_need_a_store_each(postgres_server: Postgres) -> None:
    """A connection cannot serve two loops: the second is told, and the first goes on."""
    async with holdall.open(postgres_server.url) as store:
        user_id = f"u-{uuid4().hex}"
        assert await used(store, user_id, 0) == 1
        with pytest.raises(OtherLoopError, match="one in each"):
            await asyncio.to_thread(lambda: asyncio.run(used(store, user_id, 1)))
        assert await used(store, user_id, 2) == 2


@pytest.mark.postgres
async def test_a_store_that_is_closed_while_it_connects_leaves_nothing_open(postgres_server: Postgres) -> None:
    """Whoever closes it finds no pool yet: the one who makes it closes it."""
    for turns in (1, 3, 10, 30):
        store = holdall.open(postgres_server.url)
        loading = asyncio.ensure_future(store.list())
        for _ in range(turns):
            await asyncio.sleep(0)
        await store.aclose()
        with pytest.raises(ClosedError):
            await loading
