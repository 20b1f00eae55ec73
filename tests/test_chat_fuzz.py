"""Generated messages: the count is the oracle's, nothing else than a typed error comes out of garbage."""

from __future__ import annotations

import contextlib
import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import Tokenizer, _native, count_messages
from holdall.errors import HoldallError

from .chat_oracle import Oracle, texts

LENGTH = Tokenizer.from_callable(len)  # a token for each character: differences cannot hide in merges
FORMATS = ("openai", "responses", "anthropic")
PNG = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQA"

# Paired surrogates become one character on the way to the counter, lone ones U+FFFD: test_chat.py has those.
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    [
        "",
        " ",
        "a <|endoftext|> b",
        "配" * 5,
        f"data:image/png;base64,{PNG}",
        "data:text/csv;base64,QUFB",
        PNG,
        "https://x",
    ]
)
scalars = (
    words
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([1e16, 1e-7, 1e22, 123456789.123, -0.0, 10**40])
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)

texts_parts = st.sampled_from(["text", "input_text", "output_text"]).flatmap(
    lambda kind: st.fixed_dictionaries({"type": st.just(kind), "text": words}, optional={"cache_control": json_values})
)
payloads = st.fixed_dictionaries(
    {},
    optional={
        "data": words,
        "url": words,
        "detail": st.sampled_from(["low", "high"]),
        "media_type": words,
        "file_data": words,
    },
)
media_parts = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just(kind), holder: payloads | words}, optional={"title": words, "detail": st.just("low")}
    )
    for kind, holder in [
        ("image", "source"),
        ("image_url", "image_url"),
        ("input_image", "image_url"),
        ("file", "file"),
        ("input_file", "file_data"),
        ("document", "source"),
        ("video", "video"),
    ]
)
odd_parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["odd", "search_result", "redacted_thinking", "server_tool_use", "reasoning.encrypted"])},
    optional=dict.fromkeys(
        ("content", "data", "input", "signature", "result", "b64_json", "n", "summary", "output"), json_values
    ),
)
blocks = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("tool_use"),
            "id": words,
            "name": words,
            "input": st.dictionaries(words, json_values, max_size=3),
        }
    ),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": words, "signature": words}),
    st.fixed_dictionaries(
        {
            "type": st.just("tool_result"),
            "tool_use_id": words,
            "is_error": st.booleans(),
            "content": words | st.lists(texts_parts | media_parts, max_size=3),
        }
    ),
)
parts = words | texts_parts | media_parts | odd_parts | blocks
content = words | st.none() | st.lists(parts, max_size=4)
extras = {
    "name": words | st.none(),
    "refusal": words | st.none(),
    "reasoning_content": words,
    "meta": json_values,
    "is_error": st.booleans(),
}
calls = st.lists(
    st.fixed_dictionaries(
        {
            "id": words,
            "type": st.just("function"),
            "function": st.fixed_dictionaries(
                {"name": words, "arguments": words | st.dictionaries(words, json_values, max_size=3)}
            ),
        }
    )
    | st.fixed_dictionaries(
        {"id": words, "type": st.just("custom"), "custom": st.fixed_dictionaries({"name": words, "input": words})}
    ),
    max_size=3,
)
messages_of = {
    "openai": st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "tool", "function"]), "content": content},
        optional=extras | {"tool_call_id": words},
    )
    | st.fixed_dictionaries(
        {"role": st.just("assistant")},
        optional=extras
        | {
            "content": content,
            "tool_calls": calls,
            "function_call": st.fixed_dictionaries({"name": words, "arguments": words}),
        },
    ),
    "anthropic": st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant"]), "content": content}, optional={"meta": json_values}
    ),
    "responses": st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "developer"]), "content": content},
        optional={"type": st.just("message"), "id": words},
    )
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from(["function_call", "custom_tool_call", "web_search_call", "image_generation_call"]),
            "call_id": words,
        },
        optional={"name": words, "arguments": words, "input": words, "action": json_values, "result": words},
    )
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from(["function_call_output", "computer_call_output"]),
            "call_id": words,
            "output": words | st.lists(texts_parts | media_parts, max_size=3) | media_parts,
        }
    )
    | st.fixed_dictionaries(
        {"type": st.just("reasoning"), "summary": st.lists(texts_parts, max_size=2)},
        optional={"encrypted_content": words},
    ),
}


