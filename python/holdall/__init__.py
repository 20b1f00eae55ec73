"""holdall: the memory of LLM agents. Pack a context window exactly, keep session state without losing a write."""

from __future__ import annotations

from holdall._native import (
    PRIORITY_WEIGHTS,
    ContextItem,
    PackResult,
    Recency,
    Rendition,
    Tokenizer,
    __version__,
    count_messages,
)
from holdall.context.packer import ContextWindowPacker
from holdall.context.report import Dropped, Kept

__all__ = [
    "PRIORITY_WEIGHTS",
    "ContextItem",
    "ContextWindowPacker",
    "Dropped",
    "Kept",
    "PackResult",
    "Recency",
    "Rendition",
    "Tokenizer",
    "__version__",
    "count_messages",
]
