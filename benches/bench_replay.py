"""Context strategies over recorded conversations, ours and peers': dollars, validity, evidence, time.

    python -m benches.bench_replay dollars     # the long coding sessions at 32k and 64k
    python -m benches.bench_replay recall      # evidence recall at 2k, 4k, 8k, 16k on each set
    python -m benches.bench_replay peers       # ours and peers', the same requests

Each prints a table in Markdown, from the same replay that `holdall replay` runs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdall.replay import Figures, load_traces, replay
from holdall.replay.table import dollars_text, time_text, tokens_text

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
DATA = SHARED / "data"
CODING = ("trajectories/claude_code.jsonl", "trajectories/pi_coding_agent.jsonl")
RECALL = {"BEAM": "recall/beam_100k.jsonl", "LoCoMo": "recall/locomo10_NC.jsonl", "QMSum": "recall/qmsum.jsonl"}
LONG = 300  # messages
OURS = "sliding,summary,masking,hybrid,greedy,optimal,stable"
JOBS = min(2, os.cpu_count() or 1)


def coding(budgets: Sequence[int], strategies: str) -> dict[tuple[str, int], dict[str, Any]]:
    """The sessions of 300 messages and more, together: sums by strategy and budget."""
    traces = [trace for trace in load_traces([DATA / name for name in CODING]) if len(trace.messages) >= LONG]
    outcome = replay(traces, budgets=budgets, strategies=strategies, jobs=JOBS)
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in outcome.rows:
        sums = found.setdefault((row.strategy, row.budget), {"sessions": 0})
        sums["sessions"] += 1
        for name in ("dollars", "dollars_uncached", "requests", "invalid", "refused", "shared", "previous", "breaks"):
            sums[name] = sums.get(name, 0) + getattr(row, name)
        for name in ("tight", "fill_sum", "tokens", "summarizer_calls"):
            sums[name] = sums.get(name, 0) + getattr(row, name)
    return found


def dollars_table(strategies: str) -> Iterator[str]:
    """Input dollars and prefix stability on the long coding sessions."""
    budgets = (32_000, 64_000)
    found = coding(budgets, f"full,sliding,{strategies}")
    one = next(iter(found.values()))
    yield f"{one['sessions']} coding sessions of {LONG} messages and more, {one['requests']:,} requests at each budget:"
    yield ""
    yield (
        "| strategy | "
        + " | ".join(f"{tokens_text(b)}: input $ | same prefix | prefix breaks | invalid" for b in budgets)
        + " |"
    )
    yield "|---|" + "---|" * (4 * len(budgets))
    for strategy in dict.fromkeys(name for name, _ in found):
        cells = []
        for budget in budgets:
            sums, sliding = found[strategy, budget], found["sliding", budget]
            ratio = f" ({sums['dollars'] / sliding['dollars']:.2f}x)" if sums is not sliding else ""
            cells.append(
                f"{dollars_text(sums['dollars'])}{ratio} | {sums['shared'] / sums['previous']:.2f} | {sums['breaks']} | {sums['invalid']}"
            )
        yield f"| {strategy} | " + " | ".join(cells) + " |"


def recall_table(strategies: str) -> Iterator[str]:
    """Evidence recall: mean, and the middle 95% of resampled means."""
    budgets = (2_000, 4_000, 8_000, 16_000)
    yield "| set | strategy | " + " | ".join(tokens_text(budget) for budget in budgets) + " |"
    yield "|---|---|" + "---|" * len(budgets)
    for name, file in RECALL.items():
        outcome = replay(load_traces([DATA / file]), budgets=budgets, strategies=strategies, jobs=JOBS)
        cells: dict[str, list[Figures]] = {}
        for one in outcome.figures:
            cells.setdefault(one.strategy, []).append(one)
        for strategy, row in cells.items():
            shown = [f"{one.recall:.2f} ({one.recall_low:.2f} to {one.recall_high:.2f})" for one in row]
            yield f"| {name} | {strategy} | " + " | ".join(shown) + " |"


def peers(files: Sequence[str], budget: int, limit: int | None = None, strategies: str = OURS) -> list[Figures]:
    """Ours and peers' over the same turns, one after the other in this process."""
    from benches.peers_replay import PEERS

    traces = load_traces([DATA / name for name in files], limit=limit)
    names = [*strategies.split(","), *PEERS.values()]
    return list(replay(traces, budgets=[budget], strategies=names, questions=False).figures)


