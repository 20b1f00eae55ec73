"""What requests cost: the rules of each provider's cache, worked out by hand and against a slow model of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.errors import ArgumentError, UnknownNameError
from holdall.replay.cache import PromptCache, Sent
from holdall.replay.prices import PRICES, Price, break_even_turns, price_of, turns_between_folds

AUTOMATIC = Price(2.0, 8.0, 0.5, 2.0, "automatic", 1024, 128)
EXPLICIT = Price(2.0, 10.0, 0.2, 2.5, "breakpoints", 1000, 1)


def send(
    cache: PromptCache, requests: list[list[tuple[int, int]]], head: int = 1, lasting: list[int] | None = None
) -> None:
    """Send requests of (block, tokens); equal blocks have equal numbers."""
    last: list[tuple[int, int]] = []
    for n_sent, request in enumerate(requests):
        shared = 0
        while shared < min(len(last), len(request)) and last[shared] == request[shared]:
            shared += 1
        ends = [sum(size for _, size in request[: n + 1]) for n in range(len(request))]
        tokens = ends[shared - 1] if shared else 0
        until = lasting[n_sent] if lasting else None
        cache.send(Sent([number for number, _ in request], ends, head, shared, tokens, until))
        last = request


def test_automatic_caches_read_in_steps_from_a_minimum() -> None:
    cache = PromptCache(AUTOMATIC)
    send(cache, [[(1, 1000)], [(1, 1000), (2, 300)], [(1, 1000), (2, 300), (3, 100)]])
    name, charge = cache.best()
    # 1,000 tokens are below the minimum; of the 1,300 that the third request repeats, 1,280 are read.
    assert (name, charge.read) == ("automatic", 1280)
    assert charge.plain + charge.written == 1000 + 1300 + 1400 - 1280
    assert charge.dollars(AUTOMATIC) == pytest.approx((1280 * 0.5 + 2420 * 2) / 1e6)


def test_breakpoints_write_once_and_read_what_was_sent_before() -> None:
    cache = PromptCache(EXPLICIT)
    send(cache, [[(1, 2000), (2, 500)], [(1, 2000), (2, 500), (3, 100)]])
    whole = cache.charges["conversation"]
    assert (whole.read, whole.written, whole.plain) == (2500, 2600, 0)
    assert cache.best()[0] == "conversation"


def test_what_is_there_for_one_turn_alone_is_not_written_and_what_lasts_is_read() -> None:
    """The quote 9 stands before the turn 3 and is gone after it: only with the breakpoint before it is 2 found again."""
    requests = [[(1, 2000), (2, 500), (9, 300), (3, 100)], [(1, 2000), (2, 500), (3, 100), (4, 50)]]
    cache, blind = PromptCache(EXPLICIT), PromptCache(EXPLICIT)
    send(cache, requests, lasting=[2, 4])
    name, best = cache.best()
    assert (name, best.read, best.written, best.plain) == ("lasting", 2500, 2500 + 150, 400)
    send(blind, requests)
    whole = blind.charges["conversation"]
    assert (whole.read, whole.written, whole.plain) == (2000, 2900 + 650, 0)


def test_a_turn_of_several_requests_reads_its_own_quotes() -> None:
    """The quote 9 stays for as long as the turn 3 does: a breakpoint at the end as well pays then."""
    head = [(1, 2000), (2, 500), (9, 300), (3, 100)]
    requests = [head, [*head, (4, 50)], [*head, (4, 50), (5, 50)]]
    cache = PromptCache(EXPLICIT)
    send(cache, requests, lasting=[2, 2, 2])
    name, best = cache.best()
    assert (name, best.read, best.written, best.plain) == ("conversation", 2900 + 2950, 2900 + 50 + 50, 0)


def test_a_window_that_changes_after_the_prompt_pays_least_by_caching_the_prompt_alone() -> None:
    cache = PromptCache(EXPLICIT)
    send(cache, [[(1, 2000), (n, 3000)] for n in range(2, 12)])
    name, charge = cache.best()
    assert name == "prompt"
    assert (charge.written, charge.read, charge.plain) == (2000, 9 * 2000, 10 * 3000)


def test_a_window_that_always_changes_pays_least_without_a_cache() -> None:
    cache = PromptCache(EXPLICIT)
    send(cache, [[(n, 3000), (n + 100, 50)] for n in range(10)])
    assert cache.best()[0] == "off"


def test_a_prefix_below_the_minimum_is_not_cached() -> None:
    cache = PromptCache(EXPLICIT)
    send(cache, [[(1, 400), (2, 500)]] * 3)
    assert cache.best() == ("off", cache.charges["off"])
    assert cache.charges["conversation"].read == cache.charges["conversation"].written == 0


def test_an_entry_too_many_blocks_back_is_not_found() -> None:
    short = [(1, 2000)] + [(n, 10) for n in range(2, 10)]
    cache = PromptCache(EXPLICIT)
    # The second request is a beginning of the first that ends where no breakpoint was set: only the prompt is read.
    send(cache, [short, short[:5]])
    assert cache.charges["conversation"].read == 2000


def test_billed_tokens_may_be_more_than_those_counted() -> None:
    price = Price(2.0, 10.0, 0.2, 2.5, "none", billed_ratio=1.5)
    cache = PromptCache(price)
    send(cache, [[(1, 1000)]])
    assert cache.best()[1].dollars(price) == pytest.approx(1500 * 2 / 1e6)


@pytest.mark.parametrize(
    ("client", "ends"),
    [("conversation", lambda size: {size}), ("lasting", lambda size: set())],
    ids=["whole", "lasting"],
)
@given(st.lists(st.lists(st.integers(2, 5), max_size=8), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_breakpoints_agree_with_a_slow_model(
    client: str, ends: Callable[[int], set[int]], tails: list[list[int]], draw: Random
) -> None:
    """Entries are kept as whole prefixes, and each request looks all of them up."""
    sizes = {1: 900, 2: 300, 3: 10, 4: 700, 5: 55}
    requests = [[(n, sizes[n]) for n in [1, *tail]] for tail in tails]
    lasting = [draw.randint(0, len(request)) for request in requests]
    cache = PromptCache(EXPLICIT)
    send(cache, requests, lasting=lasting)
    entries: set[tuple[int, ...]] = set()
    read = written = total = 0
    last: list[int] = []
    for until, request in zip(lasting, requests, strict=True):
        blocks = [n for n, _ in request]
        shared = 0
        while shared < min(len(last), len(blocks)) and last[shared] == blocks[shared]:
            shared += 1
        places = {1, shared, until, *ends(len(blocks))} - {0}
        found = max(
            (len(one) for one in entries if tuple(blocks[: len(one)]) == one and len(one) <= max(places)), default=0
        )
        before = sum(sizes[n] for n in blocks[:found])
        stored = before
        for place in places:
            size = sum(sizes[n] for n in blocks[:place])
            if size >= EXPLICIT.minimum:
                entries.add(tuple(blocks[:place]))
                stored = max(stored, size)
        read, written, total = read + before, written + stored - before, total + sum(sizes[n] for n in blocks)
        last = blocks
    charge = cache.charges[client]
    assert (charge.read, charge.written, charge.plain) == (read, written, total - read - written)


def test_the_table_is_the_published_one() -> None:
    sonnet = PRICES["claude-sonnet-5-5"]
    assert (sonnet.input, sonnet.cache_read, sonnet.cache_write, sonnet.caching) == (2, 0.2, 2.5, "breakpoints")
    assert (PRICES["gpt-4o"].cache_write, PRICES["gpt-5.6"].cache_write) == (2.5, 5)
    for price in PRICES.values():
        assert price.cache_read <= price.input <= price.cache_write <= 2 * price.input


def written(folder: Path, value: object) -> Path:
    path = folder / "prices.json"
    path.write_text(json.dumps(value))
    return path


def test_prices_of_the_users_own_come_first(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"gpt-4o": {"input": 1, "output": 2, "cache_read": 0.1, "minimum": 64}, "mine": {"input": 3, "output": 4}},
    )
    assert price_of("gpt-4o", path) == Price(1, 2, 0.1, 1, "automatic", 64)
    assert price_of("mine", path) == Price(3, 4, 3, 3, "none")
    assert price_of("gpt-5", path) == PRICES["gpt-5"]


def test_litellm_prices_are_read(tmp_path: Path) -> None:
    rows = {
        "sample_spec": {"input_cost_per_token": 0},
        "anthropic/claude-x": {"input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 2e-07,
                               "cache_creation_input_token_cost": 2.5e-06, "litellm_provider": "anthropic"},
        "gpt-x": {"input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06, "cache_read_input_token_cost": 5e-07},
        "plain": {"input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
    }  # fmt: skip
    path = written(tmp_path, rows)
    claude, gpt, plain = (price_of(name, path) for name in ("anthropic/claude-x", "gpt-x", "plain"))
    assert (claude.input, claude.cache_write, claude.caching) == (pytest.approx(2), pytest.approx(2.5), "breakpoints")
    assert (gpt.cache_read, gpt.caching, gpt.step) == (pytest.approx(0.5), "automatic", 128)
    assert plain.caching == "none"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param([], "one object", id="a list"),
        pytest.param({"m": 3}, "must be an object", id="a number"),
        pytest.param({"m": {"input": -1, "output": 1}}, "at least 0", id="negative"),
        pytest.param({"m": {"input": True, "output": 1}}, "at least 0", id="a boolean"),
        pytest.param({"m": {"input": 1}}, "at least `input` and `output`", id="no output"),
        pytest.param({"m": {"input": 1, "output": 1, "inptu": 1}}, "no field 'inptu'", id="a typing error"),
        pytest.param({"m": {"input": 1, "output": 1, "caching": "magic"}}, "magic", id="unknown caching"),
        pytest.param({"m": {"input": 1, "output": 1, "step": 0}}, "`step`", id="a step of 0"),
        pytest.param({"m": {"input": 1, "output": 1, "step": 0.5}}, "step must be a whole number", id="half a step"),
        pytest.param(
            {"m": {"input": 1, "output": 1, "billed_ratio": 1e300}}, "at most 1e\\+12", id="a sum that is no number"
        ),
        pytest.param({"m": {"input": 10**400, "output": 1}}, "at most 1e\\+12", id="no float"),
        pytest.param({"m": {"input_cost_per_token": None}}, "no `input_cost_per_token`", id="litellm without a price"),
    ],
)
def test_bad_prices_are_one_clear_line(value: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=said):
        price_of("m", written(tmp_path, value))


def test_an_unknown_model_names_the_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="claude-sonnet-5-5"):
        price_of("no-such-model")
    with pytest.raises(ArgumentError, match="cannot read"):
        price_of("m", tmp_path / "no.json")


def test_a_summary_pays_for_itself_after_turns_that_the_prices_decide() -> None:
    # 10,000 tokens read once at 2 and 1,000 written at 10, against 9,000 saved a turn at 0.2.
    assert break_even_turns(EXPLICIT, 10_000, 1_000) == pytest.approx((20_000 + 10_000) / 1_800)
    assert turns_between_folds(EXPLICIT, 10_000, 1_000) == 12
    assert turns_between_folds(Price(2, 8, 2, 2, "none"), 10_000, 1_000) == 8
    assert turns_between_folds(Price(1, 2, 0.12, 1), 10_000, 1_000) == 11
    assert break_even_turns(EXPLICIT, 100, 100) == float("inf")
