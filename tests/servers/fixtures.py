"""Session-wide servers, each started when the first test asks for it. tests/conftest.py imports these."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.servers.aws import Aws
from tests.servers.mongodb import Mongo
from tests.servers.postgres import Pgbouncer, Postgres
from tests.servers.proxy import Proxy
from tests.servers.redis import Cluster, Node, Sentinels, redis_program, valkey_program


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """PostgreSQL 18."""
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def pgbouncer_server(postgres_server: Postgres) -> Iterator[Pgbouncer]:
    """pgbouncer in transaction mode, in front of `postgres_server`."""
    server = Pgbouncer(postgres_server)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def aws_server() -> Iterator[Aws]:
    """moto, an emulator of DynamoDB and S3."""
    server = Aws()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def mongodb_server() -> Iterator[Mongo]:
    """SecantusDB, an emulator of MongoDB."""
    server = Mongo()
    yield server
    server.stop()


@pytest.fixture
def namespace() -> str:
    """A namespace on a server that other tests use too."""
    return f"n{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Node]:
    """Valkey 9."""
    server = Node(valkey_program())
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis7_server() -> Iterator[Node]:
    """Redis 7, as Debian packages it."""
    server = Node(redis_program())
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cluster_server() -> Iterator[Cluster]:
    """Three masters."""
    server = Cluster(valkey_program())
    yield server
    server.stop()


@pytest.fixture(scope="session")
def sentinel_server() -> Iterator[Sentinels]:
    """A master, two replicas, three Sentinels."""
    server = Sentinels(valkey_program())
    yield server
    server.stop()


@pytest.fixture
async def proxy_to() -> AsyncIterator[Callable[[int], object]]:
    """Make proxies to ports: `proxy = await proxy_to(port)`; they are closed with the test."""
    proxies: list[Proxy] = []

    async def make(port: int) -> Proxy:
        proxy = await Proxy(port).__aenter__()
        proxies.append(proxy)
        return proxy

    yield make
    for proxy in proxies:
        await proxy.__aexit__(None, None, None)
