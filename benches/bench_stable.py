"""What `strategy="stable"` saves: input dollars of long coding sessions against a sliding window of the same budget.

    python -m benches.bench_stable [--budgets 32000,64000] [--low-water 0.5]

Every request of every recorded session of 300 messages or more is packed in turn. The sliding window drops whole oldest
groups (an assistant message with its tool results) until the rest fits, which is the best that a window without a memory
can do. Both are billed by the providers' rules for prompt caches: what a request shares with the beginning of the one
before it is read from the cache, from `minimum` tokens on and in steps of `step`; the rest is written to it. The sliding
window is spared the write fee for whatever is never read back, as if it knew; stable pays it for every new token.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benches import bench_recall
from holdall import ContextWindowPacker, Tokenizer, count_messages
from holdall.errors import RequiredOverflowError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Send = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
FILES = ("claude_code.jsonl", "pi_coding_agent.jsonl")
SHORTEST = 300
BUDGETS = (32_000, 64_000)
RECALL_BUDGETS = (4_000, 8_000)
STEP = 5
SETTLED = 2

Message = dict[str, Any]


@dataclass(frozen=True)
class Prices:
    """Dollars per million input tokens, and the rules of the prompt cache."""

    model: str
    plain: float
    read: float
    write: float
    minimum: int
    step: int


PRICES = (
    Prices("claude-opus-5-5", plain=4.0, read=0.2, write=5.0, minimum=1024, step=1),
    Prices("claude-haiku-4-5", plain=1.0, read=0.1, write=1.25, minimum=4096, step=1),
    Prices("gpt-5", plain=1.25, read=0.125, write=1.25, minimum=1024, step=128),
    Prices("gpt-4.1", plain=2.0, read=0.5, write=2.0, minimum=1024, step=128),
    Prices("gpt-4o", plain=2.5, read=1.25, write=2.5, minimum=1024, step=128),
)
JUDGED = 3  # the first three: what coding agents run on; the others show how a dear cache read limits everyone


@dataclass
class Sent:
    """The requests of one session: tokens of each, and of the beginning that it shares with the one before."""

    tokens: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    n_cuts: int = 0

    def dollars(self, prices: Prices, *, knows_what_is_read: bool = False) -> float:
        """What the input costs; `knows_what_is_read`: no write fee for what the next request does not share."""
        total = 0.0
        for n, (tokens, shared) in enumerate(zip(self.tokens, self.shared, strict=True)):
            read = prices.step * (shared // prices.step) if shared >= prices.minimum else 0
            kept = self.shared[n + 1] if n + 1 < len(self.shared) else 0
            written = max(kept - read, 0) if knows_what_is_read else tokens - read
            written = min(written, tokens - read)
            total += read * prices.read + written * prices.write + (tokens - read - written) * prices.plain
        return total / 1e6


class Sizes(dict[str, int]):
    """Tokens of a message by its JSON."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def __missing__(self, text: str) -> int:
        message = json.loads(text)
        self[text] = size = count_messages([message], tokenizer=self.tokenizer) - 3
        return size


def sessions(data: Path = SHARED / "data" / "trajectories") -> Iterator[tuple[str, list[Message]]]:
    """The long ones, with what the API takes of each message."""
    keys = ("role", "content", "tool_calls", "tool_call_id", "name")
    for file in FILES:
        for line in (data / file).read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if len(record["messages"]) >= SHORTEST:
                messages = [{key: message[key] for key in keys if key in message} for message in record["messages"]]
                yield record["id"], messages


def groups_of(messages: Sequence[Message]) -> list[range]:
    """Messages that live or die together: a call with its results."""
    starts = [n for n, message in enumerate(messages) if message["role"] != "tool"]
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(messages)], strict=True)]


def sliding_window(budget: int, sizes: Sizes) -> Send:
    """The newest groups that fit, and the system prompt."""

    def send(messages: list[Message]) -> list[Message]:
        costs = [sizes[json.dumps(message)] for message in messages]
        groups = groups_of(messages)
        prompt = [group for group in groups if messages[group.start]["role"] == "system"]
        left = budget - 3 - sum(costs[group.start] for group in prompt)
        first = len(messages)
        for group in reversed(groups):
            left -= sum(costs[n] for n in group)
            if left < 0 or group in prompt:
                break
            first = group.start
        return [messages[group.start] for group in prompt] + messages[first:]

    return send


def stable(budget: int, tokenizer: Tokenizer, **settings: Any) -> Send:
    """The packer, with the memo of each result handed on as a stateless worker would."""
    packer = ContextWindowPacker(budget, tokenizer, strategy="stable", **settings)
    memo: str | None = None

    def send(messages: list[Message]) -> list[Message]:
        nonlocal memo
        result = packer.pack_messages(messages, previous=memo)
        memo = result.memo
        assert result.tokens <= budget
        sent: list[Message] = result.messages
        return sent

    return send


def replay(messages: list[Message], send: Send, sizes: Sizes) -> Sent:
    """Send a request for every assistant message of the session."""
    sent = Sent()
    last: list[str] = []
    for end, message in enumerate(messages):
        if message["role"] != "assistant" or end == 0:
            continue
        texts = [json.dumps(one) for one in send(messages[:end])]
        n_same = next(
            (n for n, (a, b) in enumerate(zip(last, texts, strict=False)) if a != b), min(len(last), len(texts))
        )
        sent.n_cuts += n_same < len(last)
        sent.shared.append(sum(sizes[text] for text in texts[:n_same]))
        sent.tokens.append(3 + sum(sizes[text] for text in texts))
        last = texts
    return sent


