"""The embedded encodings count and cut exactly as tiktoken does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall import Tokenizer, count_messages

NAMES = ["o200k_base", "cl100k_base"]
TOKENIZERS = {name: Tokenizer(name) for name in NAMES}

# What the two patterns tell apart, and what each must not confuse: one or two characters per class and seam.
ATOMS = [
    *"abzAZ09'/ \t\n\r.,!?-_(){}\"#",
    *["'s", "'S", "'ll", "'LL", "'lL", "'re", "'ve", "'d", "'m", "'t", "'\u017f", "'\u212a", "'l", "'r", "\u2019s"],
    *[
        "\r\n",
        "\n\n",
        "  ",
        "   ",
        " \n",
        "\n ",
        "\u00a0",
        "\u0085",
        "\u2028",
        "\u3000",
        "\u200b",
        "\ufeff",
        "\x1c",
        "\x0b",
    ],
    *[
        "\u00e9",
        "e\u0301",
        "\u0301",
        "\u0300\u0301",
        "\u00c9",
        "\u01c5",
        "\u02b0",
        "\u00aa",
        "\u00df",
        "\u0130",
        "\u0131",
    ],
    *[
        "\u4e2d\u6587",
        "\u3042",
        "\u30ab",
        "\uac00",
        "\u0e01\u0e34",
        "\u0915\u093f",
        "\u0627\u0644",
        "\u05d0",
        "\u03a9",
        "\u03c9",
    ],
    *["\u00bd", "\u2160", "\u0663", "\u00b2", "\U0001d7d8", "\U00010144"],
    *[
        "\U0001f600",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea",
        "\u2764\ufe0f",
        "\ufffd",
        "\x00",
        "\x7f",
    ],
    *[
        "<|endoftext|>",
        "<|fim_prefix|>",
        "<|im_start|>",
        "ABC",
        "Abc",
        "aBc",
        "HTMLParser",
        "getURL",
        "def ",
        "return",
        "http://",
    ],
    *["aaaaaaaa", "________", "        ", "--------", "========", "00000000", "\ud83d", "\ude00"],
]
texts = st.lists(
    st.one_of(st.sampled_from(ATOMS), st.text(max_size=3), st.integers(1, 40).map(lambda n: " " * n)), max_size=40
).map("".join)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def ours(name: str) -> Tokenizer:
    return TOKENIZERS[name]


@pytest.fixture
def theirs(name: str, tiktoken_encoding: Callable[[str], tiktoken.Encoding]) -> Callable[[str], int]:
    encoding = tiktoken_encoding(name)
    return lambda text: len(encoding.encode_ordinary(text))


def longest_prefix(count: Callable[[str], int], text: str, limit: int) -> str:
    """Oracle: try every prefix, but none that parts a surrogate pair, which is one character."""
    for n in range(len(text), 0, -1):
        parts_pair = "\ud800" <= text[n - 1] < "\udc00" and "\udc00" <= text[n : n + 1] < "\ue000"
        if not parts_pair and count(text[:n]) <= limit:
            return text[:n]
    return ""


@given(text=texts)
@pytest.mark.parametrize("name", NAMES)
def test_count_is_tiktokens(tiktoken_encoding, name: str, text: str) -> None:
    assert TOKENIZERS[name].count(text) == len(tiktoken_encoding(name).encode_ordinary(text))


@given(text=texts.map(lambda text: text[:60]), limit=st.integers(0, 30))
@pytest.mark.parametrize("name", NAMES)
def test_cut_is_the_longest_prefix_within_the_limit(tiktoken_encoding, name: str, text: str, limit: int) -> None:
    encoding = tiktoken_encoding(name)
    expected = longest_prefix(lambda part: len(encoding.encode_ordinary(part)), text, limit)
    assert TOKENIZERS[name].cut(text, limit) == expected


# A stretch without a seam that is long: what is searched there is not every prefix, so the oracle must be.
long_parts = st.one_of(
    st.tuples(
        st.sampled_from([*"a _-=あAé中ß\u0301", "ab", "the", "あA", "Aa", " \n", "\n ", "\t", "é́", "中文", "xX"]),
        st.integers(1, 400),
    ).map(lambda part: part[0] * part[1]),
    st.text(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=50, max_size=400),
    st.text(st.sampled_from("ABCDあ中"), min_size=50, max_size=400),
    st.sampled_from(["x", " ", "\n", "!", "1", "'s", "'l"]),
)


@given(parts=st.lists(long_parts, min_size=1, max_size=4), share=st.floats(0, 1))
@pytest.mark.parametrize("name", NAMES)
def test_cut_of_long_runs_is_the_longest_prefix(tiktoken_encoding, name: str, parts: list[str], share: float) -> None:
    tokenizer, encoding = TOKENIZERS[name], tiktoken_encoding(name)
    text = "".join(parts)[:1200]
    limit = int(share * len(encoding.encode_ordinary(text)))
    found = tokenizer.cut(text, limit)
    assert text.startswith(found)
    assert len(encoding.encode_ordinary(found)) <= limit
    for n in range(len(found) + 1, len(text) + 1):
        assert tokenizer.count(text[:n]) > limit


# Parts of a text that is long and hard enough for all cores.
hard_parts = st.tuples(
    st.sampled_from(
        ["abcdefghijklmnopqrstuvwxyz", "abcd", "abcXYZ09", "qxzjé\u0301中文字あ", "的一是不了人我在有他这"]
    ),
    st.sampled_from([None, 2, 9, 300]),
    st.integers(0, 2**32),
).map(lambda drawn: hard_part(*drawn))


def hard_part(alphabet: str, word: int | None, seed: int) -> str:
    """40 KB of letters, as one word or as words of up to so many."""
    rng = random.Random(seed)
    letters = rng.choices(alphabet, k=40_000 // max(len(alphabet.encode()) // len(alphabet), 1))
    if word is None:
        return "".join(letters)
    spaces = range(0, len(letters), word)
    return " ".join("".join(letters[at : at + rng.randint(1, word)]) for at in spaces)


@settings(max_examples=15, deadline=None)
@given(
    parts=st.lists(hard_parts, min_size=4, max_size=6),
    seams=st.lists(texts, min_size=5, max_size=5),
    limit=st.integers(),
)
@pytest.mark.parametrize("name", NAMES)
def test_long_texts_count_alike_on_all_cores(
    tiktoken_encoding, name: str, parts: list[str], seams: list[str], limit: int
) -> None:
    text = "".join(part + seam for part, seam in zip(parts, [*seams, ""], strict=False))
    expected = len(tiktoken_encoding(name).encode_ordinary(text))
    fresh = Tokenizer(name)
    assert fresh.count(text) == expected
    fresh.cache_clear()
    limit = expected + limit % 5 - 2
    assert fresh.fits(text, limit) == (expected <= limit)
    assert fresh.count_many(["a", text, text + " a"])[1] == expected
    message = {"role": "user", "content": text}
    assert count_messages([message], tokenizer=Tokenizer(name)) == count_messages([message], tokenizer=fresh)


@given(text=texts, limit=st.integers(0, 60))
@pytest.mark.parametrize("name", NAMES)
def test_fits_agrees_with_count(name: str, text: str, limit: int) -> None:
    tokenizer = TOKENIZERS[name]
    assert tokenizer.fits(text, limit) == (tokenizer.count(text) <= limit)


def test_every_code_point_has_the_class_that_tiktoken_gives_it(ours: Tokenizer, theirs: Callable[[str], int]) -> None:
    """Each character stands where every class would be cut in another place."""

    def probe(code: int) -> str:
        c = chr(code)
        return f"a{c}A{c}b {c}1{c}\n{c}{c}/A{c}{c}. "

    for start in range(0, 0x110000, 64):
        text = "".join(map(probe, range(start, start + 64)))
        if ours.count(text) != theirs(text):
            wrong = [hex(code) for code in range(start, start + 64) if ours.count(probe(code)) != theirs(probe(code))]
            pytest.fail(f"classes of {wrong or hex(start)}")


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        pytest.param("o200k_base", " " * 1_000_000, 7_813, id="a million spaces"),
        pytest.param("o200k_base", " " * 1_000_000 + "x", 7_814, id="a million spaces and an x"),
        pytest.param("cl100k_base", "a" * 100_000, 12_500, id="100k of one letter"),
        pytest.param("o200k_base", "<|endoftext|>", 7, id="special-token text is text"),
        pytest.param("o200k_base", "\ud83d", 1, id="a lone surrogate is U+FFFD"),
        pytest.param("o200k_base", "", 0, id="nothing"),
    ],
)
def test_known_counts(name: str, text: str, tokens: int) -> None:
    assert TOKENIZERS[name].count(text) == tokens


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def recorded_texts(path: Path) -> Iterator[str]:
    """The file itself, line by line, and the strings inside it."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        yield line
        try:
            yield from strings(json.loads(line))
        except ValueError:
            continue


@pytest.mark.data
def test_recorded_text_counts_as_in_tiktoken(
    recorded: Path, full: bool, ours: Tokenizer, theirs: Callable[[str], int]
) -> None:
    files = sorted(path for path in recorded.rglob("*") if path.suffix in {".jsonl", ".json", ".md", ".af"})
    assert files
    for path in files:
        for n, text in enumerate(recorded_texts(path)):
            if full or n % 37 == 0:
                assert ours.count(text) == theirs(text), f"{path}, text {n}"
