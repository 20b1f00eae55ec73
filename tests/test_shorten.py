"""Smaller forms of long texts, counted again by tiktoken."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import ArgumentError, Tokenizer, _native

TOKENIZERS = {
    "o200k_base": Tokenizer("o200k_base"),
    "cl100k_base": Tokenizer("cl100k_base"),
    "characters": Tokenizer.from_callable(len),
}
MARK = re.compile(r"\[\.\.\. [\d,]+ tokens cut \.\.\.\]")
PIECES = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [" ", "\n", "\r\n", "```\n", "\n```python\nx = 1\n", "word ", "A sentence. ", "你好。", "🏳️‍🌈", "\ud83d"]
    ),
    st.from_regex(r"[a-z]{1,60}", fullmatch=True),
)
TEXTS = st.builds(lambda pieces, times: "".join(pieces) * times, st.lists(PIECES, max_size=30), st.integers(1, 30))


@pytest.fixture(scope="session")
def count(tiktoken_encoding):
    """Tokens of a text, by a counter that shares nothing with ours."""
    encodings = {name: tiktoken_encoding(name) for name in ("o200k_base", "cl100k_base")}
    return lambda text, name: len(text) if name == "characters" else len(encodings[name].encode_ordinary(text))


def check(count, text, form, target, name):
    """At most the target, smaller than the text, not blank, nothing made up."""
    shown, tokens = form
    assert count(shown, name) == tokens <= target
    assert tokens < count(text, name)
    assert shown.strip()
    shown.encode()
    assert shown.count("\ufffd") <= text.count("\ufffd") + text.count("\ud83d")


@given(text=TEXTS, target=st.integers(0, 400), name=st.sampled_from(sorted(TOKENIZERS)))
def test_head_and_tail_fit_and_are_smaller(count, text, target, name):
    """Whatever the text and the target: within it, smaller, not blank, and the text's own."""
    form = _native._shorten_head_tail(text, target, TOKENIZERS[name])
    if form is not None:
        check(count, text, form, target, name)
        assert MARK.search(form[0])


@given(text=TEXTS, name=st.sampled_from(sorted(TOKENIZERS)))
def test_default_forms_fit_their_share(count, text, name):
    """A third and a tenth of the text, whatever the budget: they take none."""
    tokens = count(text, name)
    for make, target in [
        (_native._shorten_shortened, min(tokens // 3, 2_000)),
        (_native._shorten_summary, min(max(tokens // 10, 40), 400)),
    ]:
        form = make(text, TOKENIZERS[name])
        if form is not None:
            check(count, text, form, target, name)
            assert form == make(text, TOKENIZERS[name])


@given(texts=st.lists(TEXTS, max_size=6), target=st.integers(0, 200), name=st.sampled_from(sorted(TOKENIZERS)))
def test_summaries_fit(count, texts, target, name):
    """Within the target, and every line is made of sentences of the texts."""
    summary = _native.extractive_summary(texts, target, tokenizer=TOKENIZERS[name])
    if summary is not None:
        assert summary.strip()
        assert count(summary, name) <= target


@pytest.mark.parametrize("emoji", ["😀", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "配"], ids=ascii)
def test_characters_stay_whole(emoji):
    """A cut at any size never splits what people see as one character, nor adds U+FFFD."""
    n_forms = 0
    for target in range(1, 61):
        form = _native._shorten_head_tail(emoji * 400, target, TOKENIZERS["o200k_base"])
        if form is not None:
            n_forms += 1
            assert {piece for part in MARK.split(form[0]) for piece in part.strip("\n").split(emoji)} == {""}
    assert n_forms > 30


def test_tokens_cut_add_up(count):
    """What is kept and what is said to be cut make the whole."""
    text = "".join(f"{n}: the worker took {n * 7} ms\n" for n in range(500))
    shown, _ = _native._shorten_head_tail(text, 200, TOKENIZERS["o200k_base"])
    head, tail = MARK.split(shown)
    (mark,) = MARK.findall(shown)
    n_cut = int(re.sub(r"\D", "", mark))
    kept = count(head.rstrip("\n"), "o200k_base") + count(tail.lstrip("\n"), "o200k_base")
    assert n_cut == count(text, "o200k_base") - kept
    assert kept > 150
    lines = set(text.splitlines())
    assert all(line in lines for line in shown.splitlines() if not MARK.fullmatch(line))


def test_a_counter_that_fails_fails_the_call():
    """The caller's own exception comes through."""

    def count_words(text):
        raise LookupError("no such model")

    with pytest.raises(LookupError, match="no such model"):
        _native._shorten_head_tail("word " * 100, 20, Tokenizer.from_callable(count_words))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 1_000_000, id="1 MB line"),
        pytest.param(" " * 1_000_000, id="1M spaces"),
        pytest.param("\n" * 100_000, id="100k line ends"),
        pytest.param("a. " * 300_000, id="short sentences"),
        pytest.param("_" * 50_000, id="underscores"),
        pytest.param("```\n" * 200_000, id="fences"),
        pytest.param("\u0301" * 300_000, id="accents"),
    ],
)
def test_the_worst_texts_take_linear_time(text):
    """Seconds at the most for what a quadratic method needs hours for."""
    tokenizer = TOKENIZERS["o200k_base"]
    started = time.perf_counter()
    for target in (50, 5_000):
        _native._shorten_head_tail(text, target, tokenizer)
        _native.extractive_summary([text], target, tokenizer=tokenizer)
    _native._shorten_shortened(text, tokenizer)
    _native._shorten_summary(text, tokenizer)
    assert time.perf_counter() - started < 20


@pytest.mark.data
def test_recorded_messages_are_shortened(count, recorded):
    """Long messages and tool results of real sessions have both forms, of the promised sizes."""
    tokenizer, n_long, n_short, n_summary = TOKENIZERS["o200k_base"], 0, 0, 0
    for path in sorted((recorded / "trajectories").glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            texts = [text for line in lines for text in strings(json.loads(line)) if len(text) > 1_000][:200]
        for text in texts:
            tokens = count(text, "o200k_base")
            if tokens < 300:
                continue
            n_long += 1
            form = _native._shorten_shortened(text, tokenizer)
            if form is not None:
                n_short += 1
                check(count, text, form, tokens // 3, "o200k_base")
            form = _native._shorten_summary(text, tokenizer)
            if form is not None:
                n_summary += 1
                check(count, text, form, max(tokens // 10, 40), "o200k_base")
    assert n_long > 100
    assert n_short > 0.97 * n_long
    assert n_summary > 0.97 * n_long


def strings(value):
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


@pytest.mark.parametrize("wrong", [-1, 2**70, None])
def test_a_summary_takes_a_count_of_tokens(wrong):
    with pytest.raises(ArgumentError, match="max_tokens must be an int of at least 0, not "):
        _native.extractive_summary("A sentence.", wrong)
