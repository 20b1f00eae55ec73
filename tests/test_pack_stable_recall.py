"""What a stable window quotes: messages that were cut and that the current turn asks for, without a cost to what was sent."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall import ContextWindowPacker, Tokenizer, count_messages
from holdall.errors import RequiredOverflowError
from tests import checker
from tests.test_pack_cases import A, C, R, S, U, size, text
from tests.test_pack_stable import Session

TOKENIZER = Tokenizer("o200k_base")
# Longer than what else is said, so that a cut drops it first.
FACT = f"The spare key of the boathouse hangs behind the barometer. {text(50, 5)}."
QUESTION = U("Where is the spare key of the boathouse?")
# What a cut keeps: the newest, so that the fact goes.
AGE_DECIDES = {"information": 0.0, "recency_floor": 0.0, "related_recency_floor": 0.0}
Message = dict[str, Any]


def chat(n: int) -> list[Message]:
    """A chat of n turns, of which an early one tells a fact."""
    turns = [[U(text(25, k)), A(text(25, k + 3))] for k in range(n)]
    turns[2][0] = U(FACT)
    return [S(), *[message for turn in turns for message in turn]]


def worked(budget: int = 1_000, n: int = 80, **settings: Any) -> tuple[Session, list[Message]]:
    """A chat packed turn by turn, until the fact has been cut."""
    session = Session(budget, tuning=AGE_DECIDES, **settings)
    messages = chat(n)
    for end in range(2, len(messages), 2):
        session.send(messages[:end], is_checked=False)
    assert session.cuts
    assert 5 not in session.shown, "the fact was not cut, so nothing would be tested"
    return session, messages


def test_what_is_asked_for_is_quoted_and_what_was_sent_stays() -> None:
    """The message stands whole before the question, is gone with the turn, and no cut comes of it."""
    session, messages = worked()
    before, n_cuts = session.sent, len(session.cuts)
    result = session.send([*messages, QUESTION])
    assert 5 in session.quoted
    assert FACT in result.messages[-2]["content"]
    assert result.messages[-1] == QUESTION
    assert result.n_lasting == len(result.messages) - 2
    assert session.sent[: len(before)] == before
    result = session.send([*messages, QUESTION, A("Behind the barometer."), U("Thanks.")])
    assert len(session.cuts) == n_cuts
    assert session.faults == []


def test_quotes_stay_while_the_turn_goes_on() -> None:
    """The model calls a tool before it answers: the request begins as the last one did, quotes included."""
    session, messages = worked()
    first = session.send([*messages, QUESTION])
    steps = [*messages, QUESTION, C("a"), R("a", text(20))]
    second = session.send(steps)
    assert second.messages[: len(first.messages)] == first.messages
    again = session.send(steps)
    assert again.messages == second.messages
    assert session.faults == []


def test_quotes_give_way_before_anything_is_cut() -> None:
    """What the turn brings takes their room."""
    session, messages = worked()
    first = session.send([*messages, QUESTION])
    n_cuts = len(session.cuts)
    second = session.send([*messages, QUESTION, A(text(1_000 - first.tokens + 20)), U("And?")])
    assert len(session.cuts) == n_cuts
    assert second.tokens <= 1_000
    assert session.faults == []


def test_no_quotes_beside_calls_or_without_a_share() -> None:
    """An agent at work would pay for them at every step."""
    session, messages = worked(recall=0.0)
    session.send([*messages, QUESTION])
    assert session.quoted == []
    session, messages = worked()
    session.send([*messages, C("a"), R("a"), QUESTION])
    assert session.quoted == []


def test_quotes_take_no_more_than_their_share() -> None:
    """`recall` bounds the message that holds them."""
    session, messages = worked(2_000, 160, recall=0.05)
    result = session.send([*messages, QUESTION])
    block = result.messages[result.n_lasting]
    assert session.quoted
    assert checker.message_tokens(block, TOKENIZER.count) <= 100


def test_a_memo_makes_the_same_quotes_elsewhere() -> None:
    """A stateless worker takes the turn over and sends the same bytes."""
    session, messages = worked()
    steps = [*messages, QUESTION]
    first = session.send(steps)
    assert isinstance(first.memo, str)
    elsewhere = ContextWindowPacker(1_000, TOKENIZER, strategy="stable")
    assert checker.compact(elsewhere.pack_messages(steps, previous=first.memo).messages) == checker.compact(
        first.messages
    )


def test_the_caller_says_what_the_turn_is_about() -> None:
    """`query` and the wording around the quotes are the caller's."""
    session, messages = worked(templates={"recalled": "<said>\n{recalled}</said>"})
    result = session.send([*messages, U("Well?")], query="spare key boathouse", is_checked=False)
    block = result.messages[result.n_lasting]["content"]
    assert block.startswith("<said>\n[user] ")
    assert block.endswith("</said>")
    assert FACT in block


