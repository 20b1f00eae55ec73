"""Messages of the three chat formats: read, grouped, priced and edited, from Python values."""

from __future__ import annotations

import copy
import json
import types
from collections import OrderedDict
from enum import Enum
from typing import Any

import pytest

from holdall import Tokenizer, _native, count_messages
from holdall.errors import ArgumentError, MessageError, UnknownNameError

from .chat_oracle import Oracle


@pytest.fixture(scope="session")
def tok(tiktoken_encoding):
    """Tokens by tiktoken itself."""
    encoding = tiktoken_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))


def groups(messages: Any, **given: Any) -> list[list[int]]:
    return [g["indices"] for g in _native._chat_groups(messages, **given)["groups"]]


def reasons(messages: Any, **given: Any) -> list[tuple[int, str | None, str]]:
    return [(i, at, why.split(":")[0]) for i, at, why in _native._chat_groups(messages, **given)["findings"]]


def call(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "R"}


S = {"role": "system", "content": "S"}
U = {"role": "user", "content": "U"}
A = {"role": "assistant", "content": "A"}


def test_the_published_example_costs_what_was_billed():
    """The cookbook's example: 124 tokens with o200k, 129 with cl100k."""
    lines = [
        (
            "system",
            None,
            "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
        ),
        ("system", "example_user", "New synergies will help drive top-line growth."),
        ("system", "example_assistant", "Things working well together will increase revenue."),
        (
            "system",
            "example_user",
            "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
        ),
        ("system", "example_assistant", "Let's talk later when we're less busy about how to do better."),
        ("user", None, "This late pivot means we don't have time to boil the ocean for the client deliverable."),
    ]
    messages = [{"role": r, "content": c} | ({"name": n} if n else {}) for r, n, c in lines]
    assert count_messages(messages) == 124
    assert count_messages(messages, tokenizer=Tokenizer("cl100k_base")) == 129


class Shout(str, Enum):
    USER = "user"


class Model:
    """An SDK's message: pydantic's way of becoming a dict, without pydantic."""

    defaults: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, *, mode: str, exclude_unset: bool = False, exclude_none: bool = False) -> dict[str, Any]:
        assert mode == "json"
        fields = self.fields if exclude_unset else self.defaults | self.fields
        return {name: value for name, value in fields.items() if value is not None or not exclude_none}


class Call(Model):
    """A block whose type is a default: one writes `Call(id=..., name=..., input=...)`."""

    defaults = {"type": "tool_use", "cache_control": None}  # noqa: RUF012


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(OrderedDict(role="user", content="hi there"), id="dict subclass"),
        pytest.param(types.MappingProxyType({"role": "user", "content": "hi there"}), id="mapping"),
        pytest.param({"role": Shout.USER, "content": "hi there"}, id="str enum"),
        pytest.param(Model(role="user", content="hi there"), id="model"),
    ],
)
def test_what_stands_for_a_dict_is_read_as_one(message, tok):
    assert count_messages([message]) == 3 + 3 + 1 + tok("hi there")
    assert _native._chat_sendable([message])[0] is message
    shown = _native._chat_edit(message, [(["content"], "hi")])
    assert type(shown) is dict
    assert shown == {"role": "user", "content": "hi"}


def test_blocks_of_an_sdk_are_read_inside_a_message():
    """`{"role": "assistant", "content": response.content}` is how Anthropic's SDK is used."""
    for call in (Model(type="tool_use", id="t", name="f", input={"q": 1}), Call(id="t", name="f", input={"q": 1})):
        check_blocks([Model(type="text", text="Let me see."), call])


def check_blocks(blocks: list[Any]) -> None:
    messages = [
        U,
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "R"}]},
    ]
    found = _native._chat_groups(messages)
    assert found["format"] == "anthropic"
    assert groups(messages) == [[0], [1, 2]]


def test_messages_may_be_any_sequence():
    for messages in ((U, A), [U, A], types.SimpleNamespace):
        if messages is types.SimpleNamespace:
            with pytest.raises(ArgumentError, match="messages must be a list of messages, not type"):
                groups(messages)
        else:
            assert groups(messages) == [[0], [1]]
    for wrong in ("hi", U, None, 3, b"x", {1, 2}):
        with pytest.raises(ArgumentError, match="messages must be a list of messages, not "):
            count_messages(wrong)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        pytest.param("hi", "message 1: a message is an object with a role, not text", id="text"),
        pytest.param(
            {"content": "x"}, "message 1, role: missing; expected one of system, developer, user", id="no role"
        ),
        pytest.param(
            {"role": "human", "content": "x"}, 'message 1, role: unknown role "human"; expected one of', id="role"
        ),
        pytest.param(
            {"role": "user", "content": object()},
            "message 1, content: must be text, a list of parts or null, not an object of type object",
            id="object",
        ),
        pytest.param(
            {"role": "user", "content": b"x"},
            "message 1, content: must be text, a list of parts or null, not an object of type bytes",
            id="bytes",
        ),
        pytest.param(
            {"role": "user", "content": [1]},
            "message 1, content.0.: a part is text or an object with a type, not a number",
            id="part",
        ),
        pytest.param(
            {"role": "assistant", "tool_calls": [{"function": {"arguments": 3}}]},
            "message 1, tool_calls.0..function.arguments: arguments must be JSON text or an object, not a number",
            id="arguments",
        ),
        pytest.param(
            {"role": "assistant", "tool_calls": [{"function": {"arguments": {"at": object()}}}]},
            "message 1, tool_calls.0..*: an object of type object is not a JSON value",
            id="argument",
        ),
    ],
)
def test_what_cannot_be_read_is_named(message, text):
    with pytest.raises(MessageError, match=text) as caught:
        count_messages([U, message], format="openai")
    assert caught.value.index == 1
    assert caught.value.reason


