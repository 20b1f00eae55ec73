"""What URLs of servers say, and that one which cannot be read is a typed error before or at the first call."""

from __future__ import annotations

import contextlib
import time

import pytest

import holdall
from holdall.errors import ArgumentError, StoreUnavailableError
from holdall.stores.redis import RedisStore
from holdall.stores.redis_lock import RedisLock
from holdall.stores.redis_urls import RedisUrl, read, read_sentinel
from tests.servers.postgres import Postgres
from tests.servers.redis import Node


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("redis://u:p@h:1/2", RedisUrl("", "redis://u:p@h:1/2")),
        ("REDISS://h", RedisUrl("", "rediss://h")),
        ("valkey://h/0?db=3", RedisUrl("", "redis://h/0?db=3")),
        ("valkeys://h", RedisUrl("", "rediss://h")),
        ("unix:///run/valkey.sock?db=1", RedisUrl("", "unix:///run/valkey.sock?db=1")),
        ("valkeys+cluster://h:1", RedisUrl("cluster", "rediss://h:1")),
        ("redis+sentinel://a,b/main/3", RedisUrl("sentinel", "redis://a,b/main/3")),
    ],
)
def test_a_redis_url_names_a_kind_of_servers(url: str, named: RedisUrl):
    assert read(url) == named
    assert holdall.open(url).store.backend == "redis"


def test_a_sentinel_url_says_how_to_reach_both():
    """Ports are those of Sentinels where none is given; what says how to connect is of the Sentinels too."""
    said = read_sentinel(
        "redis://ann:p%40@a,[::1],[::2]:7/main/3?sentinel_password=q&socket_timeout=2.5&ssl_ca_certs=ca.pem&client_name=w"
    )
    assert said.addresses == [("a", 26379), ("::1", 26379), ("::2", 7)]
    assert said.service == "main"
    way = {"socket_timeout": 2.5, "ssl_ca_certs": "ca.pem"}
    assert said.server == {"db": 3, "username": "ann", "password": "p@", "client_name": "w", **way}
    assert said.own == {"password": "q", **way}


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1/mine",
        "redis://127.0.0.1:1/0?db=x",
        "redis://127.0.0.1:1?no_such_field=1",
        "redis://127.0.0.1:1?socket_timeout=soon",
        "rediss://127.0.0.1:1?ssl_cert_reqs=sometimes",
        "redis+cluster://127.0.0.1:1/2",
        "redis+cluster://127.0.0.1:1?no_such_field=1",
        "redis+sentinel://127.0.0.1:1/main/x",
        "redis+sentinel://127.0.0.1:1/main?no_such_field=1",
        "redis+sentinel://127.0.0.1:1/main?sentinel_no_such_field=1",
        "redis+nothing://127.0.0.1:1",
        "unix+cluster:///run/valkey.sock",
        "http://127.0.0.1:1",
    ],
)
async def test_a_redis_url_that_cannot_be_read_is_met_by_the_first_call(url: str):
    """And not by an error of the driver's, nor by a database that nobody named."""
    for made in (RedisStore(url), RedisLock(url)):
        with pytest.raises(ArgumentError):
            await (made.read("k") if isinstance(made, RedisStore) else made.release("k", "t"))
        await made.aclose()


@pytest.mark.parametrize("url", ["unix://", "unix:///", "unix://h", "redis://h:65536", "postgresql://a,b:99999/d"])
def test_a_url_without_a_socket_or_with_no_such_port_is_refused(url: str):
    with pytest.raises(ArgumentError):
        holdall.open(url)


@pytest.mark.parametrize("field", ["sslmode=sometimes", "target_session_attrs=some"])
async def test_a_postgres_url_that_the_driver_cannot_read(field: str):
    async with contextlib.aclosing(holdall.open(f"postgresql://u:s3cret@127.0.0.1:1/d?{field}")) as store:
        with pytest.raises(ArgumentError, match=field) as caught:
            await store.load("s")
    assert "s3cret" not in str(caught.value)


async def test_a_port_that_only_the_driver_sees():
    """A DSN that did not go through `holdall.open`."""
    from holdall.stores.postgres import PostgresStore

    async with contextlib.aclosing(PostgresStore("postgresql://u@127.0.0.1:70000/d")) as store:
        with pytest.raises(ArgumentError):
            await store.read("k")


async def test_a_mongodb_url_says_how_long_to_wait():
    """As a URL of Redis does; the store's own limit of 30 s is for what it does not say."""
    url = "mongodb://127.0.0.1:1/d?serverselectiontimeoutms=50&connectTimeoutMS=50"
    async with contextlib.aclosing(holdall.open(url)) as store:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            await store.load("s")
    assert time.monotonic() - began < 20


async def test_urls_of_other_names_reach_the_server(valkey_server: Node, postgres_server: Postgres, namespace: str):
    valkey, sqlalchemy = (
        valkey_server.url.replace("redis:", "valkey:"),
        postgres_server.url.replace("postgresql:", "postgresql+asyncpg:"),
    )
    for url in (valkey, sqlalchemy):
        async with holdall.open(url) as store:
            await store.save(holdall.SessionState(session_id=namespace, user_id="u"))
            assert (await store.load(namespace)).version == 1
            assert await store.delete(namespace)
    assert valkey.startswith("valkey:")
    assert sqlalchemy.startswith("postgresql+")


@pytest.mark.parametrize("url", ["s3://bucket", "dynamodb://table"])
@pytest.mark.parametrize("wrong", [{"endpoint_url": "nonsense"}, {"no_such_option": 1}, {"endpoint_url": 7}])
async def test_what_the_client_of_aws_cannot_connect_with(url: str, wrong: dict[str, object]):
    async with contextlib.aclosing(holdall.open(f"{url}?region=eu-west-1", connect=wrong)) as store:
        with pytest.raises(ArgumentError, match=r"cannot connect|connect="):
            await store.load("s")
