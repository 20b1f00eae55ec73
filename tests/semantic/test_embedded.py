"""The embedded memory keeps every claim, and its file is shared, killed and grown without a search that is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdall
from holdall.errors import ArgumentError, DecodeError, NewerStateError, StoreUnavailableError, UnknownNameError
from holdall.semantic import Document, EmbeddedMemory, embedded_file
from holdall.testing import SemanticConformance


class TestEmbeddedMemory(SemanticConformance):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "memory.db"

    async def make_memory(self, **options: Any) -> EmbeddedMemory:
        return EmbeddedMemory(self.path, **options)


DIMS = 3
names = st.sampled_from("abcdef")
documents = st.builds(
    Document,
    names,
    st.sampled_from(["", "rent", "rents in Lisbon", "the sea", "Lisbon"]),
    st.none() | st.lists(st.integers(-3, 3).map(float), min_size=DIMS, max_size=DIMS).filter(any),
    st.fixed_dictionaries({}, optional={"n": st.integers(0, 2), "b": st.booleans()}),
    st.none() | st.sampled_from("uv"),
)
operations = st.one_of(
    st.tuples(st.just("upsert"), st.lists(documents, max_size=4)),
    st.tuples(st.just("delete"), st.lists(names, max_size=3)),
    st.tuples(st.just("delete_user"), st.sampled_from("uv")),
    st.tuples(st.just("search"), st.just(None)),
)


@given(st.lists(operations, max_size=12))
def test_it_finds_what_a_dict_would(steps: list[tuple[str, Any]]) -> None:
    """Whatever was put and deleted before: the nearest by their cosines, and all that a filter means."""

    async def run() -> None:
        model: dict[str, Document] = {}
        async with EmbeddedMemory() as memory:
            for step, of in [*steps, ("search", None)]:
                if step == "upsert":
                    await memory.upsert(of)
                    model.update((one.id, one) for one in of)
                elif step == "delete":
                    await memory.delete(of)
                    model = {name: one for name, one in model.items() if name not in of}
                elif step == "delete_user":
                    await memory.delete_user(of)
                    model = {name: one for name, one in model.items() if one.user_id != of}
                else:
                    await compare(memory, model)

    asyncio.run(run())


async def compare(memory: EmbeddedMemory, model: dict[str, Document]) -> None:
    """The model's answers, by the definition of each."""
    query = np.array([1.0, 2.0, -1.0])
    cosines = {
        name: float(query @ one.vector / np.linalg.norm(query) / np.linalg.norm(one.vector))
        for name, one in model.items()
        if one.vector is not None
    }
    hits = await memory.search(vector=query)
    assert {hit.id: pytest.approx(hit.score, abs=1e-6) for hit in hits} == cosines
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.id for hit in await memory.search("renting in Lisbon")} == {
        name for name, one in model.items() if "rent" in one.text or "Lisbon" in one.text
    }
    meant = {name for name, one in model.items() if one.metadata.get("n") in (1, 2) and one.user_id == "u"}
    found = await memory.search(vector=query, filter={"n": {"gte": 1}}, user_id="u")
    assert {hit.id for hit in found} == meant & cosines.keys()
    assert await memory.count() == len(model)


