"""What it costs to begin: the import, the first count, the first session on the embedded store, and the size of the wheel.

Each is done in a process of its own, ours and the peer's in turn, and without the interpreter's own start. Importing and counting
wait for nothing, so their time is that of the processor; a session waits for the disk.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdall
from benches.figures import Median

ROUNDS = 9
CLOCK = "import time\n{before}\nstart = time.{clock}()\n{code}\nprint(time.{clock}() - start)"
IMPORT = "import holdall"
PEER = "import tiktoken"
COUNT = "assert holdall.Tokenizer('o200k_base').count('hello world') == 2"
SESSION = """
import asyncio
async def main():
    async with holdall.open({url!r}) as store:
        state = holdall.SessionState(session_id="s", user_id="u")
        state.messages.append({{"role": "user", "content": "hello"}})
        await store.save(state)
        assert (await store.load("s")).messages == state.messages
asyncio.run(main())
"""


def seconds(code: str, before: str = "", clock: str = "process_time") -> float:
    """What a fresh interpreter says that the code took, after what comes before."""
    command = [sys.executable, "-c", CLOCK.format(code=code, before=before, clock=clock)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def row(what: str, ours: Median, must: float | None, aim: float | None, peer: Median | None = None) -> dict[str, Any]:
    """Milliseconds, held against a mark in milliseconds."""
    return {
        "what": what,
        "ours": ours,
        "peer": peer,
        "unit": "ms",
        "ratio": ours,
        "must": must,
        "aim": aim,
        "lower": True,
    }


def wheel_bytes() -> int:
    """What the installed package takes in a wheel: each file deflated, as wheels are."""
    folder = Path(holdall.__file__).parent
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sum(len(zlib.compress(path.read_bytes(), 6)) for path in files)


def rows() -> Iterator[dict[str, Any]]:
    """Every row of this bench."""
    seconds(IMPORT)  # what was compiled is written
    ours, peer, count, session = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for n in range(ROUNDS):
            ours.append(1e3 * seconds(IMPORT))
            peer.append(1e3 * seconds(PEER))
            count.append(1e3 * seconds(COUNT, IMPORT))
            opened = SESSION.format(url=f"sqlite:///{folder}/{n}.db")
            session.append(1e3 * seconds(opened, IMPORT, "perf_counter"))
    yield row("import holdall (ms), beside import tiktoken", Median(ours), 60, 30, Median(peer))
    yield row("first count with o200k (ms)", Median(count), None, 50)
    yield row("open, save and load the first session on SQLite with fsync, no server (ms)", Median(session), None, None)
    size = wheel_bytes() / 1e6
    yield {
        "what": "the wheel's files, compressed (MB)",
        "ours": size,
        "peer": None,
        "unit": "MB",
        "ratio": size,
        "must": 15,
        "aim": 8,
        "lower": True,
    }
