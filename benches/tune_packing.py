"""Choose the constants of the packer by the evidence that it keeps, and check the choice on what was not looked at.

    python -m benches.tune_packing [--with minilm] [--only power,tail] [--passes 1]

Every recorded conversation is asked its questions through `pack_messages`, as in `benches.bench_recall`: the budget is for
the history alone, and only what is kept in full counts. Each constant in turn takes the value that keeps the most evidence
of every other conversation (mean over the sets and budgets), the others as they are; the rest of the conversations then say
what the choice is worth: differences of the same questions, with a 95% bootstrap interval. A value replaces a default only
where the default lies outside.
"""

from __future__ import annotations

import argparse
import random
import time
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benches.bench_recall import DATA, SETS, Conversation, cosine, halves, load, packed
from holdall import Recency

if TYPE_CHECKING:
    from benches.bench_recall import Relevance

BUDGETS = (2000, 4000, 8000)
QUESTIONS = 60  # of a conversation at most, evenly: LoCoMo has 200 in each, which say little more

Settings = dict[str, Any]

DEFAULTS: Settings = {
    "alpha": 0.25,
    "recency": "relative 2",
    "recency_floor": 0.6,
    "relevance_floor": 0.005,
    "power": 2.0,
    "near": 1.0,
    "tail": 0.04,
    "reach": 20,
    "fidelity": 0.7,
    "fidelity_power": 0.75,
}
GRID: dict[str, list[Any]] = {
    "alpha": [0.0, 0.125, 0.375, 0.5],
    "recency": ["none", "relative 1", "half-life 20"],
    "recency_floor": [0.25, 0.45, 0.75, 0.9],
    "relevance_floor": [0.001, 0.01, 0.02, 0.05],
    "power": [1.0, 1.5, 2.5, 3.0],
    "near": [0.5, 0.75, 1.25, 1.5],
    "tail": [0.0, 0.02, 0.06, 0.08],
    "reach": [10, 30, 40],
    "fidelity": [0.4, 0.55, 0.85],
    "fidelity_power": [0.5, 1.0],
}
FUSED_DEFAULTS: Settings = {"fusion": 0.25}
FUSED_GRID: dict[str, list[Any]] = {"fusion": [0.0, 0.125, 0.5, 1.0, 2.0]}
RECENCIES = {
    "none": Recency.none(),
    "relative 1": Recency.relative(1.0),
    "relative 2": Recency.relative(2.0),
    "half-life 20": Recency.half_life(20),
}


def thinned(conversations: list[Conversation]) -> list[Conversation]:
    """The same conversations with at most QUESTIONS of their questions."""
    for one in conversations:
        one.questions = one.questions[:: max(1, -(-len(one.questions) // QUESTIONS))]
    return conversations


def options(settings: Settings) -> Settings:
    """What the packer is made with."""
    rest = {name: value for name, value in settings.items() if name not in ("alpha", "recency")}
    return {"alpha": settings["alpha"], "recency": RECENCIES[settings["recency"]], "tuning": rest}


def measure(sets: dict[str, list[Conversation]], settings: Settings, relevance: Relevance | None) -> list[list[float]]:
    """Recall of each question, one row per set and budget."""
    rows = []
    for conversations in sets.values():
        rows += packed(conversations, BUDGETS, relevance=relevance, **options(settings))
    return rows


def score(rows: list[list[float]]) -> float:
    """One figure: each set and budget counts alike."""
    return fmean(map(fmean, rows))


def difference(ours: list[list[float]], theirs: list[list[float]], draws: int = 1000) -> tuple[float, float, float]:
    """Mean difference of the same questions, and the middle 95% of what resampled questions give."""
    draw = random.Random(7)
    pairs = [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(ours, theirs, strict=True)]
    means = sorted(fmean(fmean(draw.choices(row, k=len(row))) for row in pairs) for _ in range(draws))
    return fmean(map(fmean, pairs)), means[int(draws * 0.025)], means[int(draws * 0.975)]


def main() -> None:
    """Print the search on one half and the check on the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="model", choices=["minilm", "static"], help="give an embedder's scores too")
    parser.add_argument("--only", help="constants, separated by commas")
    parser.add_argument("--passes", type=int, default=1)
    args = parser.parse_args()
    relevance = cosine(args.model, SETS) if args.model else None
    best, grid = dict(DEFAULTS), dict(GRID)
    if relevance:
        best, grid = best | FUSED_DEFAULTS, FUSED_GRID | grid
    if args.only:
        grid = {name: grid[name] for name in args.only.split(",")}
    start = dict(best)
    loaded = {name: thinned(load(DATA / file)) for name, file in SETS.items()}
    dev = {name: halves(conversations, "dev") for name, conversations in loaded.items()}
    check = {name: halves(conversations, "check") for name, conversations in loaded.items()}
    started = time.perf_counter()
    highest = score(measure(dev, best, relevance))
    print(f"defaults: {highest:.4f} of the evidence on the half that chooses")
    for _ in range(args.passes):
        for name, values in grid.items():
            cells = [f"{best[name]}: {highest:.4f}"]
            chosen = best
            for value in values:
                found = score(measure(dev, best | {name: value}, relevance))
                cells.append(f"{value}: {found:.4f}")
                if found > highest:
                    highest, chosen = found, best | {name: value}
            best = chosen
            print(f"{name:16} {best[name]!s:10} of  " + "  ".join(cells), flush=True)
    base = measure(check, start, relevance)
    for name in [name for name in best if best[name] != start[name]]:
        mean, low, high = difference(measure(check, start | {name: best[name]}, relevance), base)
        print(f"{name} {best[name]} instead of {start[name]}: {mean:+.4f} [{low:+.4f} {high:+.4f}] on the other half")
    found = measure(check, best, relevance)
    mean, low, high = difference(found, base)
    print(
        f"all together: {mean:+.4f} [{low:+.4f} {high:+.4f}] on the other half, {time.perf_counter() - started:.0f} s"
    )
    cells = [(name, budget) for name in check for budget in BUDGETS]
    for (name, budget), row, was in zip(cells, found, base, strict=True):
        print(f"  {name:7} @{budget}: {fmean(row):.3f}, defaults {fmean(was):.3f}")


if __name__ == "__main__":
    main()
