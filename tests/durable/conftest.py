from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import holdall
from holdall.durable.session_store import SessionStore


@pytest.fixture
async def store(any_url: str) -> AsyncIterator[SessionStore]:
    """A session store on each backend in turn."""
    async with holdall.open(any_url) as opened:
        yield opened


@pytest.fixture(params=["memory", "sqlite"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of each backend in turn."""
    if request.param == "memory":
        return "memory:"
    return f"sqlite:///{tmp_path}/sessions.db"
