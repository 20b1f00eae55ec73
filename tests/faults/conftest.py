from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.durable.backends import any_url, url

from .herd import Herd

__all__ = ["any_url", "herd", "session_id", "url"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("faults")


@pytest.fixture
def herd() -> Iterator[Herd]:
    """Workers that can be killed, all gone at the end of the test."""
    herd = Herd()
    yield herd
    herd.close()


@pytest.fixture
def session_id() -> str:
    """An id that no other test has, since tests share servers."""
    return f"s-{uuid4().hex}"
