"""Evidence recall at a budget: does what answers the question survive?

    python -m benches.bench_recall [--budgets 2000,4000,8000,16000] [--half dev|check] [--with minilm|static] [--plain]

Each question is asked of a whole recorded conversation; recall is the share of the messages that hold its answer which
are kept in full. Tokens are cl100k of content and name + 4 per message, and the budget is for the history alone: the
packer gets the question's own tokens on top, and no framing beside the 4. Intervals are 95% bootstrap over questions.
`--with` gives the packer an embedder's scores too; `benches.embeddings` keeps the vectors of the recorded sets, which take a
quarter of an hour to make. `--plain` adds what the parts of the rule keep without the packer.
"""

from __future__ import annotations

import argparse
import random
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benches.recall_sets import DATA, SETS, Conversation, load
from holdall import ContextWindowPacker, Tokenizer, _native, count_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Relevance = Callable[["Conversation", str], Sequence[float]]

PROMISED = {  # must, aim
    ("BEAM", 4000): (0.67, 0.80),
    ("LoCoMo", 2000): (0.84, 0.90),
    ("LoCoMo", 4000): (0.89, 0.94),
    ("QMSum", 4000): (0.65, 0.75),
}
PROMISED_WITH_MODEL = {
    ("BEAM", 4000): (0.71, 0.85),
    ("LoCoMo", 2000): (0.87, 0.93),
    ("LoCoMo", 4000): (0.92, 0.96),
    ("QMSum", 4000): (0.68, 0.80),
}
# What makes a message cost its content, its name and 4: 3 for each and 1 for the role.
FRAMING = {"per_name": 0, "per_request": 0}


def top_until_full(scores: Sequence[float], tokens: Sequence[int], budget: int, price: float) -> set[int]:
    """Take by score / tokens^price from the top, skipping what does not fit."""
    order = sorted(range(len(scores)), key=lambda n: (-scores[n] / tokens[n] ** price, n))
    kept = set()
    for n in order:
        if tokens[n] <= budget:
            kept.add(n)
            budget -= tokens[n]
    return kept


def most_recent(conversation: Conversation) -> Callable[[str], Sequence[float]]:
    """The plain sliding window."""
    return lambda _: range(len(conversation.messages))


def bm25(power: float | None, tail: float = 0.0) -> Any:
    """Native BM25, plain or sharpened and spread."""

    def scorer(conversation: Conversation) -> Callable[[str], Sequence[float]]:
        index = _native.LexicalIndex()
        index.add_many(conversation.texts())
        if power is None:
            return index.scores
        return lambda query: _native.sharpen_and_spread(index.scores(query), power=power, tail=tail)

    return scorer


SLIDING = "sliding window"
STRATEGIES: dict[str, tuple[Any, float]] = {
    SLIDING: (most_recent, 0.0),
    "BM25": (bm25(None), 0.0),
    "BM25, kernel, p 2, a .75": (bm25(2.0), 0.75),
    "BM25, kernel, p 2, a .5": (bm25(2.0), 0.5),
    "BM25, kernel, p 1, a .75": (bm25(1.0), 0.75),
    "BM25, kernel, tail, a .75": (bm25(2.0, 0.04), 0.75),
    "BM25, kernel, tail, a .5": (bm25(2.0, 0.04), 0.5),
}
PACKED: dict[str, dict[str, Any]] = {
    "greedy": {"strategy": "greedy", "late_summary": False},
    "optimal": {},
    "optimal, any form": {"whole": False},
    "stable, first window": {"strategy": "stable"},
}


def cosine(model: str, names: Iterable[str]) -> Relevance:
    """An embedder's score of each message and of the question, 0 for what is opposite; the vectors are kept on disk."""
    import numpy as np

    from benches.embeddings import embedded

    vectors: dict[str, Any] = {}
    for name in names:
        talks = load(DATA / SETS[name])
        texts = [text for talk in talks for text in talk.texts()]
        vectors |= embedded(model, name, texts + [query for talk in talks for query, _ in talk.questions])
    known: dict[str, Any] = {}

    def relevance(talk: Conversation, query: str) -> Sequence[float]:
        if talk.id not in known:
            known[talk.id] = np.stack([vectors[text] for text in talk.texts()])
        scores: list[float] = np.maximum(known[talk.id] @ vectors[query], 0).tolist()
        return [*scores, 0.0]

    return relevance


