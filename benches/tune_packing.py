"""Choose the constants of the packer by the evidence that it keeps, and check the choice on what was not looked at.

    python -m benches.tune_packing [--with minilm] [--only power,tail] [--swap] [--questions 60]

Every recorded conversation is asked its questions through `pack_messages`, as in `benches.bench_recall`: the budget is for
the history alone, and only what is kept in full counts. Of each constant the value is sought that keeps the most evidence
of every other conversation (mean over the sets and budgets), the rest being the defaults: first all values on some of the
questions, then the best of them and the default on all. The other conversations say what the choice is worth: the
difference of the same questions, with a 95% bootstrap interval. Only where the default lies outside it is there a
difference, and only then is the default replaced; else it stands. `--swap` chooses on the other half.

Whether endings are stripped ("stemming") is not for the packer to set, so it is measured on the rule without it: BM25,
sharpened and spread, by worth for each token from the top until full.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import time
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benches.bench_recall import DATA, SETS, Conversation, cosine, halves, load, packed, recalls
from holdall import Recency, _native

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benches.bench_recall import Relevance

    Settings = dict[str, Any]
    Sets = dict[str, list[Conversation]]
    Rows = list[list[float]]

BUDGETS = (2000, 4000, 8000)
COARSE = 20  # questions of a conversation at most, where many values are compared

DEFAULTS: Settings = {
    "alpha": 0.25,
    "recency": "relative 2",
    "recency_floor": 0.6,
    "related_recency_floor": 0.98,
    "relevance_floor": 0.005,
    "power": 2.0,
    "near": 1.0,
    "tail": 0.04,
    "reach": 20,
    "neighbours": 1.0,
    "fidelity": 0.7,
    "fidelity_power": 0.75,
}
GRID: dict[str, list[Any]] = {
    "alpha": [0.0, 0.125, 0.375, 0.5],
    "recency": ["none", "relative 1", "half-life 20"],
    "recency_floor": [0.0, 0.25, 0.8, 1.0],
    "related_recency_floor": [0.6, 0.8, 0.9, 1.0],
    "relevance_floor": [0.0, 0.001, 0.01, 0.02, 0.05],
    "power": [1.0, 1.5, 2.5, 3.0],
    "near": [0.0, 0.5, 0.75, 1.25, 1.5],
    "tail": [0.0, 0.02, 0.06, 0.08],
    "reach": [10, 30, 40],
    "neighbours": [0.0, 0.5, 1.5, 2.0],  # near and tail at once: how much of a hit its neighbours share
    "fidelity": [0.4, 0.55, 0.85],
    "fidelity_power": [0.5, 1.0],
}
FUSED_DEFAULTS: Settings = {"fusion": 0.25, "nearness": 0.15}
FUSED_GRID: dict[str, list[Any]] = {"fusion": [0.0, 0.125, 0.5, 1.0, 2.0], "nearness": [0.0, 0.1, 0.2, 0.3]}
STEMMING = "stemming"
RECENCIES = {
    "none": Recency.none(),
    "relative 1": Recency.relative(1.0),
    "relative 2": Recency.relative(2.0),
    "half-life 20": Recency.half_life(20),
}
WORD = re.compile(r"\w+")


def thinned(sets: Sets, most: int) -> Sets:
    """The same conversations with at most so many of their questions, evenly."""
    return {
        name: [
            Conversation(one.id, one.messages, one.questions[:: max(1, -(-len(one.questions) // most))], one.tokens)
            for one in conversations
        ]
        for name, conversations in sets.items()
    }


def options(settings: Settings) -> Settings:
    """What the packer is made with."""
    tuning = {name: value for name, value in settings.items() if name not in ("alpha", "recency", "neighbours")}
    tuning["near"] *= settings["neighbours"]
    tuning["tail"] *= settings["neighbours"]
    return {"alpha": settings["alpha"], "recency": RECENCIES[settings["recency"]], "tuning": tuning}


def measure(relevance: Relevance | None, sets: Sets, settings: Settings) -> Rows:
    """Recall of each question, one row per set and budget."""
    rows = []
    for conversations in sets.values():
        rows += packed(conversations, BUDGETS, relevance=relevance, **options(settings))
    return rows


def unstemmed(text: str) -> str:
    """The words that say something, each with a digit, so that its ending stays."""
    return " ".join(f"{word}0" for word in WORD.findall(text.lower()) if _native.text_terms(word)[2])


def measure_stemming(sets: Sets, settings: Settings) -> Rows:
    """The same by the rule alone, with endings or without them."""
    form: Callable[[str], str] = (lambda text: " ".join(WORD.findall(text))) if settings[STEMMING] else unstemmed

    def scorer(conversation: Conversation) -> Callable[[str], Sequence[float]]:
        index = _native.LexicalIndex()
        index.add_many([form(text) for text in conversation.texts()])
        return lambda query: _native.sharpen_and_spread(index.scores(form(query)))

    rows = []
    for conversations in sets.values():
        rows += recalls(conversations, scorer, 0.75, BUDGETS)
    return rows


def score(rows: Rows) -> float:
    """One figure: each set and budget counts alike."""
    return fmean(map(fmean, rows))


def difference(ours: Rows, theirs: Rows, draws: int = 1000) -> tuple[float, float, float]:
    """Mean difference of the same questions, and the middle 95% of what resampled questions give."""
    draw = random.Random(7)
    pairs = [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(ours, theirs, strict=True)]
    means = sorted(fmean(fmean(draw.choices(row, k=len(row))) for row in pairs) for _ in range(draws))
    return fmean(map(fmean, pairs)), means[int(draws * 0.025)], means[int(draws * 0.975)]


def verdict(low: float, high: float) -> str:
    """What an interval says."""
    return "better" if low > 0 else "worse" if high < 0 else "no difference"


def choose(
    name: str, values: list[Any], start: Settings, chooses: tuple[Sets, Sets], check: Sets, measured: Any
) -> tuple[Any, bool]:
    """Print what each value keeps and what the best of them is worth; the value, and whether it is better."""
    coarse, full = chooses
    found = {value: score(measured(coarse, start | {name: value})) for value in [start[name], *values]}
    cells = "  ".join(f"{value}: {kept:.4f}" for value, kept in found.items())
    best = max(values, key=found.__getitem__)
    gain, *_ = difference(measured(full, start | {name: best}), measured(full, start))
    mean, low, high = difference(measured(check, start | {name: best}), measured(check, start))
    is_better = gain > 0 and low > 0
    what = verdict(low, high) if gain > 0 else "the default is the choice"
    print(f"{name:21} {cells}")
    print(
        f"{'':21} {best}, not {start[name]}: {gain:+.4f}; other half {mean:+.4f} [{low:+.4f} {high:+.4f}]: {what}",
        flush=True,
    )
    return best, is_better


def main() -> None:
    """Print the search on one half and the check on the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="model", choices=["minilm", "static"], help="give an embedder's scores too")
    parser.add_argument("--only", help="constants, separated by commas")
    parser.add_argument("--swap", action="store_true", help="choose on the half that checks otherwise")
    parser.add_argument("--questions", type=int, default=60, help="of a conversation at most: LoCoMo has 200 in each")
    args = parser.parse_args()
    os.nice(10)
    started = time.perf_counter()
    relevance = cosine(args.model, SETS) if args.model else None
    start, grid = dict(DEFAULTS), GRID | {STEMMING: [False]}
    if relevance:
        start, grid = start | FUSED_DEFAULTS, FUSED_GRID | GRID
    names = args.only.split(",") if args.only else list(grid)
    loaded = thinned({name: load(DATA / file) for name, file in SETS.items()}, args.questions)
    first, second = ("check", "dev") if args.swap else ("dev", "check")
    full = {name: halves(conversations, first) for name, conversations in loaded.items()}
    check = {name: halves(conversations, second) for name, conversations in loaded.items()}
    chooses = thinned(full, COARSE), full
    best = dict(start)
    for name in names:
        if name == STEMMING:
            choose(name, grid[name], {STEMMING: True}, chooses, check, measure_stemming)
            continue
        value, is_better = choose(name, grid[name], start, chooses, check, partial(measure, relevance))
        if is_better:
            best[name] = value
    replaced = [f"{name} {best[name]} instead of {start[name]}" for name in best if best[name] != start[name]]
    print(f"the choice: {', '.join(replaced) or 'the defaults'}")
    base, found = measure(relevance, check, start), measure(relevance, check, best)
    if replaced:
        mean, low, high = difference(found, base)
        print(f"all together: {mean:+.4f} [{low:+.4f} {high:+.4f}] on the other half")
    cells = [(name, budget) for name in check for budget in BUDGETS]
    for (name, budget), row, was in zip(cells, found, base, strict=True):
        print(f"  {name:7} @{budget}: {fmean(row):.3f}, defaults {fmean(was):.3f}")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
