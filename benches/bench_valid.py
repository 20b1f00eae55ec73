"""Windows over all recorded conversations at 2k to 32k tokens: violations of what was promised of them, and how full they are.

The check is that of the tests (`tests/checker.py`), which recounts the request with tiktoken and shares no code with the packer.
By default it looks at three prefixes of each conversation, with `--full` at every one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches.bench_tokens import load
from benches.figures import is_full, quartiles
from tests.test_trajectories import BUDGETS, FILES, pack_all

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def rows() -> Iterator[dict[str, Any]]:
    """Violations and fill, by strategy."""
    data = SHARED / "data"
    if not data.is_dir():
        raise ImportError(f"no recorded conversations at {data}; set HOLDALL_SHARED to the folder that holds data/")
    encoding = load("o200k_base")
    for strategy in ("optimal", "greedy"):
        found = [pack_all(data, name, strategy, encoding, whole=is_full()) for name in FILES]
        packs, cut, overflows = (sum(figures[one] for figures, _ in found) for one in ("packs", "cut", "overflows"))
        n_faults = sum(len(faults) for _, faults in found)
        fills = [fill for figures, _ in found for fill in figures.fills]
        what = f"{strategy}: {packs:,} windows at {BUDGETS[0]:,} to {BUDGETS[-1]:,}"
        yield {
            "what": f"violations, {what}, {overflows} refused that no window could hold",
            "ours": n_faults,
            "peer": None,
            "unit": "",
            "ratio": n_faults,
            "must": 0,
            "aim": 0,
            "lower": True,
        }
        fill = sum(fills) / len(fills)
        yield {
            "what": f"fill of the budget, {what}, {cut:,} that had to cut",
            "ours": fill,
            "peer": None,
            "unit": "",
            "ratio": fill,
            "spread": quartiles(fills),
            "must": 0.95,
            "aim": 0.98,
        }