def same(a: Any, b: Any) -> bool:
    """Equal, NaN being itself."""
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_the_count_is_what_the_rule_says(fmt, data):
    messages = data.draw(st.lists(messages_of[fmt], max_size=4))
    system = data.draw(st.none() | words)
    before = copy.deepcopy(messages)
    counted = count_messages(messages, tokenizer=LENGTH, format=fmt, system=system)
    assert counted == Oracle(len, fmt).request(messages, system)
    assert same(messages, before)


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_what_is_sent_is_the_callers_own_and_needs_no_second_repair(fmt, data):
    messages = data.draw(st.lists(messages_of[fmt], max_size=6))
    before = copy.deepcopy(messages)
    sent = _native._chat_sendable(messages, format=fmt)
    found = _native._chat_groups(messages, format=fmt)
    assert same(messages, before)
    repaired = {i for i, at, _ in found["findings"] if at is not None}
    kept = sorted(i for g in found["groups"] for i in g["indices"])
    assert len(sent) == len(kept)
    for index, shown in zip(kept, sent, strict=True):
        assert (shown is messages[index]) == (index not in repaired)
    assert _native._chat_groups(sent, format=fmt)["findings"] == []


@pytest.mark.parametrize("fmt", FORMATS)
@given(data=st.data())
def test_every_text_stands_where_its_path_says(fmt, data):
    message = data.draw(messages_of[fmt])
    for _, path, text, is_editable in _native._chat_parts(message, format=fmt):
        if not is_editable or not text:
            continue
        names = path.replace("]", "").replace("[", ".").split(".")
        steps: list[str | int] = [int(step) if step.isdigit() else step for step in names]
        value: Any = message
        for step in steps:
            value = value[step]
        assert value == text
        marked = _native._chat_edit(message, [(steps, "…mark…")])
        changed = [t for t in texts(marked) if t == "…mark…"]
        assert len(changed) == 1
        back = _native._chat_edit(marked, [(steps, text)])
        assert same(back, message)


keys = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "tool_calls",
        "function",
        "arguments",
        "input",
        "id",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "source",
        "data",
        "output",
    ]
)
odd_values = st.sampled_from([b"bytes", {1, 2}, object(), 1j, range(3), (1, "x"), float("nan"), "\ud800", type, len])
garbage = st.recursive(
    scalars
    | odd_values
    | st.sampled_from(["user", "assistant", "tool", "function_call", "tool_use", "tool_result", "image"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys | words | st.integers() | st.none(), inner, max_size=5)
        | st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": inner})
    ),
    max_leaves=25,
)


@given(messages=st.lists(garbage, max_size=4) | garbage, fmt=st.sampled_from([None, *FORMATS]), system=garbage)
def test_garbage_is_read_or_refused(messages, fmt, system):
    """Nothing panics; what is refused is refused with an error of ours."""
    for work in (
        lambda: count_messages(messages, tokenizer=LENGTH, format=fmt),
        lambda: count_messages([], tokenizer=LENGTH, format=fmt, system=system),
        lambda: _native._chat_groups(messages, format=fmt),
        lambda: _native._chat_sendable(messages, format=fmt),
        lambda: _native._chat_fingerprint(messages),
    ):
        with contextlib.suppress(HoldallError):
            work()


@given(a=messages_of["openai"], b=messages_of["openai"])
def test_fingerprints_are_equal_when_messages_are(a, b):
    prints = [_native._chat_fingerprint(m) for m in (a, b)]
    assert _native._chat_fingerprint(copy.deepcopy(a)) == prints[0]
    if prints[0] == prints[1]:
        assert same(a, b)
