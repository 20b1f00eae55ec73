"""What a distrustful caller tries: odd arguments, memos that were tampered with, items that change after they were made."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from holdall import ContextItem, ContextWindowManager, ContextWindowPacker, Tokenizer, fit_tools
from holdall.errors import ArgumentError, RequiredOverflowError
from tests.test_pack_cases import A, C, R, S, U, indices, text

TOKENIZER = Tokenizer("o200k_base")
STRATEGIES = ["optimal", "greedy", "stable"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("budget", [60, 300, 100_000])
def test_a_window_starts_on_a_user_message_also_where_everything_fits(strategy: str, budget: int) -> None:
    """A greeting before the first user message makes Anthropic and Bedrock refuse the request, however short it is."""
    messages = [S(), A("Hello!"), C("a"), R("a", "calm"), U("Hi."), A("How can I help?"), U("And now?")]
    packer = ContextWindowPacker(budget, TOKENIZER, strategy=strategy)
    result = packer.pack_messages(messages, start_on_user=True)
    assert [message["role"] for message in result.messages][:2] == ["system", "user"]
    assert [gone.index for gone in result.dropped if gone.reason == "before_user"] == [1, 2, 3]
    if budget == 100_000:
        assert indices(result) == [0, 4, 5, 6]
        assert [id(message) for message in result.messages] == [id(messages[n]) for n in (0, 4, 5, 6)]
        assert result.value == result.bound
    assert indices(packer.pack_messages(messages[1:4], start_on_user=True)) == [0, 1, 2], "no user to start on"


@pytest.mark.parametrize(
    ("relevance", "said"),
    [
        ([1.0], "1 relevance scores for 2 messages; give one each"),
        ([1.0, float("nan")], r"relevance\[1\] must be finite and at least 0, not NaN"),
        ([-1.0, 0.0], r"relevance\[0\] must be finite and at least 0, not -1"),
    ],
)
def test_relevance_is_checked_before_it_is_needed(relevance: list[float], said: str) -> None:
    """Else it would fail only once the conversation has grown."""
    with pytest.raises(ArgumentError, match=said):
        ContextWindowPacker(10_000, TOKENIZER).pack_messages([U("a"), A("b")], relevance=relevance)


COMPACTED = {"type": "compaction", "id": "c", "encrypted_content": "x" * 400}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "compacted",
    [
        pytest.param(COMPACTED, id="responses"),
        pytest.param(
            A([{"type": "compaction", "content": text(60)}, {"type": "text", "text": "Go on."}]), id="anthropic"
        ),
    ],
)
def test_what_a_provider_compacted_stays(strategy: str, compacted: dict[str, Any]) -> None:
    """It stands for all that was said before it; an earlier one is part of what the later one stands for."""
    old = (
        {**COMPACTED, "encrypted_content": "y" * 4_000}
        if compacted is COMPACTED
        else A([{"type": "compaction", "content": text(400)}])
    )
    talk = [make(text(60, n)) for n in range(12) for make in (U, A)]
    messages = [old, compacted, *talk, U("And now?")]
    packer = ContextWindowPacker(300, TOKENIZER, strategy=strategy)
    result = packer.pack_messages(messages)
    assert compacted in result.messages
    assert old not in result.messages
    with pytest.raises(RequiredOverflowError):
        ContextWindowPacker(60, TOKENIZER, strategy=strategy).pack_messages(messages)


def test_what_a_provider_compacted_does_not_slide_out() -> None:
    class State:
        messages: Any = (COMPACTED, *[make(text(60, n)) for n in range(12) for make in (U, A)], U("And now?"))
        summary = None
        metadata: dict[str, Any] = {}  # noqa: RUF012 - read only

    window = ContextWindowManager(500).build(State())
    assert window.summarized > 0
    assert window.messages[1] is COMPACTED


def test_a_memo_that_was_tampered_with_makes_no_invalid_request() -> None:
    """A message that has to be repaired is not shown in a smaller form of the broken one."""
    call = {
        "role": "assistant",
        "content": [
            {"type": "text", "text": text(300)},
            *[{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in "ab"],
        ],
    }
    messages = [
        U("Go."),
        call,
        U([{"type": "tool_result", "tool_use_id": "a", "content": "calm"}]),
        A("Done."),
        U("And?"),
    ]
    packer = ContextWindowPacker(2_000, TOKENIZER, strategy="stable")
    fields = packer.pack_messages(messages).memo.split(" ")  # type: ignore[union-attr]
    assert fields[2] == "f5"
    for letter in "abcdABCDEFGHIJKLMNOPQRST":
        fields[2] = f"f1{letter}1f3"
        later = [*messages, *[make(text(90, n)) for n in range(20) for make in (A, U)]]
        for message in packer.pack_messages(later, previous=" ".join(fields)).messages:
            blocks = message["content"] if isinstance(message["content"], list) else []
            assert not any(block.get("id") == "b" for block in blocks)


def test_an_item_keeps_the_content_that_was_counted() -> None:
    parts: list[Any] = ["a river", {"text": "a stone"}]
    item = ContextItem("current_turn", parts, 0)
    packer = ContextWindowPacker(100, TOKENIZER)
    tokens = packer.pack([item]).tokens
    parts[1]["text"] = text(400)
    parts.append(text(400))
    assert item.content == ["a river", {"text": "a stone"}]
    assert packer.pack([item]).tokens == tokens == sum(map(TOKENIZER.count, ("a river", "a stone")))


REFUSED: list[tuple[str, Callable[[], object]]] = [
    ("item_overhead must be an int of at least 0, not -1", lambda: ContextWindowPacker(9, item_overhead=-1)),
    ("alpha must be at most 8, not 1000", lambda: ContextWindowPacker(9, alpha=1e3)),
    ("max_states must be an int of at least 0, not -1", lambda: ContextWindowPacker(9, max_states=-1)),
    ("cache_bytes must be an int of at least 0, not -1", lambda: ContextWindowPacker(9, cache_bytes=-1)),
    ("tool_overhead must be two ints of at least 0", lambda: ContextWindowPacker(9, tool_overhead=(-1, 2))),
    ("summarizer must be a function of a text, not str", lambda: ContextWindowPacker(9, summarizer="gpt")),  # type: ignore[arg-type]
    ("billed tokens must be an int of at least 0, not -1", lambda: ContextWindowPacker(9).calibrate([(1, -1)])),
    ("counted tokens must be an int of at least 0, not -1", lambda: ContextWindowPacker(9).calibrate([(-1, 1)])),
    ("position must be an int of 64 bits", lambda: ContextItem("a", "b", 2**70)),
    ("turn_index must be an int of 64 bits", lambda: ContextItem("a", "b", 0, turn_index=-(2**70))),
    ("renditions must be several", lambda: ContextItem("a", "b", 0, renditions="shorter")),
    ("budget must be an int of at least 0, not -1", lambda: fit_tools([], -1)),
    ("budget must be an int of at least 0, not 1", lambda: fit_tools([], 2**70)),
    (
        "the relevance of document 0 must be a number, not NoneType",
        lambda: ContextWindowPacker(9).pack_messages([], documents=[{"text": "x", "score": None}]),
    ),
]


@pytest.mark.parametrize(("said", "call"), REFUSED, ids=[said for said, _ in REFUSED])
def test_figures_outside_their_range_are_named(said: str, call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError, match=re.escape(said)):
        call()


def test_too_large_is_what_no_form_of_fits_even_alone() -> None:
    """A caller that splits what is too large must not be sent after what merely lost its place."""
    groups = [[C("a"), R("a", text(3_000, n))] for n in range(40)]
    huge = [C("a", arguments=f'{{"a":"{text(3_000)}"}}'), R("a")]
    messages = [U("Go."), *huge, *[message for group in groups for message in group], A("Done."), U("And?")]
    documents = [text(3_000, n) for n in range(40)]
    result = ContextWindowPacker(700, TOKENIZER).pack_messages(messages, documents=documents)
    gone = {(row.source, row.index): row.reason for row in result.dropped}
    assert gone.pop(("message", 1)) == gone.pop(("message", 2)) == "too_large"
    assert len(gone) > 4
    assert set(gone.values()) == {"over_budget"}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("messages", [[], [R("a", "an orphan")], [A(" ")]], ids=["none", "an orphan", "an empty one"])
def test_a_prompt_alone_that_does_not_fit_is_an_error(messages: list[Any], strategy: str) -> None:
    """Nothing else must be in then, and what need not be in was all that the budget was held against."""
    for budget, system in ((20, "word " * 50), (2, None)):
        packer = ContextWindowPacker(budget, TOKENIZER, strategy=strategy)
        with pytest.raises(RequiredOverflowError, match="framing and system prompt") as caught:
            packer.pack_messages(messages, system=system, tools=[{"name": "f", "input_schema": {}}])
        assert caught.value.total > budget == caught.value.budget


def test_documents_stand_after_the_prompt_where_nothing_else_is() -> None:
    packer = ContextWindowPacker(1_000, TOKENIZER)
    result = packer.pack_messages([S()], documents=["Parcels take three days."])
    assert [message["role"] for message in result.messages] == ["system", "user"]
