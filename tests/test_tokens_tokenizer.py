"""What a Tokenizer does beside counting: other sources of counts, limits, memory, errors, other processes."""

from __future__ import annotations

import copy
import os
import pickle
import random
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
import tiktoken
from hypothesis import example, given
from hypothesis import strategies as st

import holdall
from holdall import Tokenizer, errors

O200K = Tokenizer("o200k_base")
BYTES = {bytes([byte]): byte for byte in range(256)}


def words(text: str) -> int:
    return len(text.split())


class RefusedError(Exception):
    pass


# -- names -------------------------------------------------------------------------------------------------------------


def test_unknown_encoding_names_the_known_ones() -> None:
    with pytest.raises(
        errors.UnknownNameError, match='unknown encoding "p50k"; known: o200k_base, cl100k_base'
    ) as caught:
        Tokenizer("p50k")
    assert caught.value.known == ["o200k_base", "cl100k_base"]
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        *[
            (model, "o200k_base")
            for model in ("gpt-4o", "gpt-4o-mini-2024-07-18", "gpt-4.1", "gpt-5", "gpt-5.6-mini", "o1", "o3-mini")
        ],
        *[
            (model, "o200k_base")
            for model in ("o4-mini", "openai/gpt-5-mini", "ft:gpt-4o:org:name", "GPT-4o", "gpt-oss-120b")
        ],
        *[
            (model, "cl100k_base")
            for model in ("gpt-4", "gpt-4-turbo", "gpt-3.5-turbo-0125", "gpt-35-turbo", "ft:gpt-3.5-turbo")
        ],
        *[
            (model, "cl100k_base")
            for model in ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")
        ],
    ],
)
def test_model_names(model: str, encoding: str) -> None:
    assert Tokenizer.for_model(model).name == encoding


@pytest.mark.parametrize(
    "model", ["claude-sonnet-5-5", "gemini-2.5-pro", "llama-4", "", "gpt", "o1x", "gpt-40", "text-embedding-004"]
)
def test_models_without_a_known_tokenizer_are_refused_with_advice(model: str) -> None:
    with pytest.raises(errors.UnknownNameError, match=r"known: .*gpt-4o.*from_callable.*margin"):
        Tokenizer.for_model(model)


def test_it_says_what_it_is() -> None:
    assert repr(O200K) == "Tokenizer('o200k_base')"
    assert repr(Tokenizer.from_callable(words, margin=0.2)) == "Tokenizer.from_callable(words, margin=0.2)"
    assert (O200K.name, O200K.margin) == ("o200k_base", 0.0)
    with pytest.raises(AttributeError):
        O200K.name = "other"  # type: ignore[misc]


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [O200K.fits, O200K.cut, Tokenizer.from_callable(words).cut])
def test_limits_outside_their_domain_are_typed_errors(method) -> None:
    with pytest.raises(errors.ArgumentError, match="limit must be at least 0, not -1"):
        method("text", -1)
    for wrong in (1.0, "1", None, True):
        with pytest.raises(TypeError, match="limit must be an int, not"):
            method("text", wrong)
    assert method("a b c", 2**100)


def test_not_text_is_a_type_error() -> None:
    for wrong in (b"bytes", None, 1, ["a"]):
        with pytest.raises(TypeError):
            O200K.count(wrong)  # type: ignore[arg-type]


def test_cut_returns_what_came_in_when_all_of_it_fits() -> None:
    text = "a whole text, \ud83d included"
    assert O200K.cut(text, 100) is text


def test_cut_keeps_lone_surrogates_and_never_parts_a_pair() -> None:
    assert O200K.cut("\ud800\ud800 abc", 1) == "\ud800\ud800"
    pair = "\ud83d\ude00"
    assert O200K.count(pair) == O200K.count("\U0001f600") == 1
    assert O200K.cut(pair * 2 + "x", 1) in {pair, pair * 2}


# -- many --------------------------------------------------------------------------------------------------------------


@given(texts=st.lists(st.text(max_size=30), max_size=20))
def test_counting_many_is_counting_each(texts: list[str]) -> None:
    assert O200K.count_many(texts) == [O200K.count(text) for text in texts]


def test_counting_many_in_parallel_keeps_the_order() -> None:
    texts = [f"message {n} " * (n % 97) for n in range(3000)]
    fresh = Tokenizer("o200k_base")
    assert fresh.count_many(iter(texts)) == [O200K.count(text) for text in texts]


def test_counting_many_refuses_one_text_and_what_is_no_text() -> None:
    with pytest.raises(TypeError, match="not one str; use count"):
        O200K.count_many("text")
    with pytest.raises(TypeError, match=r"texts\[1\] must be str, not bytes"):
        O200K.count_many(["a", b"b"])  # type: ignore[list-item]


# -- a caller's counter ------------------------------------------------------------------------------------------------


