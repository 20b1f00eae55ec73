"""Figures as text for a terminal, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Any

from holdall.replay.replay import Replay
from holdall.replay.rows import Figures, Row


def tokens_text(count: float) -> str:
    """Tokens as people write budgets: 4k, 1.5k, 128k, 900."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return f"{count:.0f}"


def time_text(us: float) -> str:
    """Microseconds as people read them."""
    for size, unit in ((1_000_000, "s"), (1_000, "ms")):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.0f} us"


def dollars_text(dollars: float) -> str:
    """Dollars with as many digits as they need."""
    for least, digits in ((10, 2), (0.1, 3), (0.01, 4)):
        if dollars >= least:
            return f"${dollars:,.{digits}f}"
    return f"${dollars:.6f}" if dollars else "$0"


def share_text(share: float | None) -> str:
    """A share as .87, nothing for None."""
    return "" if share is None else f"{share:.2f}"


def render(outcome: Replay) -> str:
    """A table for each set: strategies by budget."""
    parts = []
    for source in dict.fromkeys(one.source for one in outcome.figures):
        chosen = [one for one in outcome.figures if one.source == source]
        verdicts = [line for budget in outcome.budgets for line in _verdict(chosen, budget)]
        parts.append("\n".join([_headline(outcome, source, chosen), *_table(chosen), *verdicts]))
    return "\n\n".join([*parts, "\n".join(_notes(outcome))])


def _notes(outcome: Replay) -> Iterator[str]:
    """What the columns mean."""
    price = outcome.price
    yield (
        f"Tokens: {outcome.encoding}. Dollars: {outcome.model}, ${price.input:g} per million input tokens, prompt cache "
        f"{price.caching} (read ${price.cache_read:g}, write ${price.cache_write:g})."
    )
    if price.billed_ratio != 1:
        yield f"Its tokenizer is not public: {price.billed_ratio:g} billed tokens are taken for each one counted."
    if any(one.asked for one in outcome.figures):
        yield "recall: share of the evidence that is in, unchanged; in brackets the middle 95% of resampled means."
    if any(one.requests for one in outcome.figures):
        yield "same prefix: share of a request that the next one begins with. fill: of the budget, where not everything fits."
    yield "invalid: over the budget (o), a call or result alone (p), system prompt or current turn missing (m)."
    yield "refused: the strategy said that what must be in does not fit. p50, p99: processor time of a choice."


def _headline(outcome: Replay, source: str, chosen: Sequence[Figures]) -> str:
    traces = [trace for trace in outcome.traces if trace.source == source]
    first = chosen[0]
    asked = f", {first.asked:,} questions" if first.asked else ""
    messages = sum(len(trace.messages) for trace in traces)
    count = f"{len(traces)} conversation{'s' if len(traces) != 1 else ''}"
    return f"{source}: {count}, {messages:,} messages, {first.requests:,} requests{asked}"


def _table(chosen: Sequence[Figures]) -> list[str]:
    asked, sent = any(one.asked for one in chosen), any(one.requests for one in chosen)
    folds = any(one.summarizer_calls for one in chosen)
    head = ["budget", "strategy"]
    head += ["recall"] if asked else []
    head += ["input $", "no cache $", "tokens", "same prefix"] if sent else []
    head += ["fill"] if sent else []
    head += ["summaries"] if folds else []
    head += ["invalid", "refused", "p50", "p99"]
    cells = [head]
    budget = None
    for one in chosen:
        line = [tokens_text(one.budget) if one.budget != budget else "", one.strategy]
        if asked:
            recall = "" if one.recall is None else f"{one.recall:.3f} [{one.recall_low:.2f} {one.recall_high:.2f}]"
            line.append(recall)
        if sent:
            line += [dollars_text(one.dollars), dollars_text(one.dollars_uncached), tokens_text(one.tokens)]
            line += [share_text(one.stability), share_text(one.fill)]
        if folds:
            line.append(str(one.summarizer_calls or ""))
        line += [_invalid(one), str(one.refused + one.refused_questions or ""), time_text(one.p50_us)]
        cells.append([*line, time_text(one.p99_us)])
        budget = one.budget
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    left = {1}
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def _verdict(chosen: Sequence[Figures], budget: int) -> Iterator[str]:
    """The strategies to look at first, among those that were valid throughout; where several were compared."""
    here = [one for one in chosen if one.budget == budget]
    sound = [one for one in here if not (one.invalid or one.refused or one.refused_questions)]
    if len(here) < 2:  # noqa: PLR2004 - one is not compared
        return
    said = []
    found = max((one for one in sound if one.recall is not None), key=lambda one: one.recall or 0.0, default=None)
    if found is not None and found.recall:
        said.append(f"most evidence {found.strategy} ({share_text(found.recall)})")
    cheapest = min((one for one in sound if one.requests), key=lambda one: one.dollars, default=None)
    if cheapest is not None:
        sliding = next((one for one in here if one.strategy == "sliding" and one is not cheapest), None)
        ratio = f", {cheapest.dollars / sliding.dollars:.2f} x sliding" if sliding and sliding.dollars else ""
        said.append(f"cheapest {cheapest.strategy} ({dollars_text(cheapest.dollars)}{ratio})")
    yield f"-> {tokens_text(budget)}, of the {len(sound)} always valid: {'; '.join(said) or 'none'}"


def _invalid(one: Figures) -> str:
    if not one.invalid:
        return "0"
    kinds = [
        f"{count}{letter}" for count, letter in ((one.overflow, "o"), (one.orphans, "p"), (one.missing, "m")) if count
    ]
    return f"{one.invalid} ({' '.join(kinds)})"


def as_document(outcome: Replay) -> dict[str, Any]:
    """All figures as plain values, for JSON; the rows of single conversations with them."""
    return {
        "model": outcome.model,
        "price": asdict(outcome.price),
        "encoding": outcome.encoding,
        "budgets": list(outcome.budgets),
        "strategies": list(outcome.strategies),
        "figures": [one.as_dict() for one in outcome.figures],
        "rows": [row_dict(row) for row in outcome.rows],
    }


def row_dict(row: Row) -> dict[str, Any]:
    """A row without what is kept for charts and percentiles."""
    found = asdict(row)
    for name in ("latencies_us", "timeline"):
        del found[name]
    return found


def to_json(outcome: Replay) -> str:
    """The document as JSON on one line."""
    return json.dumps(as_document(outcome), ensure_ascii=False)


def to_csv(outcome: Replay) -> str:
    """One line for each set, strategy and budget."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=[one.name for one in fields(Figures)], lineterminator="\n")
    writer.writeheader()
    for one in outcome.figures:
        writer.writerow({name: _cell(value) for name, value in one.as_dict().items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    # A cell that begins like a formula is run by spreadsheets.
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
