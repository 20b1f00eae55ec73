"""What input tokens cost, with the rules of each provider's prompt cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from holdall.errors import ArgumentError, UnknownNameError

Caching = Literal["automatic", "breakpoints", "none"]

# A larger figure in a file of prices is a mistake, and sums of such are no numbers any more.
LARGEST: Final = 1e12


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens, and when a prefix is cached.

    Attributes:
        input: A token that is neither read from the cache nor written to it.
        output: A token of an answer; only the summariser's are counted.
        cache_read: A token of a prefix that is cached.
        cache_write: A token that is put into the cache.
        caching: "automatic": any prefix that was sent before is read; "breakpoints": only prefixes that end where an earlier
            request had set a breakpoint; "none".
        minimum: The shortest prefix that is cached, in billed tokens.
        step: Cached prefixes are cut to a multiple of it, in billed tokens.
        lookback: With breakpoints: how many blocks before a breakpoint a cached prefix may end to be found.
        billed_ratio: Billed tokens for each one counted, where the model's tokenizer is not public.
    """

    input: float
    output: float
    cache_read: float
    cache_write: float
    caching: Caching = "automatic"
    minimum: int = 1024
    step: int = 1
    lookback: int = 20
    billed_ratio: float = 1.0


def _openai(price: float, output: float, read: float, write: float | None = None) -> Price:
    # From 1,024 tokens in steps of 128; writing costs nothing extra before GPT-5.6, 1.25 of the input price from there
    # (platform.openai.com/docs/guides/prompt-caching, 2026-11).
    return Price(price, output, read, price if write is None else write, "automatic", 1024, 128)


def _anthropic(price: float, output: float, read: float, minimum: int) -> Price:
    # A 5-minute write costs 1.25 of the input price, an entry is found up to 20 blocks before a breakpoint
    # (platform.claude.com/docs, prompt caching, 2026-11). Claude has no public tokenizer: billed were 1.12 to 1.5 times
    # o200k_base on recorded coding sessions (`python -m benches.usage`); 1.3 is the middle.
    return Price(price, output, read, price * 1.25, "breakpoints", minimum, 1, 20, 1.3)


# Dollars per million tokens as the providers' price pages gave them in November 2026.
PRICES: Final[Mapping[str, Price]] = {
    "gpt-4o": _openai(2.5, 10, 1.25),
    "gpt-4.1": _openai(2, 8, 0.5),
    "gpt-5": _openai(1.25, 10, 0.125),
    "gpt-5.6": _openai(4, 20, 0.4, 5),
    "claude-opus-5-5": _anthropic(4, 20, 0.2, 512),
    "claude-sonnet-5-5": _anthropic(2, 10, 0.2, 1024),
    "claude-haiku-4-5": _anthropic(1, 5, 0.1, 4096),
    # Implicit caching from 2,048 tokens, no write fee (ai.google.dev/gemini-api/docs/caching, 2026-10).
    "gemini-2.5-pro": Price(1.25, 10, 0.125, 1.25, "automatic", 2048, 1),
}


def price_of(model: str, file: str | Path | None = None) -> Price:
    """Return the price of a model.

    Args:
        model: A name in the file, or else one of `PRICES`.
        file: Prices of the caller's: JSON that gives for each model the fields of `Price` ("input", "output", and as far
            as they differ the others), or litellm's model_prices_and_context_window.json.

    Raises:
        UnknownNameError: There is no such model.
        ArgumentError: The file cannot be read, or a price in it is no number of at least 0.
    """
    own = _file(Path(file)) if file is not None else {}
    if model in own:
        return _price(model, own[model])
    if model in PRICES:
        return PRICES[model]
    known = [*own, *PRICES] if len(own) <= 30 else list(PRICES)  # noqa: PLR2004 - litellm's file has thousands
    raise UnknownNameError(
        f"no price for the model {model!r}; known: {', '.join(known)}. Give others in a file",
        what="model",
        name=model,
        known=known,
    )


