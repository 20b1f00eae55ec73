"""holdall: the memory of LLM agents. Pack a context window exactly, keep session state without losing a write."""

from __future__ import annotations

from holdall._native import PRIORITY_WEIGHTS, Recency, Tokenizer, __version__

__all__ = ["PRIORITY_WEIGHTS", "Recency", "Tokenizer", "__version__"]