def test_a_callable_counts() -> None:
    tokenizer = Tokenizer.from_callable(words, margin=0.25)
    assert (tokenizer.count("a b c"), tokenizer.count_many(["a", "a b"]), tokenizer.margin) == (3, [1, 2], 0.25)
    assert (tokenizer.fits("a b c", 3), tokenizer.fits("a b c", 2)) == (True, False)
    assert tokenizer.cut("one two three four", 2) == "one two "


@given(text=st.text(max_size=60), limit=st.integers(0, 40))
def test_cut_with_a_rising_counter_is_the_longest_prefix(text: str, limit: int) -> None:
    tokenizer = Tokenizer.from_callable(lambda part: len(part.encode("utf-8", "replace")))
    expected = max(n for n in range(len(text) + 1) if len(text[:n].encode()) <= limit)
    assert tokenizer.cut(text, limit) == text[:expected]


def test_what_a_callable_raises_comes_through_as_it_is() -> None:
    def fail(text: str) -> int:
        raise RefusedError(text)

    tokenizer = Tokenizer.from_callable(fail)
    for call in (tokenizer.count, lambda text: tokenizer.cut(text, 1), lambda text: tokenizer.fits(text, 1)):
        with pytest.raises(RefusedError, match="the text"):
            call("the text")
    with pytest.raises(RefusedError):
        tokenizer.count_many(["x"])


