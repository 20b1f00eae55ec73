"""A conversation that is packed again: what the packer remembers of it must never show."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import ContextWindowPacker, Tokenizer
from tests.test_pack_cases import A, C, R, S, U, text

TOKENIZER = Tokenizer("o200k_base")

Messages = list[dict[str, Any]]


def conversation() -> Messages:
    """A prompt, three rounds of prose and calls, and a message of parts."""
    messages: Messages = [S(text(20))]
    for n in range(3):
        messages += [U(text(30 + n)), C(f"c{n}"), R(f"c{n}", text(60 + n)), A(text(40 + n))]
    parts = [{"type": "text", "text": text(25)}, {"type": "text", "text": "and this"}]
    return [*messages, {"role": "user", "content": parts}]


def seen(packer: ContextWindowPacker, messages: Messages, **options: Any) -> tuple[Any, ...]:
    """Everything that a result shows."""
    result = packer.pack_messages(messages, **options)
    figures = (result.tokens, result.value, result.bound, result.system, result.tools)
    return list(result), *figures, result.memo, result.explain(), result.kept, result.dropped


def text_in_place(messages: Messages) -> None:
    messages[1]["content"] = "something else"


def part_of_a_list(messages: Messages) -> None:
    messages[-1]["content"][0]["text"] = "another text"


def whole_part(messages: Messages) -> None:
    messages[-1]["content"][1] = {"type": "text", "text": "a new part"}


def arguments_of_a_call(messages: Messages) -> None:
    messages[2]["tool_calls"][0]["function"]["arguments"] = '{"q": 12345678}'


def one_more_call(messages: Messages) -> None:
    call = {"id": "new", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages[2]["tool_calls"].append(call)


def one_more_part(messages: Messages) -> None:
    messages[-1]["content"].append({"type": "text", "text": "more"})


def another_key(messages: Messages) -> None:
    messages[1]["name"] = "Ada"


def id_of_a_result(messages: Messages) -> None:
    messages[3]["tool_call_id"] = "nobody"


def another_order(messages: Messages) -> None:
    messages[1:9] = messages[5:9] + messages[1:5]


def two_swapped(messages: Messages) -> None:
    messages[4], messages[8] = messages[8], messages[4]


def a_message_gone(messages: Messages) -> None:
    del messages[4]


def cut_short(messages: Messages) -> None:
    del messages[9:]


def grown(messages: Messages) -> None:
    messages.extend([A(text(15)), U("go on")])


def grown_in_the_middle(messages: Messages) -> None:
    messages.insert(5, A(text(15)))


def same_texts_in_new_dicts(messages: Messages) -> None:
    messages[:] = [dict(message) for message in messages]


CHANGES: list[Callable[[Messages], None]] = [
    text_in_place,
    part_of_a_list,
    whole_part,
    arguments_of_a_call,
    one_more_call,
    one_more_part,
    another_key,
    id_of_a_result,
    another_order,
    two_swapped,
    a_message_gone,
    cut_short,
    grown,
    grown_in_the_middle,
    same_texts_in_new_dicts,
]

strategies = pytest.mark.parametrize("strategy", ["optimal", "greedy", "stable"])
budgets = pytest.mark.parametrize("budget", [10_000, 250])


@strategies
@budgets
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_between_two_packs_is_seen(change: Callable[[Messages], None], budget: int, strategy: str) -> None:
    messages = conversation()
    packer = ContextWindowPacker(budget, TOKENIZER, strategy=strategy)
    unchanged = seen(packer, messages)
    assert seen(packer, messages) == unchanged
    change(messages)
    fresh = ContextWindowPacker(budget, TOKENIZER, strategy=strategy)
    assert seen(packer, messages) == seen(fresh, copy.deepcopy(messages))


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 1)), max_size=6))
def test_any_run_of_changes_to_two_conversations_is_seen(changes: list[tuple[Any, int]]) -> None:
    """Two sessions of one packer that share a prompt; each is changed and packed in turn."""
    both = (conversation(), conversation())
    both[1][1]["content"] = "the other one"
    packer = ContextWindowPacker(300, TOKENIZER)
    for messages in both:
        packer.pack_messages(messages)
    for change, which in changes:
        messages = both[which]
        # What it changes may be gone or elsewhere; what it did up to there counts.
        with contextlib.suppress(AttributeError, IndexError, KeyError, TypeError):
            change(messages)
        assert seen(packer, messages) == seen(ContextWindowPacker(300, TOKENIZER), copy.deepcopy(messages))


def test_new_parts_where_old_ones_lay_are_seen() -> None:
    """A dict that is let go of leaves its address to the next one, and a list to whatever is as large."""
    messages = conversation()
    packer = ContextWindowPacker(10_000, TOKENIZER)
    parts, calls = messages[-1]["content"], messages[2]["tool_calls"]
    for n in range(40):
        packer.pack_messages(messages)
        del parts[0]
        parts.insert(0, {"type": "text", "text": f"part {n} " * (n % 7 + 1)})
        arguments = {"name": "look", "arguments": "{" + f'"n": {n}' + "}"}
        calls[0] = {"id": "c0", "type": "function", "function": arguments}
        assert seen(packer, messages) == seen(ContextWindowPacker(10_000, TOKENIZER), copy.deepcopy(messages))


def test_a_change_that_is_taken_back_changes_nothing() -> None:
    messages = conversation()
    packer = ContextWindowPacker(10_000, TOKENIZER)
    before = seen(packer, messages)
    for change in (lambda: messages[1].update(name="Ada"), lambda: messages[-1]["content"].append({"type": "text"})):
        change()
    packer.pack_messages(messages[:1])
    del messages[1]["name"], messages[-1]["content"][-1]
    assert seen(packer, messages) == before


def test_the_list_of_the_caller_and_the_result_are_apart() -> None:
    """What fits as it is may be kept as one tuple; a list that changes later must not reach it."""
    messages = conversation()
    packer = ContextWindowPacker(10_000, TOKENIZER)
    result = packer.pack_messages(messages)
    given = list(messages)
    del messages[3:]
    assert list(result) == result.messages == given
    assert all(one is other for one, other in zip(result, given, strict=True))
    assert list(packer.pack_messages(tuple(given))) == given


def test_what_is_asked_beside_the_messages_is_seen() -> None:
    messages = conversation()
    asked: list[dict[str, Any]] = [
        {},
        {"query": text(5)},
        {"system": text(40)},
        {"system": text(41)},
        {"start_on_user": True},
        {"summary": text(12)},
        {"documents": [text(18)]},
        {"relevance": [float(n) for n in range(len(messages))]},
        {"tools": [{"type": "function", "function": {"name": "look", "description": text(9), "parameters": {}}}]},
        {},
    ]
    packer = ContextWindowPacker(400, TOKENIZER)
    for options in asked:
        fresh = ContextWindowPacker(400, TOKENIZER)
        assert seen(packer, messages, **options) == seen(fresh, copy.deepcopy(messages), **options), options


def test_a_format_found_from_what_is_gone_is_found_again() -> None:
    """Without the call, a list of plain messages beside a system prompt is Anthropic's."""
    messages: Messages = [U(text(9)), A(text(8)), U(text(7)), C("c"), R("c", text(6)), U(text(5))]
    packer = ContextWindowPacker(1_000, TOKENIZER)
    assert seen(packer, messages, system="Be brief.")
    cut = messages[:3]
    fresh = ContextWindowPacker(1_000, TOKENIZER)
    assert seen(packer, cut, system="Be brief.") == seen(fresh, copy.deepcopy(cut), system="Be brief.")


