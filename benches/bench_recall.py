"""Evidence recall at a budget: does what answers the question survive?

    python -m benches.bench_recall [--budgets 2000,4000,8000] [--half dev|check]

Each question is asked of a whole recorded conversation; recall is the share of the messages that hold its answer which
are kept in full. Tokens are cl100k of content and name + 4 per message, and the budget is for the history alone: the
packer gets the question's own tokens on top, and no framing beside the 4. Intervals are 95% bootstrap over questions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from holdall import ContextWindowPacker, Tokenizer, _native, count_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
DATA = SHARED / "data" / "recall"
SETS = {"BEAM": "beam_100k.jsonl", "LoCoMo": "locomo10_NC.jsonl", "QMSum": "qmsum.jsonl"}
PROMISED = {  # must, aim
    ("BEAM", 4000): (0.67, 0.80),
    ("LoCoMo", 2000): (0.84, 0.90),
    ("LoCoMo", 4000): (0.89, 0.94),
    ("QMSum", 4000): (0.65, 0.75),
}
# What makes a message cost its content, its name and 4: 3 for each and 1 for the role.
FRAMING = {"per_name": 0, "per_request": 0}
PER_MESSAGE = 4


@dataclass
class Conversation:
    """A recorded conversation, with what every strategy needs worked out once."""

    id: str
    messages: list[dict[str, Any]]
    questions: list[tuple[str, set[int]]]
    tokens: list[int] = field(default_factory=list)

    def texts(self) -> list[str]:
        """The text that is searched: the speaker's name, then what was said."""
        return [f"{message.get('name') or ''} {message['content']}" for message in self.messages]


def load(path: Path) -> list[Conversation]:
    """Read a set; questions without evidence have no recall and are left out."""
    tok = Tokenizer("cl100k_base")
    conversations = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        at = {message["id"]: n for n, message in enumerate(record["messages"])}
        questions = [
            (question["question"], {at[name] for name in question["evidence_ids"]})
            for question in record["questions"]
            if question["evidence_ids"]
        ]
        spoken = [message["content"] for message in record["messages"]]
        names = [message.get("name") or "" for message in record["messages"]]
        counts = zip(tok.count_many(spoken), tok.count_many(names), strict=True)
        tokens = [text + name + PER_MESSAGE for text, name in counts]
        conversations.append(Conversation(record["id"], record["messages"], questions, tokens))
    return conversations


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


STRATEGIES: dict[str, tuple[Any, float]] = {
    "most recent": (most_recent, 0.0),
    "BM25": (bm25(None), 0.0),
    "BM25, kernel, p 2, a .75": (bm25(2.0), 0.75),
    "BM25, kernel, p 2, a .5": (bm25(2.0), 0.5),
    "BM25, kernel, p 1, a .75": (bm25(1.0), 0.75),
    "BM25, kernel, tail, a .75": (bm25(2.0, 0.04), 0.75),
    "BM25, kernel, tail, a .5": (bm25(2.0, 0.04), 0.5),
}


def packed(conversations: list[Conversation], budgets: Sequence[int], *, whole: bool = True) -> list[list[float]]:
    """Recall of each question at each budget through `pack_messages` as it comes; `whole`: shortened does not count."""
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
            for row, budget in zip(rows, budgets, strict=True):
                size = budget + asking
                if size not in packers:
                    packers[size] = ContextWindowPacker(
                        max_tokens=size, output_reserve=0, tokenizer=tok, overhead=FRAMING
                    )
                result = packers[size].pack_messages([*history, question])
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
    """What was promised, through the packer."""
    if not DATA.is_dir():
        raise ImportError(f"no recorded conversations at {DATA}; set HOLDALL_SHARED to the folder that holds data/")
    for name, file in SETS.items():
        promised = {budget: figures for (one, budget), figures in PROMISED.items() if one == name}
        conversations = load(DATA / file)
        for budget, row in zip(promised, packed(conversations, list(promised)), strict=True):
            must, aim = promised[budget]
            low, high = interval(row)
            what = f"evidence recall, {name} at {budget} ({low:.2f} to {high:.2f})"
            recall = fmean(row)
            yield {"what": what, "ours": recall, "unit": "", "peer": None, "ratio": recall, "must": must, "aim": aim}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--budgets", default="2000,4000,8000")
    parser.add_argument("--half", choices=["all", "dev", "check"], default="all")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    print(f"{'':34} " + "  ".join(f"{budget:>18}" for budget in budgets))
    for name, file in SETS.items():
        conversations = halves(load(options.data / file), options.half)
        for strategy, (scorer, price) in STRATEGIES.items():
            started = time.perf_counter()
            rows = recalls(conversations, scorer, price, budgets)
            for line in report(name, strategy, rows):
                print(f"{line}  {time.perf_counter() - started:.1f} s")
        for label, whole in (("pack_messages", True), ("pack_messages, any form", False)):
            for line in report(name, label, packed(conversations, budgets, whole=whole)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
