"""A session with all threads below it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdall.durable.keys import session_id_of, session_key
from holdall.durable.sessions import NO_LOG, missing
from holdall.durable.snapshot import PARENT
from holdall.stores.base import Record

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore


@dataclass
class ThreadNode:
    """One session of a tree.

    Attributes:
        session_id: Its id.
        status: Its status.
        version: The number of its last write.
        entries: Messages and step results that it added itself.
        children: Its threads, in order of id.
    """

    session_id: str
    status: str
    version: int
    entries: int
    children: list[ThreadNode] = field(default_factory=list)

    def lines(self) -> list[tuple[str, ThreadNode]]:
        """Return each node with the branches to draw before it, this one first."""
        drawn: list[tuple[str, ThreadNode]] = []
        # Not recursive: a chain may be deeper than the interpreter's stack.
        todo: list[tuple[str, str, ThreadNode]] = [("", "", self)]
        while todo:
            branch, below, node = todo.pop()
            drawn.append((branch, node))
            last = len(node.children) - 1
            for n, child in reversed(list(enumerate(node.children))):
                joint, onward = ("└─ ", "   ") if n == last else ("├─ ", "│  ")
                todo.append((below + joint, below + onward, child))
        return drawn


async def tree_of(store: SessionStore, session_id: str) -> ThreadNode:
    """Return the tree below a session, level by level; a thread that vanishes meanwhile is left out."""
    record = await store.store.read(session_key(session_id), log_from=NO_LOG)
    if record is None:
        raise missing(session_id)
    root = _node(session_id, record)
    level, seen = [root], {session_id}
    while level:
        found = await asyncio.gather(*(_children(store, node.session_id) for node in level))
        below = []
        for node, children in zip(level, found, strict=True):
            # What names itself as its ancestor is shown once.
            node.children = [child for child in children if child.session_id not in seen]
            seen.update(child.session_id for child in node.children)
            below += node.children
        level = below
    return root


async def _children(store: SessionStore, session_id: str) -> list[ThreadNode]:
    nodes = []
    async for key in store.store.find(**{PARENT: session_id}):
        record = await store.store.read(key, log_from=NO_LOG)
        child = session_id_of(key)
        if record is not None and child is not None and record.tags.get(PARENT) == session_id:
            nodes.append(_node(child, record))
    return sorted(nodes, key=lambda node: node.session_id)


def _node(session_id: str, record: Record) -> ThreadNode:
    return ThreadNode(session_id, record.tags.get("status", ""), record.version.number, record.log_len)
