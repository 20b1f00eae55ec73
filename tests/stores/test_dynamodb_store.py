"""The DynamoDB store keeps every claim, on an emulator (moto, one request at a time): no package brings a real server."""

from __future__ import annotations

import secrets

import pytest

from holdall.stores.base import Store
from holdall.stores.dynamodb import DynamoStore
from holdall.testing import StoreConformance
from holdall.testing.claims.keys import HOSTILE
from tests.conftest import PROFILE
from tests.servers.aws import Aws


@pytest.mark.dynamodb
class TestDynamoStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0
    # moto and its client take 5 ms of processor time per request: three pages of 100, where others have three of 500
    many = 250
    if PROFILE != "full":
        hostile, writes = HOSTILE[::3], 6

    @pytest.fixture(autouse=True)
    def _server(self, aws_server: Aws) -> None:
        self.server = aws_server
        # of its own: moto looks at every item of a table for every query
        self.table = f"conformance-{secrets.token_hex(4)}"
        self.time = 1_700_000_000.0

    async def make_store(self) -> Store:
        return DynamoStore(self.table, connect=self.server.connect, now=lambda: self.time)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        self.time += seconds