def test_an_unknown_format_is_named():
    with pytest.raises(UnknownNameError, match='unknown message format "chatml"; known: openai, responses, anthropic'):
        count_messages([U], format="chatml")


def test_a_value_that_holds_itself_is_refused():
    loop: dict[str, Any] = {"role": "user", "content": "x"}
    loop["self"] = loop
    rings: list[Any] = []
    rings.append(rings)
    rings.append(rings)
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    for odd in (loop, {"role": "user", "content": "x", "odd": rings}, {"role": "user", "content": "x", "odd": deep}):
        with pytest.raises(MessageError, match="nested deeper than 128 levels"):
            count_messages([odd])
        with pytest.raises(MessageError, match="nested deeper than 128 levels"):
            _native._chat_fingerprint(odd)
    while isinstance(deep, list):  # take it apart by hand: Python's own way down is recursive
        deep = deep.pop()


def test_a_value_that_stands_for_too_many_is_refused():
    many: Any = ["x"]
    for _ in range(30):
        many = [many, many]
    with pytest.raises(MessageError, match="holds more than 4000000 values"):
        count_messages([{"role": "user", "content": "x", "odd": many}])


def test_special_token_text_is_text(tok):
    """A24: text that looks like a special token is counted, not refused."""
    text = "a <|endoftext|> b"
    assert count_messages([{"role": "user", "content": text}]) == 3 + 3 + 1 + tok(text)


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ud83d\ude00", "x\ude00\ud83d"])
def test_lone_surrogates_count_as_tiktoken_counts_them(text, tok):
    as_sent = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert count_messages([{"role": "user", "content": text}]) == 3 + 3 + 1 + tok(as_sent)


def test_an_image_is_never_counted_as_text(tok):
    """A19: 400 KB of base64 are an image, not 100,000 tokens."""
    part = {"type": "input_image", "image_url": "data:image/jpeg;base64," + "A" * 400_000}
    messages = [{"role": "user", "content": [{"type": "text", "text": "look"}, part]}]
    assert count_messages(messages) == 3 + 3 + 1 + 2 * tok("text") + 765
    assert count_messages(messages, overhead={"image": 89}) == 3 + 3 + 1 + 2 * tok("text") + 89


def test_the_image_rule_is_the_callers_to_change():
    """A20: an Anthropic image block by its size, or by whatever the caller says."""
    messages = [
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "!"}}],
        }
    ]
    base = count_messages(messages, overhead={"image": 0})
    assert count_messages(messages) - base == 1600
    assert count_messages(messages, overhead={"image": "openai"}) - base == 765


def test_overhead_is_checked():
    assert count_messages([U], overhead={"per_message": 10, "per_request": 0}) == count_messages([U]) + 4
    with pytest.raises(UnknownNameError, match='unknown overhead figure "per_mesage"; known: per_message'):
        count_messages([U], overhead={"per_mesage": 1})
    for wrong in (-1, "x", None, 1.5):
        with pytest.raises(ArgumentError, match=r"overhead\[.per_call.\] must be an integer of at least 0"):
            count_messages([U], overhead={"per_call": wrong})


def test_arguments_are_counted_unescaped(tok):
    """A22, A23: arguments count, as they are sent: compact, non-ASCII as it is."""
    value = {"city": "配" * 60, "n": [1, 2.5, 1e100, -0.0, True, None], "quote": 'a"\\\n\x01\u2028/'}
    message = {"role": "assistant", "content": [{"type": "tool_use", "id": "i", "name": "f", "input": value}]}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    expected = 3 + 3 + tok("assistant") + 3 + tok("tool_use") + tok("i") + tok("f") + tok(text)
    assert count_messages([message]) == expected


def test_tools_and_the_system_prompt_are_part_of_the_request(tok):
    """A21: what goes beside the messages is counted with them."""
    tools = [{"type": "function", "function": {"name": "f", "description": "配", "parameters": {"type": "object"}}}]
    text = json.dumps(tools[0], ensure_ascii=False, separators=(",", ":"))
    alone = count_messages([U])
    assert count_messages([U], tools=tools) == alone + 12 + 7 + tok(text)
    assert count_messages([U], tools=[]) == alone
    assert count_messages([U], system="You are kind.") == alone + 3 + tok("system") + tok("You are kind.")
    with pytest.raises(ArgumentError, match="system: must be text, a list of parts or null, not a number"):
        count_messages([U], system=3)


