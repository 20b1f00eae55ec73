"""Exact search of vectors: native, through the embedded memory, and by peers, at 10,000 and 100,000 of 384 floats.

    python -m benches semantic

Each finds the 10 nearest by cosine; all must find the same. Peers: numpy (one product of matrix and vector, then a partial
sort), faiss-cpu's flat index and usearch's exact search, each with one thread, as a worker that serves many has for each
request. Figures are the least of rounds in turn.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported
import numpy as np

from holdall._native import MemoryIndex
from holdall.semantic import Document, EmbeddedMemory

DIMS, K, ROUNDS, TURNS = 384, 10, 40, 8
SIZES = (10_000, 100_000)

Array = np.ndarray[Any, Any]
Search = Callable[[Array], list[int]]


def drawn(n: int, seed: int) -> Array:
    """Vectors of norm 1 around 200 topics, as those of texts are."""
    draw = np.random.default_rng(seed)
    topics = draw.standard_normal((200, DIMS), dtype=np.float32)
    vectors = topics[draw.integers(0, 200, n)] + draw.standard_normal((n, DIMS), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ours(vectors: Array) -> Search:
    """The native index that `EmbeddedMemory` keeps."""
    index = MemoryIndex()
    index.add_many(range(len(vectors)), [row.tobytes() for row in vectors], [""] * len(vectors))
    return lambda query: [label for label, _ in index.nearest(query.tobytes(), K)]


def by_numpy(vectors: Array) -> Search:
    """Brute force."""

    def search(query: Array) -> list[int]:
        scores = vectors @ query
        best = np.argpartition(scores, -K)[-K:]
        return best[np.argsort(-scores[best])].tolist()

    return search


def by_faiss(vectors: Array) -> Search:
    """faiss's flat index of inner products."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(DIMS)
    index.add(vectors)
    return lambda query: index.search(query[None], K)[1][0].tolist()


def by_usearch(vectors: Array) -> Search:
    """usearch's exact search."""
    from usearch.index import MetricKind, search

    return lambda query: search(vectors, query, K, MetricKind.IP, exact=True, threads=1).keys.tolist()


def least(searches: dict[str, Search], queries: Array) -> dict[str, float]:
    """Seconds of each, in turn; all must find the same first."""
    found = {name: [search(query) for query in queries[:5]] for name, search in searches.items()}
    assert all(one == found["ours"] for one in found.values()), found
    taken = dict.fromkeys(searches, float("inf"))
    for turn in np.array_split(queries, TURNS):
        for name, search in searches.items():
            # several in a row: the first finds the caches full of the peer's rows
            for query in turn:
                start = time.perf_counter()
                search(query)
                taken[name] = min(taken[name], time.perf_counter() - start)
    return taken


async def through_memory(vectors: Array, queries: Array, folder: Path) -> dict[str, float]:
    """Seconds of one upsert of all, of opening the file again, and of a search."""
    documents = [Document(str(n), "", row) for n, row in enumerate(vectors)]
    taken = {}
    async with EmbeddedMemory(folder / f"{len(vectors)}.db") as memory:
        start = time.perf_counter()
        await memory.upsert(documents)
        taken["upsert"] = time.perf_counter() - start
    async with EmbeddedMemory(folder / f"{len(vectors)}.db") as memory:
        start = time.perf_counter()
        await memory.search(vector=queries[0], k=K)
        taken["open"] = time.perf_counter() - start
        times = []
        for query in queries:
            start = time.perf_counter()
            await memory.search(vector=query, k=K)
            times.append(time.perf_counter() - start)
        taken["search"] = min(times)
    return taken


def rows() -> Iterator[dict[str, Any]]:
    """Latencies."""
    peers = {"faiss-cpu, flat": by_faiss, "usearch, exact": by_usearch, "numpy": by_numpy}
    with tempfile.TemporaryDirectory() as folder:
        for n in SIZES:
            vectors, queries = drawn(n, 1), drawn(ROUNDS, 2)
            searches = {"ours": ours(vectors), **{name: make(vectors) for name, make in peers.items()}}
            taken = least(searches, queries)
            for name in peers:
                what = f"10 nearest of {n:,} vectors of {DIMS} floats, against {name}"
                yield row(what, taken["ours"], taken[name])
            whole = asyncio.run(through_memory(vectors, queries, Path(folder)))
            yield row(f"EmbeddedMemory.search of {n:,}, the whole call, against numpy", whole["search"], taken["numpy"])
            yield row(f"EmbeddedMemory: upsert of {n:,}, one call", whole["upsert"], None)
            yield row(f"EmbeddedMemory: open a file of {n:,} and search", whole["open"], None)


def row(what: str, seconds: float, peer: float | None) -> dict[str, Any]:
    """One line of the table."""
    ratio = None if peer is None else peer / seconds
    return {"what": what, "ours": seconds, "peer": peer, "ratio": ratio, "must": None, "aim": None}
