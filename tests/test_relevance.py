"""Lexical relevance: what a query finds, in which language, and how the index grows."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import _native
from holdall.errors import ArgumentError


def index_of(*texts: str) -> _native.LexicalIndex:
    index = _native.LexicalIndex()
    index.add_many(texts)
    return index


@pytest.mark.parametrize(
    ("query", "text", "other"),
    [
        pytest.param(
            "user payments", "The user paid; payment cleared", "The dog barked at noon", id="english, stemmed"
        ),
        pytest.param("change user name", "calls getUserName()", "calls getItemPrice()", id="camel case"),
        pytest.param("change user name", "calls set_user_name()", "calls set_item_price()", id="snake case"),
        pytest.param("what is in os.path?", "import os.path", "import sys", id="dotted"),
        pytest.param("天气", "今天天气很好", "我喜欢猫", id="chinese"),
        pytest.param("東京の天気", "東京は晴れ", "大阪は雨です", id="japanese"),
        pytest.param("한국어 공부", "한국어를 배운다", "점심을 먹었다", id="korean"),
        pytest.param("résumé", "my resume is ready", "my lunch is ready", id="accents"),
        pytest.param("погода", "Погода хорошая", "Кошка спит", id="russian"),
    ],
)
def test_a_query_finds_its_text(query: str, text: str, other: str) -> None:
    """The text that shares words with the query scores above the one that does not."""
    found, missed = index_of(text, other).scores(query)
    assert found > missed == 0.0


def test_no_match_and_no_query_score_zero() -> None:
    """Nothing in common is 0, not an error."""
    index = index_of("a dog", "")
    assert index.scores("") == [0.0, 0.0]
    assert index.scores("of the") == [0.0, 0.0]
    assert index.scores("zebra") == [0.0, 0.0]
    assert _native.LexicalIndex().scores("dog") == []


@given(st.lists(st.text(alphabet="ab cA_猫é", max_size=20), max_size=8), st.text(alphabet="ab cA_猫é", max_size=10))
def test_growing_equals_building(texts: list[str], query: str) -> None:
    """Adding one by one, all at once, or after a truncate gives the same scores."""
    one_by_one = _native.LexicalIndex()
    for text in texts:
        one_by_one.add(text)
    cut = index_of(*texts, "something more", "b a")
    cut.truncate(len(texts))
    assert one_by_one.scores(query) == index_of(*texts).scores(query) == cut.scores(query)
    assert len(cut) == len(texts)


def test_surrogates_and_long_words_are_text() -> None:
    """A lone surrogate, a giant word and a million spaces are scored, not refused."""
    index = index_of("dog \ud83d", "x" * 100_000, " " * 1_000_000)
    assert index.scores("dog \ud83d")[0] > 0
    assert index.scores("x" * 100_000)[1] > 0


def test_threads_share_an_index() -> None:
    """Adding from several threads loses nothing and raises nothing."""
    index = _native.LexicalIndex()
    threads = [threading.Thread(target=index.add_many, args=(["a red dog"] * 200,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(index) == 800
    assert len(set(index.scores("dog"))) == 1


@pytest.mark.parametrize(("k1", "b"), [(-1.0, 0.5), (1.2, 1.5), (math.nan, 0.5), (1.2, math.inf)])
def test_parameters_out_of_range_are_refused(k1: float, b: float) -> None:
    """The message names both parameters and their ranges."""
    with pytest.raises(ArgumentError, match=r"k1 is .* b is .* between 0 and 1"):
        _native.LexicalIndex(k1=k1, b=b)


def test_spread_lifts_neighbours() -> None:
    """The match is 1.0, its neighbours follow the kernel, and the far ones keep nothing."""
    spread = _native.sharpen_and_spread([0, 0, 0, 0, 0, 0, 0, 2.0], reach=6)
    assert spread == pytest.approx([0.0, 0.04, 0.04, 0.1, 0.2, 0.3, 0.5, 1.0])


def test_spread_without_a_match_is_uniform() -> None:
    """A query that finds nothing leaves the other factors of a priority as they are."""
    assert _native.sharpen_and_spread([0.0, math.nan, -1.0]) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("call", [{"power": 0.0}, {"power": math.nan}, {"kernel": (-0.1, 0, 0, 0)}, {"tail": -1.0}])
def test_spread_refuses_what_makes_no_sense(call: dict[str, float]) -> None:
    """A power or share out of range is named."""
    with pytest.raises(ArgumentError, match="power is"):
        _native.sharpen_and_spread([1.0], **call)


def test_fusion_by_rank() -> None:
    """Two rankings meet in the middle; a lexical zero adds nothing."""
    fused = _native.fuse_by_rank([5.0, 4.0, 0.0], [0.1, 0.3, 0.2])
    assert fused[1] == 1.0
    assert fused[0] > fused[2]
    with pytest.raises(ArgumentError, match="2 lexical scores but 1"):
        _native.fuse_by_rank([1.0, 2.0], [1.0])
    with pytest.raises(ArgumentError, match="score 0 is not finite"):
        _native.fuse_by_rank([math.nan], [1.0])