def packed(
    conversations: list[Conversation],
    budgets: Sequence[int],
    *,
    whole: bool = True,
    relevance: Relevance | None = None,
    **settings: Any,
) -> list[list[float]]:
    """Recall of each question at each budget through `pack_messages`; `whole`: shortened does not count.

    `relevance` gives an embedder's score of each message and of the question itself; `settings` go to the packer.
    """
    tok = Tokenizer("cl100k_base")
    rows: list[list[float]] = [[] for _ in budgets]
    for conversation in conversations:
        history = [
            {key: message[key] for key in ("role", "name", "content") if key in message}
            for message in conversation.messages
        ]
        packers: dict[int, ContextWindowPacker] = {}
        for query, evidence in conversation.questions:
            question = {"role": "user", "content": query}
            asking = count_messages([question], tokenizer=tok, overhead=FRAMING)
            scores = relevance(conversation, query) if relevance else None
            for row, budget in zip(rows, budgets, strict=True):
                size = budget + asking
                if size not in packers:
                    packers[size] = ContextWindowPacker(
                        max_tokens=size, output_reserve=0, tokenizer=tok, overhead=FRAMING, **settings
                    )
                result = packers[size].pack_messages([*history, question], relevance=scores)
                assert result.tokens <= size
                kept = {
                    one.index
                    for one in result.kept
                    if one.source == "message" and (not whole or one.rendition == "full")
                }
                row.append(len(evidence & kept) / len(evidence))
    return rows


def recalls(conversations: list[Conversation], scorer: Any, price: float, budgets: Sequence[int]) -> list[list[float]]:
    """Recall of each question at each budget."""
    rows: list[list[float]] = [[] for _ in budgets]
    for conversation in conversations:
        scores_of = scorer(conversation)
        for query, evidence in conversation.questions:
            scores = scores_of(query)
            for row, budget in zip(rows, budgets, strict=True):
                kept = top_until_full(scores, conversation.tokens, budget, price)
                row.append(len(evidence & kept) / len(evidence))
    return rows


def interval(values: Sequence[float], seed: int = 7, draws: int = 400) -> tuple[float, float]:
    """The middle 95% of the means of resampled questions."""
    draw = random.Random(seed)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(draws))
    return means[int(draws * 0.025)], means[int(draws * 0.975)]


def halves(conversations: list[Conversation], half: str) -> list[Conversation]:
    """Settings are chosen on every other conversation and checked on the rest."""
    return {"all": conversations, "dev": conversations[::2], "check": conversations[1::2]}[half]


def report(name: str, strategy: str, rows: list[list[float]]) -> Iterator[str]:
    """One line per strategy: mean and interval per budget."""
    cells = []
    for row in rows:
        low, high = interval(row)
        cells.append(f"{fmean(row):.3f} [{low:.2f} {high:.2f}]")
    yield f"{name:7} {strategy:26} " + "  ".join(cells)


def rows() -> Iterator[dict[str, Any]]:
    """What was promised, through the packer; with an embedder where its vectors are at hand."""
    if not DATA.is_dir():
        raise ImportError(f"no recorded conversations at {DATA}; set HOLDALL_SHARED to the folder that holds data/")
    for name, file in SETS.items():
        conversations = load(DATA / file)
        yield from promised_rows(name, conversations, PROMISED, None, "")
        with suppress(ImportError):
            from benches.embeddings import CACHE

            if (CACHE / f"{name}.npz").exists():
                relevance = cosine("minilm", [name])
                yield from promised_rows(name, conversations, PROMISED_WITH_MODEL, relevance, ", MiniLM given")


def promised_rows(
    name: str,
    conversations: list[Conversation],
    promises: dict[tuple[str, int], tuple[float, float]],
    relevance: Relevance | None,
    suffix: str,
) -> Iterator[dict[str, Any]]:
    """One row for each budget of a set that something was promised for."""
    promised = {budget: figures for (one, budget), figures in promises.items() if one == name}
    found = packed(conversations, list(promised), relevance=relevance)
    for budget, row in zip(promised, found, strict=True):
        must, aim = promised[budget]
        low, high = interval(row)
        what = f"evidence recall, {name} at {budget} ({low:.2f} to {high:.2f}){suffix}"
        recall = fmean(row)
        yield {"what": what, "ours": recall, "unit": "", "peer": None, "ratio": recall, "must": must, "aim": aim}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--budgets", default="2000,4000,8000,16000")
    parser.add_argument("--half", choices=["all", "dev", "check"], default="all")
    parser.add_argument("--with", dest="model", choices=["minilm", "static"])
    parser.add_argument("--plain", action="store_true")
    args = parser.parse_args()
    budgets = [int(budget) for budget in args.budgets.split(",")]
    print(f"{'':34} " + "  ".join(f"{budget:>18}" for budget in budgets))
    for name, file in SETS.items():
        conversations = halves(load(args.data / file), args.half)
        for strategy, (scorer, price) in STRATEGIES.items():
            if args.plain or strategy == SLIDING:
                for line in report(name, strategy, recalls(conversations, scorer, price, budgets)):
                    print(line, flush=True)
        for label, settings in PACKED.items():
            for line in report(name, label, packed(conversations, budgets, **settings)):
                print(line, flush=True)
        if args.model:
            found = packed(conversations, budgets, relevance=cosine(args.model, [name]))
            for line in report(name, f"optimal, {args.model} given", found):
                print(line, flush=True)


if __name__ == "__main__":
    main()
