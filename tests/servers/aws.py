"""moto, an emulator of DynamoDB and S3, as a process of its own that answers one request at a time."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from tests.servers.process import HOST, Folder, Server, free_port, lacking

# Any words do: the emulator asks for credentials and checks none.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "emulated", "AWS_SECRET_ACCESS_KEY": "emulated", "AWS_DEFAULT_REGION": "us-east-1"}


class Aws:
    """Both services on one port; all is gone when it stops."""

    def __init__(self) -> None:
        if importlib.util.find_spec("moto") is None:
            lacking("moto", "pip install 'holdall[test]'")
        os.environ.update(CREDENTIALS)
        # one session: a second client costs a thirtieth of the first
        self.session = get_session()
        self.folder = Folder("aws", None)
        self.port = free_port()
        program = Path(__file__).with_name("aws_server.py")
        self.server = Server(
            [sys.executable, str(program), HOST, str(self.port)], folder=self.folder.path, port=self.port
        )
        self.server.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def connect(self) -> dict[str, str]:
        """What a store's `connect` takes to reach it."""
        return {"endpoint_url": self.url, "region_name": "us-east-1"}

    def client(self, service: str, *, retries: bool = True) -> Any:
        """A client of the test's own: `async with server.client("s3") as client`."""
        config = None if retries else AioConfig(retries={"total_max_attempts": 1})
        return self.session.create_client(service, config=config, **self.connect)

    async def make_bucket(self, name: str) -> None:
        async with self.client("s3") as client:
            await client.create_bucket(Bucket=name)

    def stop(self) -> None:
        self.server.kill()
        self.folder.remove()