def test_another_format_of_the_same_messages_is_seen() -> None:
    messages: Messages = [U(text(9)), A(text(8)), U([{"type": "image_url", "image_url": {"url": "https://e.x/i.png"}}])]
    packer = ContextWindowPacker(10_000, TOKENIZER)
    for name in ("openai", None, "anthropic", "openai"):
        fresh = ContextWindowPacker(10_000, TOKENIZER)
        assert seen(packer, messages, format=name) == seen(fresh, copy.deepcopy(messages), format=name)


def test_the_result_of_before_does_not_change_with_the_next() -> None:
    messages = conversation()
    packer = ContextWindowPacker(10_000, TOKENIZER)
    first = packer.pack_messages(messages)
    again = packer.pack_messages(messages)
    report = first.explain()
    grown(messages)
    packer.pack_messages(messages)
    assert first.explain() == again.explain() == report
    assert len(first) == len(again) == len(messages) - 2


def test_calibration_is_seen() -> None:
    messages = conversation()
    packer = ContextWindowPacker(10_000, TOKENIZER)
    before = packer.pack_messages(messages)
    packer.calibrate([(100, 150), (1_000, 1_400), (500, 700)])
    after = packer.pack_messages(messages)
    assert after.budget == packer.budget < before.budget
    assert after.tokens > before.tokens


def test_a_packer_without_memory_packs_the_same() -> None:
    messages = conversation()
    packer = ContextWindowPacker(250, TOKENIZER, cache_bytes=0)
    assert seen(packer, messages) == seen(packer, messages)
    text_in_place(messages)
    assert seen(packer, messages) == seen(ContextWindowPacker(250, TOKENIZER), copy.deepcopy(messages))


def test_the_attributes_of_objects_are_read_again():
    """What `vars` gives may be changed by way of the object, which the interpreter does without a word to the dict."""

    class Message:
        def __init__(self, content: str) -> None:
            self.role, self.content = "user", content

    objects = [Message(text(20 + n)) for n in range(4)]
    messages = [vars(one) for one in objects]
    packer = ContextWindowPacker(10_000, tokenizer=TOKENIZER)
    for n in range(30):
        for one in objects:
            one.content = text(3 + n)
        fresh = ContextWindowPacker(10_000, tokenizer=TOKENIZER)
        assert seen(packer, messages) == seen(fresh, messages)
        assert seen(packer, messages) == seen(fresh, messages)
    objects[2].name = "Ann"
    del objects[1].content
    objects[1].content = "again"
    assert seen(packer, messages) == seen(ContextWindowPacker(10_000, tokenizer=TOKENIZER), messages)