def test_any_tokenizer_counts():
    words = Tokenizer.from_callable(lambda text: len(text.split()))
    assert count_messages([{"role": "user", "content": "three short words"}], tokenizer=words) == 3 + 3 + 1 + 3

    def broken(text: str) -> int:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        count_messages([U], tokenizer=Tokenizer.from_callable(broken))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([S, U, call("a", "b"), result("a"), result("b"), A, U], [[0], [1], [2, 3, 4], [5], [6]], id="A01"),
        pytest.param([S, U, call("a"), result("a"), U], [[0], [1], [2, 3], [4]], id="A02"),
        pytest.param([S, U, call("a"), result("a")], [[0], [1], [2, 3]], id="A03"),
        pytest.param(
            [U, call("a"), {"role": "tool", "tool_call_id": "a", "content": "text"}, U, A],
            [[0], [1, 2], [3], [4]],
            id="A07",
        ),
        pytest.param([U, call("a"), result("a"), call("b"), result("b"), A], [[0], [1, 2], [3, 4], [5]], id="A08"),
        pytest.param([U, call("1", "2"), result("1"), result("2"), A, U], [[0], [1, 2, 3], [4], [5]], id="A09"),
        pytest.param(
            [U, call(*"abcdefghij"), *map(result, "abcdefghij"), U], [[0], list(range(1, 12)), [12]], id="A10"
        ),
        pytest.param([S, U, U, call("1"), result("1"), A, U], [[0], [1], [2], [3, 4], [5], [6]], id="A11"),
        pytest.param([A, A], [[0], [1]], id="A16"),
    ],
)
def test_groups_are_whole(messages, expected):
    assert groups(messages) == expected
    assert reasons(messages) == []
    assert all(a is b for a, b in zip(_native._chat_sendable(messages), messages, strict=True))


def test_what_cannot_be_sent_is_reported():
    """A12, A15, A16, A26: orphans and empty messages, each with its reason."""
    assert reasons([result("r"), A, U]) == [(0, None, "orphan")]
    assert groups([]) == []
    assert reasons([S, {"role": "user", "content": ""}]) == [(1, None, "empty")]
    assert reasons([U, {"role": "assistant", "content": "  \n"}]) == [(1, None, "empty")]
    assert reasons([U, call("a"), U]) == [(1, None, "unanswered call")]
    assert reasons([U, call("a"), result("a"), result("a")]) == [(3, None, "duplicate")]


def test_a_repair_leaves_the_callers_messages_alone():
    messages = [U, call("a", "b"), result("b"), U]
    before = copy.deepcopy(messages)
    sent = _native._chat_sendable(messages)
    assert messages == before
    assert sent == [U, call("b"), result("b"), U]
    assert sent[1]["tool_calls"][0] is messages[1]["tool_calls"][1]
    assert [a is b for a, b in zip(sent, messages, strict=True)] == [True, False, True, True]


def test_edits_copy_only_along_the_path():
    message = {
        "role": "user",
        "content": [{"type": "text", "text": "long"}, {"type": "image_url", "image_url": {"url": "u"}}],
        "x": {},
    }
    before = copy.deepcopy(message)
    shown = _native._chat_edit(message, [(["content", 0, "text"], "l…")])
    assert message == before
    assert shown["content"][0] == {"type": "text", "text": "l…"}
    assert shown["content"][1] is message["content"][1]
    assert shown["x"] is message["x"]
    assert _native._chat_edit(message, [(["content", 1], None)])["content"] == before["content"][:1]
    assert _native._chat_edit(message, []) is message
    assert _native._chat_edit(message, [(["content", 9], None), (["output", "text"], "x")]) == before


def test_a_counter_agrees_with_the_rule_on_every_kind_of_part(tok):
    png = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQA"
    parts = [
        {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png}"}},
        {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "A" * 50_000, "format": "mp3"}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "file", "file": {"file_data": "data:text/csv;base64,AAAAAAAA"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 999},
            "title": "A title",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "the text"}},
        {"type": "video", "video": {"url": "v"}},
        {"type": "odd", "content": [{"type": "image", "source": {"data": png}}, "x", ["y"], None], "n": 1},
        {"type": "redacted_thinking", "data": "A" * 50},
        {"type": "thinking", "thinking": "hm", "signature": "A" * 50},
        {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "z"}]},
        {"type": "server_tool_use", "id": "s", "name": "web", "input": {"q": "x"}},
        {"type": "tool_use", "id": "s", "name": "web", "input": {}},
        {"type": "tool_result", "tool_use_id": "s", "content": [{"type": "image", "source": {"data": png}}]},
        "bare",
    ]
    for fmt in ("openai", "anthropic"):
        for part in parts:
            messages = [{"role": "user", "content": [part]}]
            assert count_messages(messages, format=fmt) == Oracle(tok, fmt).request(messages), part


def test_a_developer_beside_instructions_is_no_message_of_anthropics(tok):
    """OpenAI Responses with `instructions`; it was read only once a tool had been called."""
    messages = [{"role": "developer", "content": "be nice"}, U]
    assert count_messages(messages, system="be brief") == count_messages([{**S, "content": "be brief"}, *messages])
