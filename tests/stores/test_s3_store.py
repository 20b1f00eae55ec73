"""The S3 store keeps every claim, on an emulator (moto, one request at a time): no package brings a real server."""

from __future__ import annotations

import secrets

import pytest

from holdall.stores.base import Store
from holdall.stores.s3 import S3Store
from holdall.testing import StoreConformance
from holdall.testing.claims.keys import HOSTILE
from tests.conftest import PROFILE
from tests.servers.aws import Aws


@pytest.mark.s3
class TestS3Store(StoreConformance):
    short_s = 60.0
    long_s = 6000.0
    # moto and its client take 5 ms of processor time per request
    if PROFILE != "full":
        hostile, writes, many = HOSTILE[::3], 6, 100

    @pytest.fixture(autouse=True)
    async def _server(self, aws_server: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = aws_server
        self.bucket = f"conformance-{secrets.token_hex(4)}"
        self.time = 1_700_000_000.0
        await aws_server.make_bucket(self.bucket)
        monkeypatch.setattr("holdall.stores.s3._PAGE", 40)

    async def make_store(self) -> Store:
        return S3Store(self.bucket, "a/b/", connect=self.server.connect, now=lambda: self.time)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        self.time += seconds
