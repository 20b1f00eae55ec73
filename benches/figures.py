"""Figures with their spread, and the table they are printed in."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def is_full() -> bool:
    """Whether the whole load is asked for, as of the tests."""
    return os.environ.get("HOLDALL_PROFILE") == "full"


class Median(float):
    """The median of some samples, which it keeps for their spread."""

    samples: tuple[float, ...]

    def __new__(cls, samples: Iterable[float]) -> Median:  # noqa: PYI034 - `Self` is of Python 3.11
        """Take the median of at least one sample."""
        kept = tuple(samples)
        made = super().__new__(cls, statistics.median(kept))
        made.samples = kept
        return made


def percentile(samples: Iterable[float], share: int) -> float:
    """The sample that `share` percent are not above."""
    kept = sorted(samples)
    return kept[max(0, math.ceil(len(kept) * share / 100) - 1)]


def late(what: str, ours: Iterable[float], peer: Iterable[float]) -> Row:
    """The row of the 99th percentiles of some times, of which nothing was promised."""
    return late_row(what, percentile(ours, 99) * 1000, percentile(peer, 99) * 1000)


def late_row(what: str, ours: float, peer: float) -> Row:
    """As `late`, of percentiles in milliseconds that are known."""
    return {
        "what": f"{what}: 99th percentile, ours in ms",
        "ours": ours,
        "peer": peer,
        "unit": "ms",
        "ratio": ours,
        "must": None,
        "aim": None,
        "lower": True,
    }


def quartiles(samples: Iterable[float]) -> tuple[float, float]:
    """The middle half of some samples; the ends where there are few."""
    kept = sorted(samples)
    if len(kept) < 4:
        return kept[0], kept[-1]
    low, _, high = statistics.quantiles(kept, n=4, method="inclusive")
    return low, high


def spread(row: Row) -> tuple[float, float] | None:
    """The quartiles of a row's ratio: round by round where both sides were timed in turn; what the row says itself comes first."""
    if given := row.get("spread"):
        low, high = given
        return low, high
    ours, peer, ratio = row.get("ours"), row.get("peer"), row.get("ratio")
    if not isinstance(ours, Median) or not ours or ratio is None:
        return None
    if not peer or ratio == ours:
        return _scaled(ours, ratio / ours)
    if not isinstance(peer, Median) or len(peer.samples) != len(ours.samples) or min(*ours.samples, *peer.samples) <= 0:
        return None
    rounds = [one / other for one, other in zip(ours.samples, peer.samples, strict=True)]
    if abs(peer / ours - ratio) < abs(ours / peer - ratio):
        rounds = [1 / one for one in rounds]
    return quartiles(rounds)


def _scaled(ours: Median, by: float) -> tuple[float, float]:
    low, high = quartiles(ours.samples)
    return low * by, high * by


def verdict(row: Row) -> str:
    """Whether a row reaches its aim, its must, or falls short; a row that was not measured is no pass."""
    if "failed" in row:
        return "FAILED"
    ratio, must, aim = row.get("ratio"), row.get("must"), row.get("aim")
    if ratio is None or (must is None and aim is None):
        return ""
    sign = -1 if row.get("lower") else 1
    if must is not None and sign * ratio < sign * must:
        return "SHORT"
    if aim is None:
        return "must"
    if sign * ratio >= sign * aim:
        return "aim"
    return "must" if must is not None else "below aim"


def figure(value: float | None, unit: str) -> str:
    """A figure a person can read."""
    if value is None:
        return ""
    if unit != "s":
        return f"{value:,.4g} {unit}".rstrip()
    for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value / 1e-9:.3g} ns"


COLUMNS = ("what", "ours", "peer", "ratio", "quartiles", "must", "aim", "")


def cells(row: Row) -> list[str]:
    """One line of the table."""
    unit = row.get("unit", "s")
    ratio, must, aim = (f"{row[key]:,.3g}" if row.get(key) is not None else "" for key in ("ratio", "must", "aim"))
    ends = spread(row)
    around = f"{ends[0]:,.3g} to {ends[1]:,.3g}" if ends else ""
    sides = (figure(row.get(side), unit) for side in ("ours", "peer"))
    return [f"  {row['what']}", *sides, ratio, around, must, aim, verdict(row)]


def render(sections: list[tuple[str, list[Row]]]) -> str:
    """The whole table as text: a line for each promise, what was measured of it below."""
    lines = [list(COLUMNS)]
    for title, rows in sections:
        lines.append([title])
        lines += map(cells, rows)
    widths = [max(len(line[n]) for line in lines if n < len(line) > 1) for n in range(len(COLUMNS))]
    printed = [
        "  ".join(
            cell.ljust(width) if n in (0, len(COLUMNS) - 1) else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=False))
        ).rstrip()
        for line in lines
    ]
    return "\n".join(printed)


def as_json(row: Row) -> Row:
    """A row with its verdict and its quartiles, and those of each side."""
    found = {**row, "verdict": verdict(row), "quartiles": spread(row)}
    for side in ("ours", "peer"):
        if isinstance(row.get(side), Median):
            found[f"{side}_quartiles"] = quartiles(row[side].samples)
    return found
