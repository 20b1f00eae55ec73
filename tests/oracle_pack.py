"""The packing rule by brute force: slow, and short enough to be seen to be right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdall import PRIORITY_WEIGHTS, ContextItem

ALPHA = 0.25
UNKNOWN = 0.1


@dataclass
class Unit:
    """Items that live or die together: their indices, what they are worth, and (tokens, fidelity) of each form."""

    members: list[int]
    priority: float
    required: bool
    forms: list[tuple[int, float]]

    @property
    def worth(self) -> float:
        return self.priority * max(self.forms[0][0], 1) ** ALPHA


def recency(turn: int, turns: Sequence[int]) -> float:
    """Fading relative to the largest turn index."""
    newest, oldest = max(turns), min(turns)
    span = max(newest, 1, newest - oldest)
    return math.exp(-2.0 * (newest - turn) / span)


def fidelity(tokens: int, full: int) -> float:
    return 0.7 * min(max(tokens, 1) / max(full, 1), 1.0) ** 0.75


def forms_of(item: ContextItem) -> list[tuple[int, float]]:
    forms = [(item.tokens, 1.0)]
    for rendition in item.renditions:
        if rendition.text.strip() and rendition.tokens < item.tokens:
            forms.append((rendition.tokens, rendition.fidelity or fidelity(rendition.tokens, item.tokens)))
        else:
            forms.append(forms[0])  # not usable: the item in full
    return forms


def units(items: Sequence[ContextItem], order: Sequence[int]) -> list[Unit]:
    """Groups in order of their first members; empty items are in none."""
    together: dict[Any, list[int]] = {}
    for n in order:
        if items[n].content and items[n].content.strip():
            together.setdefault(items[n].group or ("alone", n), []).append(n)
    turns = [item.turn_index for item in items]
    found = []
    for members in together.values():
        weights = [PRIORITY_WEIGHTS.get(items[n].type, UNKNOWN) for n in members]
        priority = max(
            w * recency(items[n].turn_index, turns) * items[n].relevance_score
            for n, w in zip(members, weights, strict=True)
        )
        required = any(
            items[n].required if items[n].required is not None else w >= 0.9
            for n, w in zip(members, weights, strict=True)
        )
        own = [forms_of(items[n]) for n in members]
        full = sum(forms[0][0] for forms in own)
        shown = []
        for level in range(max(map(len, own))):
            at = [forms[min(level, len(forms) - 1)] for forms in own]
            tokens = sum(t for t, _ in at)
            kept = sum(f * forms[0][0] for (_, f), forms in zip(at, own, strict=True)) / max(full, 1)
            if level == 0 or tokens < full:
                shown.append((tokens, 1.0 if level == 0 else kept))
        found.append(Unit(members, priority, required, shown))
    return found


def choices(units: Sequence[Unit], budget: int) -> Iterator[tuple[float, float, list[tuple[int, float] | None]]]:
    """Every choice within the budget: (value of the required, value of the optional, forms)."""
    must_all_fit = sum(u.forms[0][0] for u in units if u.required) <= budget
    options = []
    for unit in units:
        if unit.required:
            options.append(unit.forms[:1] if must_all_fit else unit.forms)
        else:
            options.append([None, *unit.forms])
    for picked in itertools.product(*options):
        if sum(form[0] for form in picked if form) <= budget:
            value = [u.worth * form[1] if form else 0.0 for u, form in zip(units, picked, strict=True)]
            yield (
                sum(v for v, u in zip(value, units, strict=True) if u.required),
                sum(v for v, u in zip(value, units, strict=True) if not u.required),
                list(picked),
            )


def best(items: Sequence[ContextItem], budget: int) -> tuple[float, float] | None:
    """The largest value of the required, and of the optional with it; None where the required do not fit."""
    order = sorted(range(len(items)), key=lambda n: items[n].position)
    found = [(must, may) for must, may, _ in choices(units(items, order), budget)]
    if not found:
        return None
    most = max(must for must, _ in found)
    return most, max(may for must, may in found if must >= most - 1e-9 * max(1.0, most))