def peers_table(strategies: str) -> Iterator[str]:
    """What peers send for the same requests."""
    from benches.peers_replay import PEERS

    said = {value: key for key, value in PEERS.items()}
    for file, budget, limit in (
        ("trajectories/tau_airline.jsonl", 8_000, None),
        ("trajectories/claude_code.jsonl", 16_000, 1),
    ):
        rows = peers([file], budget, limit, strategies)
        yield f"{Path(file).stem} at {tokens_text(budget)}, {rows[0].conversations} conversations, {rows[0].requests} requests:"
        yield ""
        yield "| strategy | invalid (over, parted, missing) | refused | fill | input $ | same prefix | p50 | p99 |"
        yield "|---|---|---|---|---|---|---|---|"
        for one in rows:
            invalid = f"{one.invalid} ({one.overflow}, {one.orphans}, {one.missing})"
            fill = f"{one.fill:.2f}" if one.fill is not None else ""
            yield (
                f"| {said.get(one.strategy, one.strategy)} | {invalid} | {one.refused} | {fill} | {dollars_text(one.dollars)} | "
                f"{one.stability:.2f} | {time_text(one.p50_us)} | {time_text(one.p99_us)} |"
            )
        yield ""


def rows() -> Iterator[dict[str, Any]]:
    """What was promised: dollars of `stable`, validity and fill of `optimal`; and peers on the same requests."""
    if not DATA.is_dir():
        raise ImportError(f"no recorded conversations at {DATA}; set HOLDALL_SHARED to the folder that holds data/")
    budgets = (32_000, 64_000)
    found = coding(budgets, "sliding,optimal,stable")
    for budget in budgets:
        ours, sliding, optimal = (found[name, budget] for name in ("stable", "sliding", "optimal"))
        ratio = ours["dollars"] / sliding["dollars"]
        what = f"input dollars of stable against a sliding window, {ours['sessions']} coding sessions at {tokens_text(budget)}"
        yield {"what": what, "ours": ours["dollars"], "unit": "$", "peer": sliding["dollars"], "ratio": ratio, "must": 0.5,
               "aim": 0.2, "lower": True}  # fmt: skip
        for name, sums in (("stable", ours), ("optimal", optimal)):
            what = f"invalid or refused requests of {name} among {sums['requests']:,} at {tokens_text(budget)}"
            bad = sums["invalid"] + sums["refused"]
            yield {"what": what, "ours": bad, "unit": "", "peer": sliding["invalid"], "ratio": bad, "must": 0, "aim": 0,
                   "lower": True}  # fmt: skip
        fill = optimal["fill_sum"] / optimal["tight"]
        what = f"fill of optimal where not everything fits, coding sessions at {tokens_text(budget)}"
        yield {"what": what, "ours": fill, "unit": "", "peer": None, "ratio": fill, "must": 0.95, "aim": 0.98}
    compared = peers(["trajectories/tau_airline.jsonl"], 8_000)
    best = next(one for one in compared if one.strategy == "optimal")
    for one in compared:
        if ":" in one.strategy:
            name = one.strategy.rpartition(":")[2]
            what = f"median choice of optimal against {name} given counts ({one.invalid} of {one.requests} invalid, ours {best.invalid})"
            yield {"what": what, "ours": best.p50_us / 1e6, "peer": one.p50_us / 1e6, "ratio": one.p50_us / best.p50_us,
                   "must": None, "aim": None}  # fmt: skip


def main() -> None:
    """Print the tables asked for."""
    tables = {"dollars": dollars_table, "recall": recall_table, "peers": peers_table}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{', '.join(tables)}; all if none is given")
    parser.add_argument("--strategies", default=OURS, help="by commas (default: all but full)")
    options = parser.parse_args()
    if unknown := set(options.tables) - tables.keys():
        parser.error(f"no table {', '.join(sorted(unknown))}; there are {', '.join(tables)}")
    for name in options.tables or tables:
        for line in tables[name](options.strategies):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