WRITER = """
import asyncio, sys
from holdall.semantic import Document, EmbeddedMemory

async def main(path, name):
    memory = EmbeddedMemory(path)
    for n in range(10_000):
        await memory.upsert([Document(f"{name}-{n}", f"said by {name}", [1.0, float(n)]), Document(name, str(n))])
        print(n, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def started(path: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True)


async def test_writers_that_are_killed_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """Two processes write one file while a third searches it, and are killed in the middle."""
    path = tmp_path / "memory.db"
    async with EmbeddedMemory(path) as memory:
        await memory.upsert([Document("ours", "said here", [1.0, 0.0])])
        writers = {name: started(path, name) for name in ("ann", "bob")}
        for writer in writers.values():
            for _ in range(15):
                await asyncio.to_thread(writer.stdout.readline)  # type: ignore[union-attr]
            assert len(await memory.search(vector=[1.0, 1.0], k=10_000)) >= 16
        acknowledged = {}
        for name, writer in writers.items():
            writer.send_signal(signal.SIGKILL)
            said = writer.communicate()[0].split()
            acknowledged[name] = 15 + len(said)
        for name, n in acknowledged.items():
            assert writers[name].returncode == -signal.SIGKILL
            found = await memory.get([f"{name}-{i}" for i in range(n)])
            assert len(found) == n
            (last,) = await memory.get([name])
            assert int(last.text) >= n - 1
        by_words = await memory.search("ann", k=10_000)
        assert len(by_words) >= acknowledged["ann"]


async def test_a_reader_that_missed_too_many_deletes_reads_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_file, "_MOST_GONE", 3)
    path = tmp_path / "memory.db"
    async with EmbeddedMemory(path) as memory, EmbeddedMemory(path) as other:
        await memory.upsert(Document(str(n), "word", [1.0, n]) for n in range(20))
        assert len(await other.search("word", k=100)) == 20
        for n in range(12):
            await memory.delete([str(n)])
        with contextlib.closing(sqlite3.connect(path)) as db:
            assert db.execute("SELECT count(*) FROM gone").fetchone()[0] <= 4
        assert sorted(int(hit.id) for hit in await other.search("word", k=100)) == list(range(12, 20))
        assert sorted(int(hit.id) for hit in await other.search(vector=[1.0, 1.0], k=100)) == list(range(12, 20))


async def test_the_metric_is_the_readers_choice(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with EmbeddedMemory(path, metric="dot") as memory:
        await memory.upsert([Document("long", "", [3.0, 3.0]), Document("near", "", [1.0, 0.1])])
        hits = await memory.search(vector=[1.0, 0.0])
        assert (hits[0].id, hits[0].score) == ("long", 3.0)
    async with EmbeddedMemory(path) as memory:
        assert (await memory.search(vector=[1.0, 0.0]))[0].id == "near"


async def test_an_emptied_namespace_takes_vectors_of_another_length() -> None:
    async with EmbeddedMemory() as memory:
        await memory.upsert([Document("a", "kept", [1.0, 2.0]), Document("b", "kept")])
        await memory.delete(["a"])
        await memory.upsert([Document("c", "", [1.0, 2.0, 3.0])])
        assert [hit.id for hit in await memory.search(vector=[1.0, 0.0, 0.0])] == ["c"]


async def test_the_vectors_may_be_of_numpy() -> None:
    rows = np.eye(4, dtype=np.float32)

    def embed(texts: list[str]) -> np.ndarray[Any, Any]:
        return np.stack([rows[len(text)] for text in texts])

    async with EmbeddedMemory(embedder=embed) as memory:
        await memory.upsert([Document("x", "x"), Document("xx", "xx"), Document("v", vector=np.eye(4)[3])])
        assert (await memory.search("yy", mode="vector"))[0].id == "xx"
        assert (await memory.search(vector=rows[3]))[0].id == "v"


async def test_other_files_are_refused(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions.db"
    async with holdall.open(f"sqlite:///{sessions}") as store:
        await store.save(holdall.SessionState(session_id="s", user_id="u"))
    newer = tmp_path / "newer.db"
    async with EmbeddedMemory(newer) as memory:
        await memory.upsert([Document("a", "x")])
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    (tmp_path / "text.db").write_text("not a database, but long enough to be read as one" * 20)
    cases: list[tuple[Path, type[Exception]]] = [
        (sessions, ArgumentError),
        (newer, NewerStateError),
        (tmp_path / "text.db", StoreUnavailableError),
        (tmp_path / "absent" / "memory.db", StoreUnavailableError),
    ]
    for path, error in cases:
        async with EmbeddedMemory(path) as memory:
            with pytest.raises(error):
                await memory.upsert([Document("a", "x")])


def test_arguments_of_no_use_are_refused() -> None:
    with pytest.raises(UnknownNameError):
        EmbeddedMemory(metric="l2")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="path"):
        EmbeddedMemory(":memory:")
    with pytest.raises(ArgumentError, match="batch_size"):
        EmbeddedMemory(batch_size=0)
    with pytest.raises(ArgumentError, match="embedder"):
        EmbeddedMemory(embedder="minilm")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE documents SET vector = x'0102' WHERE id = 'b'", "its vector is no row"),
        ("UPDATE documents SET metadata = '{bad' WHERE id = 'b'", "its metadata is no JSON"),
        ("UPDATE documents SET metadata = '[1]' WHERE id = 'b'", "its metadata is no object"),
    ],
)
async def test_a_damaged_row_is_named(tmp_path: Path, damage: str, said: str) -> None:
    path = tmp_path / "memory.db"
    async with EmbeddedMemory(path) as memory:
        await memory.upsert([Document(name, "alpha", [1.0, 2.0], {"k": 1}) for name in "abc"])
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(damage)
    async with EmbeddedMemory(path) as memory:
        for _ in range(2):
            with pytest.raises(DecodeError, match=f"row 2 of `documents`: {said}"):
                await memory.search("alpha")
        with pytest.raises(DecodeError, match=said):
            await memory.get(["b"])
        await memory.delete(["b"])
        assert {hit.id for hit in await memory.search("alpha")} == {"a", "c"}


async def test_an_embedder_that_gives_no_vectors_is_named() -> None:
    async with EmbeddedMemory(embedder=lambda texts: None) as memory:  # type: ignore[arg-type, return-value]
        with pytest.raises(ArgumentError, match="the embedder gave NoneType for 1 texts"):
            await memory.upsert([Document("a", "x")])


@pytest.mark.parametrize("bound", [10**400, -(2**53) - 1, math.inf, -math.inf, math.nan, True, "1"])
async def test_a_range_takes_what_every_backend_can_compare_with(bound: Any) -> None:
    async with EmbeddedMemory() as memory:
        with pytest.raises(ArgumentError, match="a range takes finite numbers"):
            await memory.search("x", filter={"n": {"lt": bound}})
