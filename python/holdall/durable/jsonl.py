"""A session as lines of JSON, to move it, to keep it, or to read it with other tools.

The first line is the head; each further one is an entry of the log, with its kind. What JSON lacks is tagged, so that a session
comes back equal. A thread is written with all messages that it sees, so that the lines stand alone.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Final

from holdall.durable.ancestry import Ancestry
from holdall.errors import DecodeError
from holdall.state import SessionState, StateSerializer
from holdall.state.log import MESSAGE, STEP_RESULT
from holdall.state.thread import THREAD, thread_link

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore

# A line of more bytes is refused before it is parsed: far above what any store takes as one entry.
MAX_LINE_BYTES: Final = 256 << 20


async def export_session(store: SessionStore, session_id: str) -> AsyncIterator[str]:
    """Yield the lines of a session, each with its line end.

    Raises:
        NotFoundError: There is no such session.
        MissingParentError: It is a thread, and what it took over is gone.
    """
    state = await store.load(session_id)
    if thread_link(state) is not None:
        # of one reading: messages of another version than the results would be of no session that there ever was
        ancestry = await Ancestry.read(store, session_id)
        state, messages = store.restore(ancestry.records[0]), ancestry.messages()
        results = dict(state.step_results)
        state.metadata.pop(THREAD, None)
        state.step_results.clear()
        state.messages = messages
        state.step_results = results
    serializer = StateSerializer("json", log_format="json")
    yield serializer.head(state).decode() + "\n"
    for kind, value, _ in state.log.items:
        entry = serializer.entry(kind, value).decode()
        # Ours is the first key, so that people see at once what a line is.
        yield f'{{"kind":{json.dumps(kind)},{entry[1:]}\n'


def read_session(lines: Iterable[str | bytes]) -> SessionState:
    """Return the state that lines hold; it was never stored.

    Raises:
        DecodeError: They are not those of a session; the message names the line.
        NewerStateError: A newer holdall wrote them.
    """
    head: bytes | None = None
    entries: list[tuple[str, bytes]] = []
    for number, line in enumerate(lines, start=1):
        data = line.encode() if isinstance(line, str) else bytes(line)
        if not data.strip():
            continue
        if len(data) > MAX_LINE_BYTES:
            raise _bad(number, f"{len(data):,} bytes; at most {MAX_LINE_BYTES:,}")
        if head is None:
            head = data
            if head.strip()[:1] + head.strip()[-1:] == b"{}" and b'"_version"' not in head:
                raise _bad(number, "it names no schema version; `holdall sessions export` writes lines that do")
            continue
        try:
            kind = json.loads(data).get("kind")
        except (ValueError, AttributeError, RecursionError) as error:
            raise _bad(number, str(error) or "nested too deep") from None
        if kind not in (MESSAGE, STEP_RESULT):
            raise _bad(number, f"its kind is {kind!r}; known are {MESSAGE!r} and {STEP_RESULT!r}")
        entries.append((kind, data))
    if head is None:
        raise _bad(1, "there is no line")
    state = StateSerializer("json", log_format="json").restore(head, entries)
    state.load_log(state.log.items, stored=False)
    return state


async def import_session(
    store: SessionStore,
    lines: Iterable[str | bytes],
    *,
    session_id: str | None = None,
    user_id: str | None = None,
) -> SessionState:
    """Store the session that lines hold, and return it.

    Args:
        store: Where.
        lines: What `export_session` gave, or a file of it.
        session_id: Another id than the one in the lines.
        user_id: Another user than the one in the lines.

    Raises:
        ConflictError: There is a session of that id.
        DecodeError: The lines are not those of a session.
        NewerStateError: A newer holdall wrote them.
    """
    state = read_session(lines)
    state.session_id = session_id if session_id is not None else state.session_id
    state.user_id = user_id if user_id is not None else state.user_id
    await store.save(state)
    return state


def _bad(number: int, reason: str) -> DecodeError:
    return DecodeError(f"line {number} is not of a session: {reason}", offset=number - 1, reason=reason)
