"""`strategy="stable"`: the sent beginning stays until it no longer fits, and a cut is rare, final and safe."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall import ContextWindowPacker, Tokenizer
from holdall.errors import RequiredOverflowError
from tests import checker
from tests.test_pack_cases import A, C, R, S, U, size, text

TOKENIZER = Tokenizer("o200k_base")
Message = dict[str, Any]


class Session:
    """One conversation packed again and again, as a worker does that keeps nothing but the memo; and what was broken."""

    def __init__(self, budget: int, count: checker.Count = TOKENIZER.count, **settings: Any) -> None:
        self.packer = ContextWindowPacker(budget, TOKENIZER, strategy="stable", **settings)
        self.budget = budget
        self.count = count
        self.memo: str | None = None
        self.sent: list[str] = []
        self.shown: dict[int, int] = {}
        self.quoted: list[int] = []
        self.n_seen = 0
        self.n_requests = 0
        self.cuts: list[int] = []
        self.new = 0
        self.faults: list[str] = []

    def send(self, messages: Sequence[Message], *, is_checked: bool = True, **options: Any) -> Any:
        """Pack, and compare with what was sent before."""
        result = self.packer.pack_messages(messages, previous=self.memo, **options)
        self.n_requests += 1
        where = f"request {self.n_requests}: "
        if is_checked:
            found = checker.check(messages, options.get("tools"), result, budget=self.budget, count=self.count)
            self.faults += [where + fault for fault in found]
        # What is new may make room for itself by a cut now, so it counts to the cut.
        self.new += sum(checker.message_tokens(message, self.count) for message in messages[self.n_seen :])
        shown = {one.index: one for one in result.kept if one.source == "message"}
        self.quoted = sorted(index for index, one in shown.items() if one.rendition == "recalled")
        # Quotes are there for one turn; all else binds the next window.
        lasting = [m for n, m in enumerate(result.messages) if not self.quoted or n != result.n_lasting]
        sent = [checker.compact(message) for message in lasting]
        if self.sent and sent[: len(self.sent)] != self.sent:
            self.cuts.append(self.new)
        tokens = {index: one.tokens for index, one in shown.items() if one.rendition != "recalled"}
        for index in range(self.n_seen if self.sent else 0):
            before, now = self.shown.get(index, 0), tokens.get(index, 0)
            if now > before:
                self.faults.append(where + f"message {index} grew from {before} to {now} tokens")
        self.sent, self.shown, self.n_seen, self.memo = sent, tokens, len(messages), result.memo
        return result

    def rate(self) -> float:
        """Cuts for each half window of new tokens, between the first cut and the last."""
        if len(self.cuts) < 2:
            return 0.0
        return (len(self.cuts) - 1) / ((self.cuts[-1] - self.cuts[0]) / (self.budget / 2))


def requests(messages: Sequence[Message]) -> Iterator[int]:
    """Lengths of the prefixes that end before an assistant message."""
    return (end for end, message in enumerate(messages) if message["role"] == "assistant" and end > 0)


class Counted(dict[str, int]):
    """Counts that are kept: the same messages are counted at every prefix."""

    def __missing__(self, words: str) -> int:
        self[words] = tokens = TOKENIZER.count(words)
        return tokens


@pytest.mark.data
@pytest.mark.parametrize("budget", [32_000, 64_000])
def test_long_sessions_keep_their_beginning(budget: int, recorded: Path, full: bool, report: Any) -> None:
    """At most one cut for each half window of new tokens, nothing grows, every window is valid."""
    count = Counted().__getitem__
    for file in ("claude_code", "pi_coding_agent"):
        for line in (recorded / "trajectories" / f"{file}.jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if len(record["messages"]) < 300:
                continue
            session = Session(budget, count)
            for n, end in enumerate(requests(record["messages"])):
                session.send(record["messages"][:end], is_checked=full or n % 32 == 0)
            name = f"{record['id']} at {budget}"
            assert session.faults == [], name
            assert session.cuts, f"{name}: never cut, so nothing was tested"
            assert session.rate() <= 1.0, f"{name}: cuts after {session.cuts} new tokens"
            report(
                f"{name}: {session.n_requests} requests, {len(session.cuts)} cuts, {session.rate():.2f} per half window"
            )


def holding(talk: dict[str, Any], budget: int) -> Iterator[tuple[float, float]]:
    """Share of the evidence said so far that is in the window, now and then: stable's, a sliding window's."""
    at = {message["id"]: n for n, message in enumerate(talk["messages"])}
    messages = [{"role": one["role"], "content": one["content"]} for one in talk["messages"]]
    questions = [{at[name] for name in question["evidence_ids"]} for question in talk["questions"]]
    sizes = [size(message) - 3 for message in messages]
    session = Session(budget)
    first, room = 0, budget - 3
    for end in range(1, len(messages) + 1):
        session.send(messages[:end], is_checked=False)
        room -= sizes[end - 1]
        while room < 0:
            room += sizes[first]
            first += 1
        asked = [wanted for wanted in questions if wanted and max(wanted) < end]
        if sum(sizes[:end]) > 2 * budget and end % 5 == 0 and asked:
            kept = {n for n, tokens in session.shown.items() if tokens == sizes[n]}.union(session.quoted)
            ours = fmean(len(wanted & kept) / len(wanted) for wanted in asked)
            yield ours, fmean(sum(n >= first for n in wanted) / len(wanted) for wanted in asked)


@pytest.mark.data
@pytest.mark.parametrize("budget", [4_000, 8_000])
def test_cuts_keep_much_of_the_evidence_that_a_sliding_window_holds(
    budget: int, recorded: Path, full: bool, report: Any
) -> None:
    """A window is three quarters full on average, and holds more than that share: what says much for its tokens stays."""
    lines = (recorded / "recall" / "locomo10_NC.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [pair for line in (lines if full else lines[:3]) for pair in holding(json.loads(line), budget)]
    ours, sliding = fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)
    report(f"LoCoMo at {budget}: {ours:.3f} of the evidence kept, {sliding:.3f} by a sliding window")
    assert ours >= 0.9 * sliding


round_of = st.one_of(
    st.builds(lambda n, k: [C(f"c{k}"), R(f"c{k}", text(n, k))], st.sampled_from([3, 20, 80, 300]), st.integers(0, 9)),
    st.builds(
        lambda n, k: [A(text(n, k)), U(text(n // 3 + 1, k + 1))], st.sampled_from([3, 20, 80]), st.integers(0, 9)
    ),
    st.just([A("")]),
    st.builds(lambda k: [C("a", "b"), R("b", text(40, k)), R("a", "{}")], st.integers(0, 9)),
)


@given(st.lists(round_of, min_size=5, max_size=40), st.sampled_from([600, 1_000, 2_000]), st.integers(0, 2))
def test_any_session_is_valid_and_nothing_grows(rounds: list[list[Message]], budget: int, head: int) -> None:
    """Whatever comes in: the promises hold, no rendition grows, what was dropped stays out."""
    session = Session(budget)
    messages = [[], [S()], [S(text(40)), U("Work.")]][head] + [U("Begin.")]
    for one in rounds:
        messages = [*messages, *one]
        try:
            session.send(messages)
        except RequiredOverflowError as error:
            assert error.total > budget
            return
    assert session.faults == []


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(st.integers(1, 60), min_size=60, max_size=120), st.integers(0, 9))
def test_cuts_are_rare(words: list[int], seed: int) -> None:
    """Messages that are small beside the window: at most one cut for each half window of new tokens."""
    session = Session(1_200)
    messages = [S(), U("Work.")]
    for n, size_ in enumerate(words):
        messages = [*messages, C(f"c{n}"), R(f"c{n}", text(size_, seed + n))]
        result = session.send(messages, is_checked=n % 20 == 0)
        if session.cuts and session.cuts[-1] == session.new:
            assert result.tokens <= 600
    assert session.faults == []
    assert session.rate() <= 1.0


def test_a_first_window_keeps_more_than_a_cut_one() -> None:
    """Nothing was sent that a second cut would lose: half of what is above the low-water mark is used."""
    packer = ContextWindowPacker(2_000, TOKENIZER, strategy="stable")
    messages = [S(), *[make(text(30, k)) for k in range(60) for make in (U, A)], U("Go on.")]
    first = packer.pack_messages(messages)
    assert 1_400 <= first.tokens <= 1_500
    grown = [*messages, A(text(500)), U("And?")]
    second = packer.pack_messages(grown, previous=first.memo)
    assert 900 <= second.tokens <= 1_000


def test_an_irreducible_tail_does_not_cut_at_every_step() -> None:
    """A user message of most of the window stays, and the rest still has room to grow between cuts."""
    session = Session(2_000)
    messages = [S(), U(text(1_100))]
    assert size(*messages) > 1_200
    n_steps = 200
    for n in range(n_steps):
        messages += [C(f"c{n}"), R(f"c{n}", text(8, n))]
        session.send(messages, is_checked=n % 20 == 0)
    assert session.faults == []
    step = session.new / n_steps
    between = [b - a for a, b in zip(session.cuts, session.cuts[1:], strict=False)]
    assert len(between) > 5
    assert min(between) > 4 * step, "it cuts for almost every step"


def test_a_huge_result_is_let_go_once_it_is_read() -> None:
    """Shown while it is the last step, shortened if need be; a cut later makes room, and the window settles again."""
    session = Session(2_000)
    messages = [S(), U("Work.")]
    for n in range(60):
        messages += [C(f"c{n}"), R(f"c{n}", text(2_500 if n == 20 else 20, n))]
        session.send(messages)
    assert session.faults == []
    assert 1 <= len(session.cuts) <= 5


def edited(messages: list[Message]) -> list[Message]:
    return [*messages[:3], {**messages[3], "content": "edited"}, *messages[4:]]


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": text(30), "parameters": {"type": "object"}}}


def talk(n: int, words: int = 40) -> list[Message]:
    return [S(), *[make(text(words, k)) for k in range(n) for make in (U, A)], U("Go on.")]


@pytest.mark.parametrize(
    ("messages", "tools"),
    [
        pytest.param(edited(talk(40)), [tool("look")], id="edited history"),
        pytest.param([*talk(40)[:30], U("Other.")], [tool("look")], id="shorter"),
        pytest.param(talk(40, 41), [tool("look")], id="another conversation"),
        pytest.param(talk(40), [tool("find")], id="other tools"),
        pytest.param(talk(40), None, id="no tools"),
    ],
)
def test_a_memo_that_does_not_match_is_as_none(messages: list[Message], tools: Any) -> None:
    """What was sent of something else binds nothing."""
    packer = ContextWindowPacker(900, TOKENIZER, strategy="stable")
    memo = packer.pack_messages(talk(40), tools=[tool("look")]).memo
    result = packer.pack_messages(messages, tools=tools, previous=memo)
    fresh = packer.pack_messages(messages, tools=tools)
    assert checker.compact([result.messages, result.tools]) == checker.compact([fresh.messages, fresh.tools])
    assert checker.check(messages, tools, result, budget=900, count=TOKENIZER.count) == []


def test_a_memo_is_small_and_makes_the_result_known_again_elsewhere() -> None:
    """Another packer, with nothing in its memory, sends the same bytes and only adds the new ones."""
    messages = talk(200)
    first = ContextWindowPacker(2_000, TOKENIZER, strategy="stable").pack_messages(messages)
    assert isinstance(first.memo, str)
    assert len(first.memo) < 1_000
    elsewhere = ContextWindowPacker(2_000, TOKENIZER, strategy="stable")
    second = elsewhere.pack_messages([*messages, A("Yes."), U("And?")], previous=first.memo)
    assert checker.compact(second.messages[: len(first.messages)]) == checker.compact(first.messages)
    assert second.messages[len(first.messages) :] == [A("Yes."), U("And?")]


def test_a_cut_shows_the_tools_as_before() -> None:
    """Tools stand before everything else: other tools would cost a prompt cache all of it."""
    tools = [tool(f"tool_{n}") for n in range(6)]
    session = Session(2_000)
    messages = [S(), U("Work.")]
    shown = set()
    for n in range(60):
        messages += [C(f"c{n}", name="tool_1"), R(f"c{n}", text(40, n))]
        shown.add(checker.compact(session.send(messages, tools=tools).tools))
    assert session.cuts
    assert len(shown) == 1
    assert session.faults == []


def test_documents_take_what_is_left_and_do_not_cut() -> None:
    """The best documents that fit; the history is cut for them only where that makes room for all."""
    packer = ContextWindowPacker(1_000, TOKENIZER, strategy="stable")
    messages = talk(8, 30)
    first = packer.pack_messages(messages)
    assert first.dropped == ()
    low, high = text(150, 1), text(150, 2)
    documents = [{"text": low, "score": 0.2}, {"text": high, "score": 0.9}, {"text": text(900, 3), "score": 0.5}]
    second = packer.pack_messages(messages, previous=first.memo, documents=documents)
    kept = {(one.source, one.index) for one in second.kept}
    assert {("message", n) for n in range(len(messages))} <= kept
    assert ("document", 1) in kept
    assert ("document", 2) not in kept
    assert second.tokens <= 1_000