@pytest.mark.parametrize(
    ("given_back", "error", "message"),
    [
        pytest.param(-1, errors.ArgumentError, "not -1", id="negative"),
        pytest.param(2**70, errors.ArgumentError, "from 0 to", id="huge"),
        pytest.param(1.5, TypeError, "must return an int, not float", id="float"),
        pytest.param(True, TypeError, "must return an int, not bool", id="bool"),
        pytest.param(None, TypeError, "must return an int, not NoneType", id="None"),
        pytest.param([1, 2], TypeError, "must return an int, not list", id="tokens"),
    ],
)
def test_what_a_callable_must_not_return(given_back: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tokenizer.from_callable(lambda _: given_back).count("x")  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("margin", [-0.1, float("nan"), float("inf")])
def test_margins_outside_their_domain_are_refused(margin: float) -> None:
    with pytest.raises(errors.ArgumentError, match="margin must be a finite number of at least 0"):
        Tokenizer.from_callable(words, margin=margin)


def test_only_a_callable_is_one() -> None:
    with pytest.raises(TypeError, match="count must be callable, not int"):
        Tokenizer.from_callable(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be a tiktoken\.Encoding, not int"):
        Tokenizer.from_tiktoken(3)


# -- tiktoken encodings ------------------------------------------------------------------------------------------------


def custom(pattern: str, ranks: dict[bytes, int]) -> tiktoken.Encoding:
    return tiktoken.Encoding("custom", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|end|>": 10**6})


GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
MERGES = [b"th", b"he", b"the", b" t", b" th", b" the", b"in", b"ing", b"aa", b"aaaa", b"  ", b"\xc3\xa9", b"qx"]


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_openai_encodings_are_recognised(tiktoken_encoding, name: str) -> None:
    tokenizer = Tokenizer.from_tiktoken(tiktoken_encoding(name))
    assert tokenizer.name == name
    assert tokenizer.count(" " * 1_000_000) == 7_813  # which tiktoken itself cannot do


@pytest.mark.parametrize(
    "pattern",
    [pytest.param(GPT2, id="gpt2"), pytest.param(r"\w+|\s", id="with gaps"), pytest.param(r"(?s:.+)", id="one piece")],
)
@given(text=st.text(st.sampled_from("theing aé'sqx\n 12.!"), max_size=80) | st.text(max_size=20))
def test_any_other_encoding_counts_as_it_does(pattern: str, text: str) -> None:
    encoding = custom(pattern, BYTES | {token: 256 + n for n, token in enumerate(MERGES)})
    tokenizer = Tokenizer.from_tiktoken(encoding)
    assert tokenizer.count(text) == len(encoding.encode_ordinary(text))


def test_a_long_piece_of_another_encoding_counts_as_it_does() -> None:
    encoding = custom(r"[a-z\xe9]+|[^a-z]", BYTES | {token: 256 + n for n, token in enumerate(MERGES)})
    rng = random.Random(5)
    text = "".join(rng.choices("theingaésqx", k=150_000)) + "a" * 100_000 + " the end"
    assert Tokenizer.from_tiktoken(encoding).count(text) == len(encoding.encode_ordinary(text))


@given(
    merges=st.lists(
        st.binary(min_size=2, max_size=6).map(lambda token: bytes(97 + byte % 3 for byte in token)),
        unique=True,
        max_size=60,
    ),
    text=st.text(st.sampled_from("abc"), max_size=200),
)
@example(merges=[b"aca"], text="aca")
@example(merges=[b"ac", b"aca", b"acab", b"ca"], text="aca")
@example(merges=[b"bc", b"abc", b"ab"], text="abc")
def test_vocabularies_that_no_training_made_count_as_they_do(merges: list[bytes], text: str) -> None:
    """Tokens that no merge reaches, and tokens ranked before their halves."""
    encoding = custom(r"[a-z]+", BYTES | {token: 300 + 7 * n for n, token in enumerate(merges)})
    assert Tokenizer.from_tiktoken(encoding).count(text) == len(encoding.encode_ordinary(text))


def test_an_encoding_without_some_bytes_is_asked_itself() -> None:
    encoding = custom(r"[ab]+", {b"a": 0, b"b": 1, b"ab": 2})
    assert Tokenizer.from_tiktoken(encoding).count("ababa-b") == len(encoding.encode_ordinary("ababa-b")) == 4


def test_special_token_text_is_plain_text_in_every_source() -> None:
    encoding = custom(GPT2, BYTES)
    assert Tokenizer.from_tiktoken(encoding).count("<|end|>") == 7


# -- memory ------------------------------------------------------------------------------------------------------------


def test_the_memory_serves_the_same_string_and_an_equal_one() -> None:
    tokenizer = Tokenizer("o200k_base")
    text = "a text that is long enough to be remembered " * 10
    tokens = tokenizer.count(text)
    assert (tokenizer.cache_info().hits, tokenizer.cache_info().misses) == (0, 1)
    assert tokenizer.count(text) == tokens
    assert tokenizer.count("".join(list(text))) == tokens
    info = tokenizer.cache_info()
    assert (info.hits, info.misses, info.entries) == (2, 1, 1)
    assert info.bytes >= len(text)
    tokenizer.cache_clear()
    assert tokenizer.cache_info() == Tokenizer("o200k_base").cache_info()
    assert tokenizer.count(text) == tokens


def test_the_memory_is_bounded() -> None:
    tokenizer = Tokenizer.from_callable(len)
    for n in range(100_000):
        tokenizer.count(f"text number {n} " + "x" * 60)
    info = tokenizer.cache_info()
    assert info.entries <= 1 << 16
    assert info.bytes < 16 << 20
    assert tokenizer.count("text number 1 " + "x" * 60) == 74


def test_a_failed_count_is_not_remembered() -> None:
    calls = []

    def flaky(text: str) -> int:
        calls.append(text)
        if len(calls) == 1:
            raise RefusedError
        return 7

    tokenizer = Tokenizer.from_callable(flaky)
    with pytest.raises(RefusedError):
        tokenizer.count("x" * 100)
    assert tokenizer.count("x" * 100) == tokenizer.count("x" * 100) == 7
    assert len(calls) == 2


def test_threads_share_one_tokenizer() -> None:
    tokenizer = Tokenizer("cl100k_base")
    texts = [f"thread text {n} " * 30 for n in range(200)]
    expected = [Tokenizer("cl100k_base").count(text) for text in texts]
    start = threading.Barrier(8)

    def work(_: int) -> list[int]:
        start.wait()
        return [tokenizer.count(text) for text in texts] + tokenizer.count_many(texts)

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected * 2 for found in pool.map(work, range(8)))


def test_calls_at_once_share_the_cores() -> None:
    """Long hard texts in many threads: each may start threads, none waits for another's, no count is lost."""
    rng = random.Random(3)
    spaced = [" " + "".join(rng.choices("qxzjkvwy", k=9)) for _ in range(24_000)]
    piece = "".join(rng.choices("qxzjk", k=240_000))
    hard = ["".join(spaced), piece]
    expected = [sum(O200K.count(word) for word in spaced), O200K.count(piece)]
    tokenizer = Tokenizer("o200k_base")

    def work(_: int) -> list[int]:
        tokenizer.cache_clear()
        return tokenizer.count_many(hard)

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(work, range(24)))


# -- other processes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokenizer", [O200K, Tokenizer("cl100k_base"), Tokenizer.from_callable(words, margin=0.5)])
def test_copies_count_alike(tokenizer: Tokenizer) -> None:
    for again in (pickle.loads(pickle.dumps(tokenizer)), copy.copy(tokenizer), copy.deepcopy(tokenizer)):  # noqa: S301
        assert repr(again) == repr(tokenizer)
        assert again.count("a few words of text") == tokenizer.count("a few words of text")


def test_a_tokenizer_goes_to_another_process() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(O200K.count, "hello world").result() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_amid_counts_counts_on() -> None:
    """Threads of the parent are not the child's: it neither waits for them nor takes them for running."""
    text = "".join(random.Random(4).choices("qxzjkvwy", k=400_000))
    expected = O200K.count(text)
    stop = threading.Event()

    def keep_counting() -> None:
        tokenizer = Tokenizer("o200k_base")
        while not stop.is_set():
            tokenizer.count(text)
            tokenizer.cache_clear()

    thread = threading.Thread(target=keep_counting)
    thread.start()
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            assert list(pool.map(Tokenizer("o200k_base").count, [text] * 3)) == [expected] * 3
    finally:
        stop.set()
        thread.join()


def test_it_is_exported() -> None:
    assert "Tokenizer" in holdall.__all__
