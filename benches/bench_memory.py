"""Evidence recall through memory: every message stored, some found again for a question, and packed into a budget.

    python -m benches.bench_memory [--budgets 2000,4000,8000,16000] [--models none,static,minilm] [--k 300] [--around 6]
        [--every 1]

Each recorded conversation is stored with `MessageMemory`; for each question `recall` finds `k` messages and those around
them, and `pack_messages` chooses what fits. `--every 3` asks each third question only. Recall is the share of the messages that hold the answer which are in the window
in full; tokens are counted as in `bench_recall`. Models come in wheels (`benches.embeddings`).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benches.bench_recall import DATA, FRAMING, SETS, Conversation, interval, load, report
from holdall import ContextWindowPacker, Tokenizer, count_messages
from holdall.semantic import EmbeddedMemory, MessageMemory

MODELS = {"none": "BM25 alone", "static": "BM25 + static model, 64 floats", "minilm": "BM25 + MiniLM, 384 floats"}


def embedder_of(model: str, name: str, conversations: Sequence[Conversation]) -> Callable[[list[str]], Any] | None:
    """An embedder that looks up what was embedded before, so that a bench does not embed each time."""
    if model == "none":
        return None
    from benches.embeddings import embedded

    texts = {text: said for one in conversations for text, said in zip(stored(one), one.texts(), strict=True)}
    questions = [question for one in conversations for question, _ in one.questions]
    known = embedded(model, name, [*texts.values(), *questions])
    return lambda asked: [known[texts.get(text, text)] for text in asked]


def stored(conversation: Conversation) -> list[str]:
    """The texts as `MessageMemory` stores them."""
    return [f"{one['name']}: {one['content']}" if one.get("name") else one["content"] for one in conversation.messages]


async def through_memory(
    conversations: Sequence[Conversation],
    budgets: Sequence[int],
    embedder: Callable[[list[str]], Any] | None,
    *,
    k: int,
    around: int,
) -> list[list[float]]:
    """Recall of each question at each budget."""
    tok = Tokenizer("cl100k_base")
    rows: list[list[float]] = [[] for _ in budgets]
    for conversation in conversations:
        async with EmbeddedMemory(embedder=embedder) as memory:
            messages = MessageMemory(memory, conversation.id)
            await messages.add(conversation.messages, start=0)
            packers: dict[int, ContextWindowPacker] = {}
            for query, evidence in conversation.questions:
                recalled = await messages.recall(query, k, around=around)
                question = {"role": "user", "content": query}
                asking = count_messages([question], tokenizer=tok, overhead=FRAMING)
                for row, budget in zip(rows, budgets, strict=True):
                    size = budget + asking
                    if size not in packers:
                        packers[size] = ContextWindowPacker(
                            max_tokens=size, output_reserve=0, tokenizer=tok, overhead=FRAMING
                        )
                    result = recalled.pack(packers[size], [question])
                    assert result.tokens <= size
                    kept = {
                        recalled.places[one.index]
                        for one in result.kept
                        if one.source == "message" and one.rendition == "full" and one.index < len(recalled.places)
                    }
                    row.append(len(evidence & kept) / len(evidence))
    return rows


def measured(
    models: Sequence[str], budgets: Sequence[int], *, k: int, around: int, every: int = 1, folder: Path = DATA
) -> Iterator[tuple[str, str, list[list[float]]]]:
    """Set, model and recall at each budget."""
    for name, file in SETS.items():
        conversations = load(folder / file)
        for conversation in conversations:
            conversation.questions = conversation.questions[::every]
        for model in models:
            embedder = embedder_of(model, name, conversations)
            yield name, model, asyncio.run(through_memory(conversations, budgets, embedder, k=k, around=around))


def rows() -> Iterator[dict[str, Any]]:
    """At 4,000 tokens, by words alone and with the model whose vectors are at hand."""
    from benches.embeddings import CACHE

    if not DATA.is_dir():
        raise ImportError(f"no recorded conversations at {DATA}; set HOLDALL_SHARED to the folder that holds data/")
    models = ["none", *(["minilm"] if CACHE.is_dir() else [])]
    for name, model, (recalls,) in measured(models, [4000], k=300, around=6):
        recall = fmean(recalls)
        what = f"evidence recall through memory, {name} at 4000, {MODELS[model]}"
        ends = interval(recalls)
        yield {
            "what": what,
            "ours": recall,
            "unit": "",
            "peer": None,
            "ratio": recall,
            "spread": ends,
            "must": None,
            "aim": None,
        }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default="2000,4000,8000,16000")
    parser.add_argument("--models", default="none,static,minilm")
    parser.add_argument("--k", type=int, default=300)
    parser.add_argument("--around", type=int, default=6)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    print(f"{'':34} " + "  ".join(f"{budget:>18}" for budget in budgets))
    started = time.perf_counter()
    recalled = measured(options.models.split(","), budgets, k=options.k, around=options.around, every=options.every)
    for name, model, rows in recalled:
        for line in report(name, MODELS[model], rows):
            print(f"{line}  {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
