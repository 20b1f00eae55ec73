"""What a cluster needs beside redis-py's client: connections of our kind from the first on, and several commands to one node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

from redis import exceptions
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode


def use_kind(client: RedisCluster, kind: Callable[[type[Any]], type[Any]]) -> None:
    """Have a client that is not connected yet make its connections of another class, `kind` of its own."""
    options: dict[str, Any] = client.connection_kwargs
    options["connection_class"] = kind(options["connection_class"])
    for node in client.nodes_manager.startup_nodes.values():
        node.connection_class = options["connection_class"]


async def send_all(
    client: RedisCluster, key: bytes, command: tuple[Any, ...], *more: tuple[Any, ...]
) -> tuple[Any, int]:
    """Send commands to the node that has a key, over one connection.

    Returns:
        The replies to the first and the last, 0 for the last if one after the first was refused.
    """
    await client.initialize()
    try:
        return await _send_to_node(client, key, command, *more)
    except exceptions.MovedError:
        # the slot is elsewhere now, and nothing was done; the client learns where from a plain call
        await client.execute_command("EXISTS", key)
        return await _send_to_node(client, key, command, *more)
    except (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.ClusterDownError):
        # as after a plain call: the next one asks first who has the slots now
        client._initialize = True  # noqa: SLF001
        raise


async def _send_to_node(
    client: RedisCluster, key: bytes, command: tuple[Any, ...], *more: tuple[Any, ...]
) -> tuple[Any, int]:
    node: ClusterNode = cast("ClusterNode", client.get_node_from_key(cast("str", key)))
    connection = node.acquire_connection()
    last: Any = 0
    try:
        await connection.send_packed_command(connection.pack_command(*command))
        reply = await node.parse_response(connection, "EVALSHA")
        with contextlib.suppress(exceptions.ResponseError):
            for one in more:
                last = 0
                await connection.send_packed_command(connection.pack_command(*one))
                last = await node.parse_response(connection, "WAIT")
    finally:
        # older redis-py has no method for it
        getattr(node, "release", node._free.append)(connection)  # noqa: SLF001
    return reply, int(last)