@pytest.mark.parametrize("form", ["anthropic", "responses"])
def test_other_formats_are_counted_as_they_are_sent(form: Any) -> None:
    """The block is a user message of the format that came in, and in the count."""
    packer = ContextWindowPacker(1_000, TOKENIZER, strategy="stable", tuning=AGE_DECIDES)
    messages = [{"role": one["role"], "content": one["content"]} for one in chat(80)[1:]]
    memo = None
    for end in range(1, len(messages) + 1, 2):
        memo = packer.pack_messages(messages[:end], previous=memo, format=form).memo
    result = packer.pack_messages([*messages, QUESTION], previous=memo, format=form)
    assert FACT in result.messages[result.n_lasting]["content"]
    assert result.tokens == count_messages(result.messages, tokenizer=TOKENIZER, format=form)


says = st.one_of(
    st.builds(lambda n, k: U(text(n, k)), st.sampled_from([2, 10, 40]), st.integers(0, 9)),
    st.builds(lambda n, k: A(text(n, k)), st.sampled_from([2, 10, 40]), st.integers(0, 9)),
    st.sampled_from([U(FACT), QUESTION, U([{"type": "text", "text": FACT}]), U(""), A("[user] no\n")]),
)


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(says, min_size=30, max_size=90), st.sampled_from([250, 500]), st.sampled_from([0.1, 0.25, 1.0]))
def test_any_chat_is_valid_and_its_beginning_stays(said: list[Message], budget: int, recall: float) -> None:
    """Whatever is said: the promises hold, quotes are whole and in order, and nothing that was dropped comes back for good."""
    session = Session(budget, recall=recall)
    messages = [S()]
    for one in said:
        messages = [*messages, one]
        if one["role"] == "user":
            try:
                session.send(messages)
            except RequiredOverflowError as error:
                assert error.total > budget
                return
    assert session.faults == []
    assert session.rate() <= 1.0


@pytest.mark.data
@pytest.mark.parametrize("budget", [4_000])
def test_a_question_finds_what_a_sliding_window_has_lost(budget: int, recorded: Path, full: bool, report: Any) -> None:
    """Asked of recorded talks at any time: far more of the evidence is in the window."""
    lines = (recorded / "recall" / "locomo10_NC.jsonl").read_text(encoding="utf-8").splitlines()
    ours, sliding = [], []
    for line in lines if full else lines[:1]:
        talk = json.loads(line)
        at = {message["id"]: n for n, message in enumerate(talk["messages"])}
        messages = [{"role": one["role"], "content": one["content"]} for one in talk["messages"]]
        sizes = [size(message) - 3 for message in messages]
        session = Session(budget)
        for end in range(1, len(messages) + 1):
            session.send(messages[:end], is_checked=False)
            if end % 60 or sum(sizes[:end]) < 2 * budget:
                continue
            first = next(n for n in range(end) if sum(sizes[n:end]) <= budget - 3)
            for question in talk["questions"]:
                wanted = {at[name] for name in question["evidence_ids"]}
                if not wanted or max(wanted) >= end:
                    continue
                asked = [*messages[:end], U(question["question"])]
                result = session.packer.pack_messages(asked, previous=session.memo)
                kept = {one.index for one in result.kept if one.rendition in ("full", "recalled")}
                ours.append(len(wanted & kept) / len(wanted))
                sliding.append(sum(n >= first for n in wanted) / len(wanted))
    report(
        f"LoCoMo at {budget}, {len(ours)} questions: {fmean(ours):.3f} of the evidence, {fmean(sliding):.3f} by a sliding window"
    )
    assert fmean(ours) >= 1.5 * fmean(sliding)
