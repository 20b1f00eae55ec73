"""The URL of each backend in turn: what the tests of sessions and of faults run on."""

from __future__ import annotations

from pathlib import Path

import pytest

SERVERS = [
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("redis", marks=pytest.mark.redis),
]


def url_of(backend: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of a backend, its server started if there is one."""
    if backend == "memory":
        return "memory:"
    if backend == "sqlite":
        return f"sqlite:///{folder}/sessions.db"
    fixture = {"postgres": "postgres_server", "redis": "valkey_server"}[backend]
    url: str = request.getfixturevalue(fixture).url
    return url


@pytest.fixture(params=["memory", "sqlite", *SERVERS])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every backend."""
    return url_of(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", *SERVERS])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Every backend that another process can reach."""
    return url_of(request.param, request, tmp_path)
