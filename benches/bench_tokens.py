"""Counting tokens against tiktoken and bpe-openai, on the texts that every Python brings: its manual and its library.

Counts are asserted equal before anything is timed. A tokenizer's memory of counts is cleared before each timing, except
where the memory is what is timed.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import pydoc_data.topics
import random
import string
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bpe_openai
import tiktoken

from benches.figures import Median, quartiles
from holdall import Tokenizer

MODULES = ("argparse", "inspect", "typing", "tarfile", "subprocess", "threading", "ast", "pickle")
FILES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
}
GOALS = {"200-char messages": (5, 9), "prose": (8, 16), "code": (8, 20)}


def load(name: str) -> tiktoken.Encoding:
    """tiktoken's encoding, offline: its vocabulary is in the wheel bpe-openai."""
    wheel = importlib.util.find_spec("bpe_openai")
    data = Path(wheel.submodule_search_locations[0]) / "data"
    with tempfile.TemporaryDirectory() as cache:
        Path(cache, FILES[name]).write_bytes(gzip.decompress((data / f"{name}.tiktoken.gz").read_bytes()))
        os.environ["TIKTOKEN_CACHE_DIR"] = cache
        return tiktoken.get_encoding(name)


def texts() -> dict[str, list[str]]:
    """What is counted, by kind."""
    prose = "\n\n".join(pydoc_data.topics.topics.values())
    folder = Path(sysconfig.get_paths()["stdlib"])
    code = "\n".join((folder / f"{module}.py").read_text(encoding="utf-8") for module in MODULES)
    both = prose[:400_000] + code[:400_000]
    messages = [both[at : at + 200] for at in range(0, len(both), 200)]
    return {"200-char messages": messages, "prose": [prose], "code": [code]}


def in_turn(
    works: list[Callable[[], Any]],
    rounds: int = 7,
    before: Callable[[], Any] = lambda: None,
    clock: Callable[[], float] = time.thread_time,
) -> list[Median]:
    """Seconds of each work, the works taking turns: of each round the quickest of three, since the first finds the caches full of
    what the other has left there. By default of this thread's own processor time.
    """
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, kept in zip(works, samples, strict=True):
            best = float("inf")
            for _ in range(3):
                before()
                start = clock()
                work()
                best = min(best, clock() - start)
            kept.append(best)
    return [Median(kept) for kept in samples]


def speed(name: str) -> Iterator[dict[str, Any]]:
    """One thread, nothing remembered."""
    ours, theirs, other = Tokenizer(name), load(name), bpe_openai.get_encoding(name)
    for kind, parts in texts().items():
        expected = [len(theirs.encode_ordinary(part)) for part in parts]
        assert [ours.count(part) for part in parts] == expected
        assert [len(other.encode_ordinary(part)) for part in parts] == expected
        seconds = in_turn(
            [
                lambda parts=parts: [ours.count(part) for part in parts],
                lambda parts=parts: [len(theirs.encode_ordinary(part)) for part in parts],
                lambda parts=parts: [len(other.encode_ordinary(part)) for part in parts],
            ],
            before=ours.cache_clear,
        )
        must, aim = GOALS[kind]
        row = {"ours": seconds[0], "must": must, "aim": aim}
        yield row | {"what": f"count {kind}, {name}, tiktoken", "peer": seconds[1], "ratio": seconds[1] / seconds[0]}
        row |= {"must": None, "aim": None}
        yield row | {"what": f"count {kind}, {name}, bpe-openai", "peer": seconds[2], "ratio": seconds[2] / seconds[0]}


