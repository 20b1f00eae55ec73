from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import holdall
from holdall.durable.session_store import SessionStore

from .backends import any_url

__all__ = ["any_url", "store"]


@pytest.fixture
async def store(any_url: str) -> AsyncIterator[SessionStore]:
    """A session store on each backend in turn."""
    async with holdall.open(any_url) as opened:
        yield opened
