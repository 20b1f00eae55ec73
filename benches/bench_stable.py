"""What `strategy="stable"` saves: input dollars of long coding sessions against a sliding window of the same budget.

    python -m benches.bench_stable [--budgets 32000,64000] [--low-water 0.5]

Every request of every recorded session of 300 messages or more is packed in turn. The sliding window drops whole oldest
groups (an assistant message with its tool results) until the rest fits, which is the best that a window without a memory
can do. Both are billed by the providers' rules for prompt caches: what a request shares with the beginning of the one
before it is read from the cache, from `minimum` tokens on and in steps of `step`; the rest is written to it. The sliding
window is spared the write fee for whatever is never read back, as if it knew; stable pays it for every new token.

Beside each ratio stands the least that stable's own requests could cost: all that was ever sent before read from the cache.
Then the evidence in its windows beside a sliding window's, over recorded talks, when questions are asked and while nobody asks;
and what it costs there, quotes of what was cut included.
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
RECALL_BUDGETS = (4_000, 8_000, 16_000)
STEP = 10
SETTLED = 2
EACH_TIME = 12
CHATS = 4

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
    """The requests of one session: tokens of each, of the beginning that it shares with the one before, of what was ever sent."""

    tokens: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
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

    def floor(self, prices: Prices) -> float:
        """What the same requests would cost if all that was ever sent before were read from the cache."""
        pairs = zip(self.tokens, self.known, strict=True)
        return sum(known * prices.read + (tokens - known) * prices.write for tokens, known in pairs) / 1e6


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
    seen: set[str] = set()
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
        sent.known.append(sum(sizes[text] for text in texts if text in seen))
        seen.update(texts)
        last = texts
    return sent


@dataclass
class Held:
    """Of one talk: the share of the evidence that is in the window, at each request and question that counts."""

    asked: list[float] = field(default_factory=list)
    asked_sliding: list[float] = field(default_factory=list)
    unasked: list[float] = field(default_factory=list)
    unasked_sliding: list[float] = field(default_factory=list)


def evidence(conversations: Sequence[bench_recall.Conversation], budget: int, **settings: Any) -> list[Held]:
    """Share of the evidence of what can be answered by then that is in the window, whole.

    Every message comes in as one request, and questions are asked at every STEP-th from where the talk is SETTLED windows
    long: a window just cut holds half of its budget and one before a cut all of it, so where in between a talk ends is chance.
    Each time about EACH_TIME of the questions are asked, others than the last time, one at a time, as the last user message of a request that the talk then
    goes on without; and all of them are looked up in the window of the talk itself, which nobody has asked anything yet.
    """
    tok = Tokenizer("cl100k_base")
    found = []
    for talk in conversations:
        history = [{key: one[key] for key in ("role", "name", "content") if key in one} for one in talk.messages]
        packer = ContextWindowPacker(budget, tok, strategy="stable", overhead=bench_recall.FRAMING, **settings)
        held = Held()
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
                known = [question for question in talk.questions if max(question[1]) < end]
                if end % STEP or said <= SETTLED * budget or not known:
                    continue
                kept = whole(result)
                held.unasked.append(fmean(len(wanted & kept) / len(wanted) for _, wanted in known))
                by_age = [sum(n >= first for n in wanted) / len(wanted) for _, wanted in known]
                held.unasked_sliding.append(fmean(by_age))
                n_parts = max(len(talk.questions) // EACH_TIME, 1)
                for question, wanted in known[end // STEP % n_parts :: n_parts]:
                    asked = [*history[:end], {"role": "user", "content": question}]
                    # The sliding window is spared the tokens of the question.
                    kept = whole(packer.pack_messages(asked, previous=memo))
                    held.asked.append(len(wanted & kept) / len(wanted))
                    held.asked_sliding.append(sum(n >= first for n in wanted) / len(wanted))
        if held.asked:
            found.append(held)
    return found


def whole(result: Any) -> set[int]:
    """The messages that are in a window as they came, or quoted whole."""
    return {one.index for one in result.kept if one.source == "message" and one.rendition in ("full", "recalled")}


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
            best = sum(sent.floor(prices) for sent, _ in pairs)
            what = (
                f"input dollars of stable, {len(pairs)} coding sessions at {budget}, {prices.model} / sliding window "
                f"(with all that repeats read from the cache {best / peer:.2f}: {ours / best:.2f}x that)"
            )
            figures = {"ours": ours, "peer": peer, "unit": "$", "ratio": ours / peer}
            yield {"what": what, **figures, "must": must, "aim": aim, "lower": True}
    yield from recall_rows()
    yield from chat_rows()


def recall_rows() -> Iterator[dict[str, Any]]:
    """The evidence in the window beside a sliding window's, asked and unasked."""
    for name, file in bench_recall.SETS.items():
        conversations = bench_recall.load(bench_recall.DATA / file)
        for budget in RECALL_BUDGETS:
            held = evidence(conversations, budget)
            if not held:  # no talk is SETTLED windows long
                continue
            n_asked = sum(len(talk.asked) for talk in held)
            for how, ours, peer in (
                (f"{n_asked} questions asked", [t.asked for t in held], [t.asked_sliding for t in held]),
                ("unasked", [t.unasked for t in held], [t.unasked_sliding for t in held]),
            ):
                # Each talk counts once, whatever its length.
                differences = [fmean(a) - fmean(b) for a, b in zip(ours, peer, strict=True)]
                low, high = bench_recall.interval(differences)
                what = (
                    f"evidence in the window of stable, {name} at {budget}, {how} in {len(held)} talks, minus a sliding "
                    f"window's ({low:+.2f} to {high:+.2f})"
                )
                yield {
                    "what": what, "ours": fmean(map(fmean, ours)), "peer": fmean(map(fmean, peer)), "unit": "",
                    # A difference whose interval holds 0 is none.
                    "ratio": fmean(differences), "must": 0.0 if high < 0 else min(0.0, fmean(differences)), "aim": 0.0,
                }  # fmt: skip


def chat_rows() -> Iterator[dict[str, Any]]:
    """What the quotes cost where nearly every request asks for some: talks, as the assistant's answers come."""
    tokenizer = Tokenizer("o200k_base")
    sizes = Sizes(tokenizer)
    for name, file in bench_recall.SETS.items():
        if name == "QMSum":  # meetings, in which no one is the assistant
            continue
        talks = [
            [{key: one[key] for key in ("role", "content") if key in one} for one in talk.messages]
            for talk in bench_recall.load(bench_recall.DATA / file)[:CHATS]
        ]
        for budget in RECALL_BUDGETS:
            pairs = [
                (replay(talk, stable(budget, tokenizer), sizes), replay(talk, sliding_window(budget, sizes), sizes))
                for talk in talks
            ]
            prices = PRICES[2]
            ours = sum(sent.dollars(prices) for sent, _ in pairs)
            peer = sum(sent.dollars(prices, knows_what_is_read=True) for _, sent in pairs)
            what = f"where turns ask for quotes: input dollars of stable, {len(talks)} talks of {name} at {budget}, {prices.model} / sliding window"
            yield {"what": what, "ours": ours, "peer": peer, "unit": "$", "ratio": ours / peer, "must": None, "aim": None,
                   "lower": True}  # fmt: skip


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
