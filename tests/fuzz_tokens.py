"""Fuzz count and cut against tiktoken by hand, in chunks, each from a seed that is printed.

    python -m tests.fuzz_tokens [executions per encoding and kind, default 1,000,000] [first seed, default 1]

A text is a handful of atoms of `test_tokens.ATOMS` (seams, Unicode classes, contractions, special tokens), or now and then six times
as many, often of few kinds, with now and then a long run. `count` must be tiktoken's; `cut` must be the longest prefix that tiktoken
counts within the limit, found by trying every prefix. One in 2,000 counts is of a text long enough for all cores, with what is hard
on seams where the stretches of a long piece begin. Stops at the first difference and shows the text.
"""

from __future__ import annotations

import gzip
import importlib.util
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import tiktoken

from holdall import Tokenizer
from tests.conftest import VOCABULARIES
from tests.test_tokens import ATOMS, NAMES, longest_prefix

CHUNK = 50_000
# Bytes of the stretches of one long piece (rust/tokens/spread.rs).
STRETCH = 15 << 10
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def load(name: str) -> tiktoken.Encoding:
    """tiktoken's own encoding, from the vocabulary in the wheel bpe-openai."""
    wheel = importlib.util.find_spec("bpe_openai")
    assert wheel is not None
    assert wheel.submodule_search_locations is not None
    data = Path(wheel.submodule_search_locations[0]) / "data"
    with tempfile.TemporaryDirectory() as cache:
        Path(cache, VOCABULARIES[name]).write_bytes(gzip.decompress((data / f"{name}.tiktoken.gz").read_bytes()))
        os.environ["TIKTOKEN_CACHE_DIR"] = cache
        return tiktoken.get_encoding(name)


def text_from(rng: random.Random, atoms: int) -> str:
    draw = rng.random()
    # Some are longer than what is read at once, and of few kinds.
    kinds = rng.sample(ATOMS, rng.randint(2, 12)) if draw < 0.4 else ATOMS
    most = atoms * 6 if draw > 0.85 or draw < 0.1 else atoms
    parts = [rng.choice(kinds) for _ in range(rng.randint(1, most))]
    draw = rng.random()
    if draw < 0.1:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(ATOMS) * rng.randint(2, 40))
    elif draw < 0.2:
        parts.append(chr(rng.randrange(0x110000)))
    elif draw < 0.3:
        parts.append("".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 90))))
    return "".join(parts)


def long_text_from(rng: random.Random) -> str:
    """A text of 140 to 260 KB that is hard to merge, as one piece, as words or as both, with atoms and runs at the seams."""
    alphabet = rng.choice(
        [
            LETTERS,
            LETTERS,
            LETTERS[:4],
            LETTERS + "ABC'12",
            LETTERS + "é\u0301中文字あ",
            "的一是不了人我在有他这为之大来以个中上们",
        ]
    )
    every = rng.choice([0, 0, 3, 12, 200, 5_000])
    parts, size, seam = [], 0, STRETCH
    while size < rng.randint(140_000, 260_000):
        word = "".join(
            rng.choices(alphabet, k=rng.randint(1, 2 * every) if every else max(1, seam - size - rng.randint(0, 40)))
        )
        parts += [word, " "] if every else [word]
        size += len("".join(parts[-2:] if every else parts[-1:]).encode())
        if size > seam - 60 or rng.random() < 0.01:
            at_seam = rng.choice(ATOMS) * rng.choice([1, 1, 3, 40, 400]) if rng.random() < 0.7 else text_from(rng, 10)
            parts.append(at_seam)
            size += len(at_seam.encode("utf-8", "surrogatepass"))
            seam = (size // STRETCH + 1) * STRETCH
    return "".join(parts)


def fuzz(name: str, most: int, seed: int) -> None:
    ours, theirs = Tokenizer(name), load(name)

    def expected(text: str) -> int:
        return len(theirs.encode_ordinary(text))

    for kind, executions in (("count", most), ("count of long texts", most // 2_000), ("cut", most)):
        started, done = time.perf_counter(), 0
        while done < executions:
            rng = random.Random(f"{name} {kind} {seed} {done}")
            for _ in range(min(CHUNK, executions - done)):
                if kind != "cut":
                    text = text_from(rng, 14) if kind == "count" else long_text_from(rng)
                    found, right = ours.count(text), expected(text)
                    assert found == right, f"{name} count {text!r}: {found}, not {right} (seed {seed}, chunk {done})"
                else:
                    text = text_from(rng, 6)[: 100 if rng.random() < 0.1 else 40]
                    limit = rng.randint(0, 8)
                    cut, whole = ours.cut(text, limit), longest_prefix(expected, text, limit)
                    assert cut == whole, (
                        f"{name} cut {text!r} at {limit}: {cut!r}, not {whole!r} (seed {seed}, chunk {done})"
                    )
            done += min(CHUNK, executions - done)
        print(f"{name} {kind}: {done} equal, seed {seed}, {time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    for encoding in NAMES:
        fuzz(
            encoding, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1
        )
