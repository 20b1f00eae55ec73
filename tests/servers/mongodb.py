"""SecantusDB, an emulator of MongoDB, as a process of its own: for tests only, nothing of it is imported."""

from __future__ import annotations

import importlib.util
import sys

from tests.servers.process import HOST, Folder, Server, free_port, lacking


class Mongo:
    """A replica set of one node, its data in a folder that goes with it."""

    def __init__(self) -> None:
        if importlib.util.find_spec("secantus") is None:
            lacking("SecantusDB", "pip install 'holdall[test]'")
        self.folder = Folder("mongodb", None, in_memory=True)
        self.port = free_port()
        command = [sys.executable, "-m", "secantus", "--host", HOST, "--port", str(self.port)]
        self.server = Server(
            [*command, "--storage-path", str(self.folder.path / "data"), "--log-level", "ERROR"],
            folder=self.folder.path,
            port=self.port,
        )
        self.server.start()

    @property
    def url(self) -> str:
        return f"mongodb://{HOST}:{self.port}/holdall"

    def start(self) -> None:
        self.server.start()

    def kill(self) -> None:
        self.server.kill()

    def stop(self) -> None:
        self.server.kill()
        self.folder.remove()