def evidence(
    conversations: list[bench_recall.Conversation], budget: int, **settings: Any
) -> tuple[list[float], list[float]]:
    """Share of the evidence said so far that is in the window, one figure a talk: stable's, the sliding window's.

    Every message comes in as one request. A window just cut holds half of its budget and one before a cut all of it, so the
    share is the mean over every STEP-th request from where the talk is SETTLED windows long: as if all questions that can be
    answered by then were asked at each of them, unforeseen. A message shortened counts as lost. Before that a sliding window
    holds more, since stable has let half of its budget go where the other has lost a few messages.
    """
    tok = Tokenizer("cl100k_base")
    ours, peer = [], []
    for talk in conversations:
        history = [{key: one[key] for key in ("role", "name", "content") if key in one} for one in talk.messages]
        packer = ContextWindowPacker(budget, tok, strategy="stable", overhead=bench_recall.FRAMING, **settings)
        shares: list[tuple[float, float]] = []
        memo, said, first, room = None, 0, 0, budget
        for end in range(1, len(history) + 1):
            said += talk.tokens[end - 1]
            room -= talk.tokens[end - 1]
            while room < 0:
                room += talk.tokens[first]
                first += 1
            with suppress(RequiredOverflowError):  # two messages of a talk may be larger than a small window
                result = packer.pack_messages(history[:end], previous=memo)
                memo = result.memo
                asked = [wanted for _, wanted in talk.questions if max(wanted) < end]
                if end % STEP == 0 and said > SETTLED * budget and asked:
                    kept = {one.index for one in result.kept if one.rendition == "full"}
                    by_us = fmean(len(wanted & kept) / len(wanted) for wanted in asked)
                    by_age = fmean(sum(n >= first for n in wanted) / len(wanted) for wanted in asked)
                    shares.append((by_us, by_age))
        if shares:
            ours.append(fmean(share for share, _ in shares))
            peer.append(fmean(share for _, share in shares))
    return ours, peer


def replays(budgets: Sequence[int], **settings: Any) -> Iterator[tuple[str, int, Sent, Sent]]:
    """(session, budget, stable's requests, the sliding window's)."""
    tokenizer = Tokenizer("o200k_base")
    sizes = Sizes(tokenizer)
    for name, messages in sessions():
        for budget in budgets:
            ours = replay(messages, stable(budget, tokenizer, **settings), sizes)
            yield name, budget, ours, replay(messages, sliding_window(budget, sizes), sizes)


def rows() -> Iterator[dict[str, Any]]:
    """The share of the sliding window's dollars, and the evidence kept beside it."""
    if not (SHARED / "data").is_dir():
        raise ImportError(
            f"no recorded conversations at {SHARED / 'data'}; set HOLDALL_SHARED to the folder with data/"
        )
    replayed = list(replays(BUDGETS))
    for budget in BUDGETS:
        for prices in PRICES:
            pairs = [(ours, peer) for _, size, ours, peer in replayed if size == budget]
            ours = sum(sent.dollars(prices) for sent, _ in pairs)
            peer = sum(sent.dollars(prices, knows_what_is_read=True) for _, sent in pairs)
            must, aim = (0.5, 0.2) if prices in PRICES[:JUDGED] else (None, None)
            what = f"input dollars of stable, {len(pairs)} coding sessions at {budget}, {prices.model} / sliding window"
            figures = {"ours": ours, "peer": peer, "unit": "$", "ratio": ours / peer}
            yield {"what": what, **figures, "must": must, "aim": aim, "lower": True}
    for name, file in bench_recall.SETS.items():
        conversations = bench_recall.load(bench_recall.DATA / file)
        for budget in RECALL_BUDGETS:
            ours_kept, peer_kept = evidence(conversations, budget)
            low, high = bench_recall.interval([a - b for a, b in zip(ours_kept, peer_kept, strict=True)])
            what = f"evidence kept by stable, {name} at {budget}, minus a sliding window's ({low:+.2f} to {high:+.2f})"
            ours, peer = fmean(ours_kept), fmean(peer_kept)
            # A difference whose interval holds 0 is none.
            must = min(0.0, low - (ours - peer))
            yield {"what": what, "ours": ours, "peer": peer, "unit": "", "ratio": ours - peer, "must": must, "aim": 0.0}


def main() -> None:
    """Print dollars, cuts and the mean window of each session."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--low-water", type=float, default=0.5)
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    for name, budget, ours, peer in replays(budgets, low_water=options.low_water):
        shares = [
            f"{prices.model} {ours.dollars(prices) / peer.dollars(prices, knows_what_is_read=True):.3f}"
            for prices in PRICES
        ]
        cuts = f"{ours.n_cuts} cuts ({peer.n_cuts} of the sliding window)"
        print(
            f"{name:26} {budget:6} {len(ours.tokens)} requests, {fmean(ours.tokens):.0f} tokens each, {cuts}", *shares
        )


if __name__ == "__main__":
    main()