def _file(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ArgumentError(f"{path} must hold one object: prices by the name of the model")
    return document


def _price(model: str, row: Any) -> Price:
    if not isinstance(row, dict):
        raise ArgumentError(f"the price of {model!r} must be an object")
    if "input_cost_per_token" in row:
        return _litellm(model, row)
    names = {field.name for field in fields(Price)}
    unknown = sorted(row.keys() - names)
    if unknown:
        raise ArgumentError(f"the price of {model!r} has no field {unknown[0]!r}; there are {', '.join(sorted(names))}")
    amounts = {name: _number(model, name, value) for name, value in row.items() if name != "caching"}
    if "input" not in amounts or "output" not in amounts:
        raise ArgumentError(
            f"the price of {model!r} needs at least `input` and `output`, in dollars per million tokens"
        )
    caching = row.get("caching", "automatic" if "cache_read" in row else "none")
    if caching not in get_args(Caching):
        raise ArgumentError(f"the price of {model!r} has caching {caching!r}; known: {', '.join(get_args(Caching))}")
    if amounts.get("step") == 0 or amounts.get("billed_ratio") == 0:
        raise ArgumentError(f"the price of {model!r} has a `step` or `billed_ratio` of 0")
    plain = amounts["input"]
    whole = {name: int(amounts[name]) for name in ("minimum", "step", "lookback") if name in amounts}
    for name, value in whole.items():
        if value != amounts.pop(name):
            raise ArgumentError(f"the price of {model!r}: {name} must be a whole number, not {row[name]!r}")
    return Price(**{"cache_read": plain, "cache_write": plain, **amounts}, caching=caching, **whole)  # type: ignore[arg-type]


def _litellm(model: str, row: dict[str, Any]) -> Price:
    million = 1_000_000
    amounts = {
        name: _number(model, key, row[key]) * million
        for name, key in (
            ("input", "input_cost_per_token"),
            ("output", "output_cost_per_token"),
            ("cache_read", "cache_read_input_token_cost"),
            ("cache_write", "cache_creation_input_token_cost"),
        )
        if row.get(key) is not None
    }
    if "input" not in amounts:
        raise ArgumentError(f"the price of {model!r} has no `input_cost_per_token`")
    plain = amounts["input"]
    write = amounts.get("cache_write", plain)
    read = amounts.get("cache_read")
    if read is None:
        return Price(plain, amounts.get("output", 0.0), plain, plain, "none")
    # The file has no rules: those with Anthropic's extra fee for writing are taken to be Anthropic's.
    if "claude" in model or "anthropic" in str(row.get("litellm_provider")):
        return Price(plain, amounts.get("output", 0.0), read, write, "breakpoints", 1024, 1, 20, 1.3)
    return Price(plain, amounts.get("output", 0.0), read, write, "automatic", 1024, 128)


def _number(model: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST:
        shown = f"{value!r:.40}"
        raise ArgumentError(
            f"the price of {model!r}: {name} must be a number of at least 0 and at most {LARGEST:g}, not {shown}"
        )
    return value


# A summary has to stay this many turns to pay for itself, as a rule of thumb; the prices decide within it.
FEWEST_TURNS: Final = 8
MOST_TURNS: Final = 12


def break_even_turns(price: Price, folded: int, summary: int) -> float:
    """Turns after which folding tokens into a summary has paid for itself.

    Making it costs `folded` input and `summary` output tokens once; each turn after that saves `folded - summary` tokens
    at the price they would have cost: that of a cache read, where there is a cache.
    """
    saved = (folded - summary) * (price.input if price.caching == "none" else price.cache_read)
    return (folded * price.input + summary * price.output) / saved if saved > 0 else float("inf")


def turns_between_folds(price: Price, folded: int, summary: int) -> int:
    """How many turns a fold should make room for: the break-even of the prices, within 8 to 12."""
    turns = break_even_turns(price, folded, summary)
    return int(min(max(turns, FEWEST_TURNS), MOST_TURNS))