def worst(name: str) -> Iterator[dict[str, Any]]:
    """A megabyte that a pattern or a merge loop may choke on: until the count is there, on all cores, and what all of them spend on it."""
    tok, theirs, rng = Tokenizer(name), load(name), random.Random(1)
    cases = {
        "spaces": " " * 10**6,
        "'a'": "a" * 10**6,
        "'_'": "_" * 10**6,
        "random letters": "".join(rng.choices(string.ascii_lowercase, k=10**6)),
        "random letters and digits": "".join(rng.choices(string.ascii_letters + string.digits, k=10**6)),
        "prose without its spaces": "".join(filter(str.isalpha, texts()["prose"][0] * 4))[: 10**6],
    }
    for what, text in cases.items():
        # The regular expressions of tiktoken choke on some of what is one piece.
        pieces = [text] if len(set(text)) < 27 else []
        expected = [theirs._encode_single_piece(piece) for piece in pieces] or [theirs.encode_ordinary(text)]
        assert tok.count(text) == sum(map(len, expected))
        clocks = {"count": (time.perf_counter, 30), "processor time of the count of": (time.process_time, None)}
        for title, (clock, must) in clocks.items():
            (seconds,) = in_turn([lambda text=text: tok.count(text)], before=tok.cache_clear, clock=clock)
            rates = [one * 1e3 / (len(text.encode()) / 1e6) for one in seconds.samples]
            # No peer suffers from the same neighbours, so the quickest round is what the code takes.
            rate = min(rates)
            row = {
                "what": f"{title} 1 MB of {what}, {name}",
                "ours": rate,
                "peer": None,
                "ratio": rate,
                "unit": "ms/MB",
            }
            row["spread"] = quartiles(rates)
            yield row | {"must": must, "aim": None, "lower": True}


def many() -> Iterator[dict[str, Any]]:
    """Two threads against one: many texts in one call, and a call for each of two long texts in threads of the caller's.

    What shares nothing at all says how much of a second processor there was to be had.
    """
    tok, messages = Tokenizer("o200k_base"), texts()["200-char messages"] * 4
    # Texts that differ, so that none is remembered from another.
    messages = [f"{n} {message}" for n, message in enumerate(messages)]
    assert tok.count_many(messages) == [tok.count(message) for message in messages]
    halves = ["\n".join(messages[n::2]) for n in range(2)]
    buffers = [half.encode() * 3 for half in halves]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(tok.count, halves)) == [tok.count(half) for half in halves]
        one, all_cores, alone, both, alone_apart, apart = in_turn(
            [
                lambda: [tok.count(message) for message in messages],
                lambda: tok.count_many(messages),
                lambda: [tok.count(half) for half in halves],
                lambda: list(pool.map(tok.count, halves)),
                lambda: list(map(hashlib.blake2b, buffers)),
                lambda: list(pool.map(hashlib.blake2b, buffers)),
            ],
            rounds=9,
            before=tok.cache_clear,
            clock=time.perf_counter,
        )
    row = {"must": None, "aim": 1.8}
    what = "count_many of 16k messages on all cores, count on one"
    yield row | {"what": what, "ours": all_cores, "peer": one, "ratio": one / all_cores}
    what = "count 2 long texts on 2 threads, on one"
    yield row | {"what": what, "ours": both, "peer": alone, "ratio": alone / both}
    row = {"must": None, "aim": None}
    what = "hash 2 buffers on 2 threads, which shares nothing, on one"
    yield row | {"what": what, "ours": apart, "peer": alone_apart, "ratio": alone_apart / apart}


def again() -> Iterator[dict[str, Any]]:
    """A history of 300 messages that was counted before."""
    whole = "".join(part for parts in texts().values() for part in parts)
    messages = [whole[at : at + 1243] for at in range(0, 300 * 1243, 1243)]
    tok, theirs = Tokenizer("o200k_base"), load("o200k_base")
    assert tok.count_many(messages) == [len(theirs.encode_ordinary(message)) for message in messages]
    copies = [["".join(list(message)) for message in messages] for _ in range(15)]
    turn = iter(copies)
    # One recount takes microseconds: time twenty.
    twenty, peer = in_turn(
        [
            lambda: [tok.count_many(messages) for _ in range(20)],
            lambda: [len(theirs.encode_ordinary(message)) for message in messages],
        ]
    )
    same = Median(one / 20 for one in twenty.samples)
    fresh, _ = in_turn([lambda: tok.count_many(next(turn)), lambda: None], rounds=5)
    goals = {"peer": peer, "must": 200, "aim": 2000}
    yield goals | {"what": "recount 300 messages, the same strings, tiktoken", "ours": same, "ratio": peer / same}
    goals |= {"must": None, "aim": 200}
    yield goals | {"what": "recount 300 messages, equal new strings, tiktoken", "ours": fresh, "ratio": peer / fresh}


def rows() -> Iterator[dict[str, Any]]:
    """Every row of this bench."""
    for name in FILES:
        yield from speed(name)
        yield from worst(name)
    yield from many()
    yield from again()
