"""Tool schemas in a budget: how long it takes, and whether the tool that is needed is still there.

532 tools (81k tokens) and 702 queries of BFCL's live set, recorded in data/tools. A shortened schema counts as kept only
if its name and its required parameters, with their types and enums, are whole.
"""

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benches.figures import Median
from holdall import Tokenizer, ToolSet, fit_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
RECALL = {1000: (0.89, 0.94), 2000: (0.94, 0.97), 4000: (0.96, 0.99)}
BUDGET = 8000


def load() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The pool of tools, and the queries with the tools that answer them."""
    folder = SHARED / "data" / "tools"
    if not folder.is_dir():
        raise ImportError(f"no recorded tools at {folder}; set HOLDALL_SHARED to the folder that holds data/")
    pool = json.loads((folder / "bfcl_live_pool.jsonl").read_text(encoding="utf-8"))["tools"]
    queries = (folder / "bfcl_live_queries.jsonl").read_text(encoding="utf-8").splitlines()
    return pool, [json.loads(line) for line in queries]


def is_whole(shown: dict[str, Any], given: dict[str, Any]) -> bool:
    """Whether a tool can be called as it came: its name, and its required parameters' names, types and enums."""
    before, after = given["function"], shown["function"]
    had, has = before["parameters"], after["parameters"]
    if before["name"] != after["name"] or had.get("required") != has.get("required"):
        return False
    return all(
        had["properties"][name].get(key) == has["properties"].get(name, {}).get(key)
        for name in had.get("required", [])
        if name in had["properties"]
        for key in ("type", "enum")
    )


def recall(tools: ToolSet, pool: list[dict[str, Any]], queries: list[dict[str, Any]], budget: int) -> list[float]:
    """Share of the expected tools that are kept whole, for each query."""
    tok = Tokenizer("cl100k_base")
    by_name = {tool["function"]["name"]: tool for tool in pool}
    shares = []
    for query in queries:
        result = fit_tools(tools, budget, query=query["messages"][-1]["content"], tokenizer=tok)
        kept = {tool["function"]["name"]: tool for tool in result.tools}
        expected = query["expected_tools"]
        shares.append(fmean(name in kept and is_whole(kept[name], by_name[name]) for name in expected))
    return shares


def seconds(act: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> float:
    """How long one call takes. By default on this thread's own clock, on which other processes do not count: right for a call
    that runs on no other thread.
    """
    start = clock()
    act()
    return clock() - start


def changed(pool: list[dict[str, Any]], mark: str) -> list[dict[str, Any]]:
    """The same tools as no call has seen them before."""
    tools = copy.deepcopy(pool)
    for tool in tools:
        tool["function"]["description"] += f" ({mark})"
    return tools


def rows() -> Iterator[dict[str, Any]]:
    """Time the first call and the next ones, then measure recall."""
    pool, queries = load()
    query = queries[0]["messages"][-1]["content"]
    first, again, made = [], [], []
    Tokenizer("o200k_base").count("the vocabulary is unpacked before the clock starts")
    for n in range(9):
        tok = Tokenizer("o200k_base")
        tools = changed(pool, str(n))

        def fit(tools: Any = tools, tok: Tokenizer = tok) -> object:
            return fit_tools(tools, BUDGET, query=query, tokenizer=tok)

        # The first call splits on all cores.
        first.append(seconds(fit, time.perf_counter))
        again += [seconds(fit) for _ in range(20)]
        ready = ToolSet(tools)
        assert fit(ready).tools == fit().tools  # type: ignore[attr-defined]
        made += [seconds(lambda ready=ready, fit=fit: fit(ready)) for _ in range(20)]
    what = f"{len(pool)} tools to {BUDGET} tokens"
    for name, times, must, aim in (
        ("first", first, 10, 5),
        ("again, as a list", again, 1, 0.3),
        ("again, as a ToolSet", made, 1, 0.3),
    ):
        ms = Median(time * 1e3 for time in times)
        yield {
            "what": f"{what}, {name} (ms)",
            "ours": ms,
            "unit": "ms",
            "peer": None,
            "ratio": ms,
            "must": must,
            "aim": aim,
            "lower": True,
        }
    tools = ToolSet(pool)
    for budget, (must, aim) in RECALL.items():
        kept = fmean(recall(tools, pool, queries, budget))
        yield {
            "what": f"tool recall at {budget}, {len(queries)} queries",
            "ours": kept,
            "unit": "",
            "peer": None,
            "ratio": kept,
            "must": must,
            "aim": aim,
        }
