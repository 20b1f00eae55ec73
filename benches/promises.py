"""What was promised of speed and quality, and which rows of which bench say whether it is kept, in one order."""

from __future__ import annotations

import re
from typing import NamedTuple


class Promise(NamedTuple):
    """One promise: its rows are those of `bench` whose `what` matches. What is to be run `first`, where there are none without."""

    title: str
    bench: str
    pattern: str
    first: str = ""

    def covers(self, bench: str, what: str) -> bool:
        """Whether a row belongs to it."""
        return bench == self.bench and re.search(self.pattern, what) is not None


PROMISES = (
    Promise("count: 200-char messages, prose, code; one thread", "tokens", r"^count (200-char|prose|code).* tiktoken$"),
    Promise("count on all cores", "tokens", r"on all cores|on 2 threads"),
    Promise("count, worst cases", "tokens", r"^count 1 MB of "),
    Promise("re-pack of 300 unchanged messages", "pack", r"^re-pack of 300 .* that fit"),
    Promise("pack 1,000 items, counts known", "pack", r"^pack 1,000 items "),
    Promise("session of 500 messages, 208 packs", "pack", r"^session of 500 .* with tiktoken$|^the same in seconds"),
    Promise("shorten 532 tools to 8k", "tools", r"^532 tools to "),
    Promise("msgpack of a session state", "codec", r" against msgspec, dicts$"),
    Promise("checkpoint of a step against the raw floor, flat", "state", r": checkpoint at step "),
    Promise("stored bytes after 500 steps", "state", r": stored after "),
    Promise("a session read again", "state", r": load [\d,]+ messages"),
    Promise("32 sessions at once through one store", "sessions", r"."),
    Promise("update of one key by 8 processes", "state", r": 8 processes update one key"),
    Promise("evidence recall, no model", "recall", r"^evidence recall, .*\)$"),
    Promise(
        "evidence recall, embedder given",
        "recall",
        r", MiniLM given$",
        first="python -m benches.embeddings, which takes a quarter of an hour",
    ),
    Promise("tool recall", "tools", r"^tool recall "),
    Promise("input dollars of `stable`", "stable", r"^input dollars of stable"),
    Promise("evidence in the window of `stable`", "stable", r"^evidence in the window of stable"),
    Promise("input dollars of `stable` in talks, its quotes with it", "stable", r"^where turns ask for quotes: "),
    Promise("validity and fill", "valid", r"."),
    Promise("start, size, no server", "start", r"."),
)
