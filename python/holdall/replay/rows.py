"""Figures of a replay: one row for each conversation, strategy and budget, and what they come to together."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Final

from holdall.replay.cache import PromptCache
from holdall.replay.prices import Price

DRAWS: Final = 400
MILLION: Final = 1_000_000


@dataclass
class Row:
    """One conversation with one strategy at one budget.

    Attributes:
        trace: Name of the conversation.
        source: The set it belongs to.
        strategy: Name of the strategy.
        budget: Tokens that a request may have.
        requests: Turns that were replayed.
        refused: Turns at which the strategy said that what must be in does not fit; nothing was sent.
        asked: Questions that were asked.
        refused_questions: Of these, refused.
        overflow: Requests and questions that exceed the budget.
        orphans: Those with a result without its call or the other way round.
        missing: Those that lack the system prompt, the last user message or the last group.
        invalid: Those with any of the three.
        tokens: Input tokens of all turns, as counted.
        dollars: Input dollars of all turns with the prompt cache at its best use, and of the summariser.
        dollars_uncached: The same without a prompt cache.
        caching: What the cache's best use is: "automatic", "conversation", "lasting", "prompt" or "off".
        read, written: Billed tokens read from the cache, and written to it.
        shared: Tokens of the common beginning of each request and the one before it.
        previous: Tokens of those before it.
        breaks: Requests that do not begin with the whole of the one before.
        tight: Turns at which not everything fitted.
        fill_sum: Share of the budget that was used, summed over these.
        summarizer_calls: Calls to a model to summarise.
        summarizer_tokens: Input and output tokens of these.
        summarizer_dollars: What they cost; part of `dollars`.
        question_tokens: Input tokens of the questions.
        recalls: Of each question, the share of its evidence that is in, unchanged or quoted word for word.
        recalls_any: The same, in any form.
        latencies_us: Microseconds of processor time of each choice: other work on the machine does not count, nor does waiting.
        timeline: Of each turn: messages so far, tokens sent, tokens shared with the request before.
    """

    trace: str
    source: str
    strategy: str
    budget: int
    requests: int = 0
    refused: int = 0
    asked: int = 0
    refused_questions: int = 0
    overflow: int = 0
    orphans: int = 0
    missing: int = 0
    invalid: int = 0
    tokens: int = 0
    dollars: float = 0.0
    dollars_uncached: float = 0.0
    caching: str = "off"
    read: float = 0.0
    written: float = 0.0
    shared: int = 0
    previous: int = 0
    breaks: int = 0
    tight: int = 0
    fill_sum: float = 0.0
    summarizer_calls: int = 0
    summarizer_tokens: int = 0
    summarizer_dollars: float = 0.0
    question_tokens: int = 0
    recalls: list[float] = field(default_factory=list)
    recalls_any: list[float] = field(default_factory=list)
    latencies_us: list[float] = field(default_factory=list)
    timeline: list[tuple[int, int, int]] = field(default_factory=list)

    def summarize(self, calls: Sequence[tuple[int, int]], price: Price) -> None:
        """Count calls to a summariser."""
        for read, written in calls:
            if read < 0 or written < 0:
                raise ValueError(f"tokens below 0: {(read, written)}")
            self.summarizer_calls += 1
            self.summarizer_tokens += read + written
            self.summarizer_dollars += price.billed_ratio * (read * price.input + written * price.output) / MILLION

    def charge(self, cache: PromptCache, price: Price) -> None:
        """Take what the turns cost."""
        self.caching, charge = cache.best()
        self.read, self.written = charge.read, charge.written
        self.dollars = charge.dollars(price) + self.summarizer_dollars
        off = cache.charges.get("off")
        self.dollars_uncached = (off.dollars(price) if off else 0.0) + self.summarizer_dollars


@dataclass
class Figures:
    """What the rows of one set, one strategy and one budget come to.

    Attributes are those of `Row`, summed, and:

        conversations: How many.
        recall, recall_low, recall_high: Mean share of evidence that is in unchanged, and the middle 95% of means over
            resampled conversations' questions; None where nothing was asked.
        recall_any: The same in any form.
        stability: Share of a request that the next one begins with.
        fill: Share of the budget that is used where not everything fits; None where everything always fitted.
        p50_us, p99_us: Microseconds of processor time of a choice.
    """

    source: str
    strategy: str
    budget: int
    conversations: int
    requests: int
    refused: int
    asked: int
    refused_questions: int
    overflow: int
    orphans: int
    missing: int
    invalid: int
    tokens: int
    dollars: float
    dollars_uncached: float
    read: float
    written: float
    breaks: int
    summarizer_calls: int
    summarizer_tokens: int
    summarizer_dollars: float
    question_tokens: int
    recall: float | None
    recall_low: float | None
    recall_high: float | None
    recall_any: float | None
    stability: float | None
    shared_mean: float | None
    fill: float | None
    tight: int
    p50_us: float
    p99_us: float

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain values."""
        return asdict(self)


SUMMED: Final = (
    "requests", "refused", "asked", "refused_questions", "overflow", "orphans", "missing", "invalid", "tokens", "dollars",
    "dollars_uncached", "read", "written", "breaks", "summarizer_calls", "summarizer_tokens", "summarizer_dollars",
    "question_tokens", "tight",
)  # fmt: skip


def figures(rows: Iterable[Row]) -> list[Figures]:
    """Add rows up by set, strategy and budget, in the order in which these first occur."""
    rows = list(rows)
    order: dict[str, dict[Any, int]] = {"source": {}, "strategy": {}}
    for row in rows:
        order["source"].setdefault(row.source, len(order["source"]))
        order["strategy"].setdefault(row.strategy, len(order["strategy"]))
    cells: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.source, row.strategy, row.budget), []).append(row)
    keys = sorted(cells, key=lambda key: (order["source"][key[0]], key[2], order["strategy"][key[1]]))
    return [_figures(key, cells[key]) for key in keys]


def _figures(key: tuple[str, str, int], rows: Sequence[Row]) -> Figures:
    source, strategy, budget = key
    recalls = [value for row in rows for value in row.recalls]
    shown = [value for row in rows for value in row.recalls_any]
    previous, shared = sum(row.previous for row in rows), sum(row.shared for row in rows)
    pairs = sum(max(len(row.timeline) - 1, 0) for row in rows)
    tight = sum(row.tight for row in rows)
    latencies = sorted(value for row in rows for value in row.latencies_us)
    low, high = interval(recalls) if recalls else (None, None)
    sums: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
    return Figures(
        source=source,
        strategy=strategy,
        budget=budget,
        conversations=len(rows),
        recall=fmean(recalls) if recalls else None,
        recall_low=low,
        recall_high=high,
        recall_any=fmean(shown) if shown else None,
        stability=shared / previous if previous else None,
        shared_mean=shared / pairs if pairs else None,
        fill=sum(row.fill_sum for row in rows) / tight if tight else None,
        p50_us=percentile(latencies, 0.50),
        p99_us=percentile(latencies, 0.99),
        **sums,
    )


def interval(values: Sequence[float], *, seed: int = 7, draws: int = DRAWS) -> tuple[float, float]:
    """The middle 95% of the means of resampled values; the same for the same values."""
    draw = random.Random(seed)  # noqa: S311 - a bootstrap, not a secret
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(draws))
    return means[int(draws * 0.025)], means[int(draws * 0.975)]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of sorted values lies; 0 where there are none."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
